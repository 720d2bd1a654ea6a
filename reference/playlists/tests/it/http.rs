//! The HTTP responses: status codes, and problems with a remedy.

use reqwest::Method;
use serde_json::{Value, json};

use crate::database::Database;
use crate::process::Process;

/// E.3
#[tokio::test]
async fn every_mistake_has_its_code_and_a_reason() {
    let database = Database::sqlite();
    let all = Process::start(database.url(), &[]).await;
    let too_long = format!("/users/{}", "a".repeat(101));
    let just_fits = format!("/users/{}", "号".repeat(100));
    all.post(&just_fits).await;
    all.post("/users/ada").await;
    all.post("/songs/blue").await;

    let body = |body: Value| Some(body.to_string());
    let many: Vec<_> = (0..501).map(|n| n.to_string()).collect();
    for (method, path, body, status, code) in [
        (Method::POST, "/users/ada", None, 409, "exists"),
        (Method::POST, "/songs/blue", None, 409, "exists"),
        (Method::DELETE, "/users/bob", None, 404, "notFound"),
        (Method::DELETE, "/songs/red", None, 404, "notFound"),
        (Method::GET, "/playlists/none", None, 404, "notFound"),
        (Method::GET, "/nowhere", None, 404, "notFound"),
        (Method::GET, "/users/ada", None, 405, "methodNotAllowed"),
        (Method::POST, "/users/%ff", None, 400, "badPath"),
        (Method::POST, "/users/%20ada", None, 422, "invalid"),
        (Method::POST, "/users/a%00", None, 422, "invalid"),
        (Method::POST, &too_long, None, 422, "invalid"),
        (Method::PUT, "/playlists/p", None, 415, "badBody"),
        (Method::PUT, "/playlists/p", Some("{".into()), 400, "badBody"),
        (Method::PUT, "/playlists/p", body(json!({"owner": "ada"})), 422, "badBody"),
        (Method::PUT, "/playlists/p", body(json!({"owner": "ada", "songs": [], "x": 1})), 422, "badBody"),
        (Method::PUT, "/playlists/p", body(json!({"owner": "", "songs": []})), 422, "invalid"),
        (Method::PUT, "/playlists/p", body(json!({"owner": "ada", "songs": ["blue", "\n"]})), 422, "invalid"),
        (Method::PUT, "/playlists/p", body(json!({"owner": "ada", "songs": many})), 422, "invalid"),
        (Method::PUT, "/playlists/p", Some(" ".repeat(600 * 1024)), 413, "badBody"),
    ] {
        let (got, problem) = all.ask_raw(method, path, body).await;
        let problem: Value = serde_json::from_str(&problem).unwrap();
        assert_eq!((got, problem["code"].as_str()), (status, Some(code)), "{path}: {problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{path}: {problem}");
        if code == "invalid" {
            assert!(problem["errors"][0]["field"].is_string(), "{path}: {problem}");
        }
    }
    assert_eq!(all.songs_of("p").await, None, "nothing of what was refused is there");
    all.stop().await;
    database.finish().await;
}

/// E.3
#[tokio::test]
async fn a_playlist_is_made_and_replaced_as_a_whole() {
    let database = Database::sqlite();
    let all = Process::start(database.url(), &[]).await;
    all.put_playlist("late%2Fnight", "ada", &["blue", "so what", "blue"]).await;
    let (status, body) = all.ask(Method::GET, "/playlists/late%2Fnight", None).await;
    assert_eq!(status, 200);
    assert_eq!(body, json!({"name": "late/night", "owner": "ada", "songs": ["blue", "so what", "blue"]}));

    let other = json!({"owner": "bob", "songs": ["red"]});
    assert_eq!(all.ask(Method::PUT, "/playlists/late%2Fnight", Some(other)).await.0, 200);
    let (_, body) = all.ask(Method::GET, "/playlists/late%2Fnight", None).await;
    assert_eq!(body, json!({"name": "late/night", "owner": "bob", "songs": ["red"]}));
    all.stop().await;
    database.finish().await;
}

/// E.3
#[tokio::test]
async fn a_service_by_itself_serves_its_own_paths_only() {
    let database = Database::sqlite();
    let users = Process::start(database.url(), &["--service", "users"]).await;
    users.post("/users/ada").await;
    assert_eq!(users.ask(Method::POST, "/songs/blue", None).await.0, 404);
    assert_eq!(users.ask(Method::GET, "/playlists/late", None).await.0, 404);
    users.stop().await;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('users', 'songs', 'playlists')";
    assert_eq!(database.number(tables).await, 1, "and has its own tables only");
    database.finish().await;
}
