//! Sessions of a browser.

use reqwest::header::{COOKIE, HOST, ORIGIN, SET_COOKIE};
use reqwest::{RequestBuilder, Response};
use serde_json::json;

use super::desk::{Desk, read};

async fn login(desk: &Desk, role: &str) -> Response {
    let body = json!({ "token": desk.tokens[role] });
    desk.client.post(format!("{}/api/v1/login", desk.url)).json(&body).send().await.unwrap()
}

fn cookie(response: &Response) -> String {
    response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
}

fn pause(desk: &Desk, cookie: &str) -> RequestBuilder {
    desk.client.post(format!("{}/api/v1/consumers/points/pause", desk.url)).header(COOKIE, cookie)
}

/// S6
#[tokio::test]
async fn a_session_does_what_its_token_may_until_it_is_ended() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let response = login(&desk, "operator").await;
    let set = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(set.contains("; HttpOnly; SameSite=Strict; Max-Age=28800"), "{set}");
    let session = cookie(&response);
    assert_eq!(read(response, 200).await, json!({ "name": "operator", "role": "operator" }));
    read(pause(&desk, &session).send().await.unwrap(), 204).await;
    let tokens = desk.client.get(format!("{}/api/v1/tokens", desk.url)).header(COOKIE, &session);
    read(tokens.send().await.unwrap(), 403).await;

    let again = cookie(&login(&desk, "operator").await);
    assert_ne!(again, session, "each login has a session of its own");
    let logout = desk.client.post(format!("{}/api/v1/logout", desk.url)).header(COOKIE, &session);
    let ended = logout.send().await.unwrap();
    assert!(ended.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    read(ended, 204).await;
    read(pause(&desk, &session).send().await.unwrap(), 401).await;
    read(pause(&desk, &again).send().await.unwrap(), 204).await;
    desk.close().await;
}

/// S6: behind TLS the cookie insists on it.
#[tokio::test]
async fn a_secure_server_has_secure_cookies() {
    let options = postrider_server::Options { secure: true, ..Default::default() };
    let desk = Desk::with(options).await;
    let set = login(&desk, "viewer").await.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(set.ends_with("; Secure"), "{set}");
    desk.close().await;
}

/// S7: what changes something comes from our own pages, or from no page.
#[tokio::test]
async fn a_browser_on_another_site_changes_nothing() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let session = cookie(&login(&desk, "operator").await);
    let host = desk.url.trim_start_matches("http://").to_owned();
    let with = |name: &str, value: &str| pause(&desk, &session).header(name, value);
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", &format!("http://{host}.evil.example")),
        ("origin", &format!("http://evil.example/{host}")),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let refused = read(with(name, value).send().await.unwrap(), 403).await;
        assert_eq!(refused["code"], "crossOrigin", "{name}: {value}");
    }
    for (name, value) in [("origin", format!("http://{host}").as_str()), ("sec-fetch-site", "same-origin")] {
        read(with(name, value).send().await.unwrap(), 204).await;
    }
    let planted = desk.client.post(format!("{}/api/v1/login", desk.url)).header(ORIGIN, "https://evil.example");
    read(planted.json(&json!({ "token": desk.tokens["viewer"] })).send().await.unwrap(), 403).await;
    desk.close().await;
}

/// S8: no other origin is ever allowed to read.
#[tokio::test]
async fn no_origin_is_ever_reflected() {
    let desk = Desk::open().await;
    for origin in ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:7070", "file://", "*"] {
        let response = desk.request("viewer", reqwest::Method::GET, "/api/v1/jobs").header(ORIGIN, origin);
        let response = response.send().await.unwrap();
        let allowed = response.headers().keys().filter(|name| name.as_str().starts_with("access-control"));
        assert_eq!(allowed.count(), 0, "{origin}");
    }
    desk.close().await;
}

/// S10: what a request says of where it comes from proves nothing.
#[tokio::test]
async fn forwarded_headers_prove_nothing() {
    let desk = Desk::open().await;
    for (name, value) in
        [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-user", "admin"), ("forwarded", "for=127.0.0.1")]
    {
        let request =
            desk.client.get(format!("{}/api/v1/jobs", desk.url)).header(name, value).header(HOST, "localhost");
        read(request.send().await.unwrap(), 401).await;
    }
    desk.close().await;
}
