//! One process without a broker: each deletion cleans the playlists once.

use reqwest::Method;
use serde_json::json;

use crate::database::{Database, over_every_store};
use crate::process::{Process, count};

over_every_store! {
    /// E.3, E.4
    a_deletion_cleans_playlists_once_and_is_logged,
    /// E.3
    the_same_event_again_changes_and_logs_nothing,
    /// E.3
    a_user_who_comes_back_and_goes_again_is_another_deletion,
    /// E.3
    kills_at_any_moment_lose_no_cleaning_and_double_none,
    /// E.4
    without_a_broker_no_connection_to_one_is_tried,
}

async fn a_deletion_cleans_playlists_once_and_is_logged(database: &Database) {
    let mut all = Process::start(database.url(), &[]).await;
    for path in ["/users/zoe", "/users/bob", "/songs/blue", "/songs/so%20what"] {
        all.post(path).await;
    }
    all.put_playlist("late", "zoe", &["blue", "so what"]).await;
    all.put_playlist("early", "zoe", &["blue"]).await;
    all.put_playlist("noon", "bob", &["so what", "blue", "so what"]).await;

    let song = all.delete("/songs/so%20what").await;
    all.logs(&["Consumed", &song]).await;
    assert_eq!(all.songs_of("late").await, Some(json!(["blue"])));
    assert_eq!(all.songs_of("early").await, Some(json!(["blue"])));
    assert_eq!(all.songs_of("noon").await, Some(json!(["blue"])));

    let user = all.delete("/users/zoe").await;
    all.logs(&["Consumed", &user]).await;
    assert_eq!(all.songs_of("late").await, None);
    assert_eq!(all.songs_of("early").await, None);
    assert_eq!(all.songs_of("noon").await, Some(json!(["blue"])), "bob is still here");

    let log = all.stop().await;
    for (topic, event) in [("song.deleted", &song), ("user.deleted", &user)] {
        assert_eq!(database.cleanings_after(event).await, 1);
        for line in ["Outbox enqueued", "Outbox published", "Consumed"] {
            assert_eq!(count(&log, &[line, topic, event]), 1, "{line} {topic}:\n{}", log.join("\n"));
        }
    }
    // None of these words can be part of an id, because ids are hexadecimal.
    let secrets = ["zoe", "blue", "so what", "late"];
    assert!(secrets.iter().all(|word| count(&log, &[word]) == 0), "payloads are not logged:\n{}", log.join("\n"));
}

async fn the_same_event_again_changes_and_logs_nothing(database: &Database) {
    let mut all = Process::start(database.url(), &[]).await;
    all.post("/users/zoe").await;
    all.put_playlist("late", "zoe", &["blue"]).await;
    let event = all.delete("/users/zoe").await;
    all.logs(&["Consumed", &event]).await;
    database.until_all_is_delivered().await;

    // The user returns and creates the playlist again. A second cleaning for the first deletion would remove it.
    all.post("/users/zoe").await;
    all.put_playlist("late", "zoe", &["blue"]).await;
    for _ in 0..3 {
        database.redrive(&event, "playlists").await;
        database.until_all_is_delivered().await;
    }
    assert_eq!(all.songs_of("late").await, Some(json!(["blue"])));
    assert_eq!(database.cleanings_after(&event).await, 1);
    assert_eq!(count(&all.stop().await, &["Consumed"]), 1);
}

async fn a_user_who_comes_back_and_goes_again_is_another_deletion(database: &Database) {
    let mut all = Process::start(database.url(), &[]).await;
    let mut events = Vec::new();
    for _ in 0..2 {
        all.post("/users/zoe").await;
        all.put_playlist("late", "zoe", &["blue"]).await;
        let event = all.delete("/users/zoe").await;
        all.logs(&["Consumed", &event]).await;
        assert_eq!(all.songs_of("late").await, None);
        events.push(event);
    }
    assert_ne!(events[0], events[1]);
    for event in &events {
        assert_eq!(database.cleanings_after(event).await, 1);
    }
    all.stop().await;
}

/// Users to delete. The process is killed after every fourth.
const USERS: u32 = 32;

async fn kills_at_any_moment_lose_no_cleaning_and_double_none(database: &Database) {
    let mut all = Process::start(database.url(), &[]).await;
    for n in 0..USERS {
        all.post(&format!("/users/u{n}")).await;
        all.put_playlist(&format!("p{n}"), &format!("u{n}"), &["blue"]).await;
    }
    for n in 0..USERS {
        let path = format!("/users/u{n}");
        match n % 8 {
            // After the response: the event is stored, and possibly being delivered.
            3 => drop(all.delete(&path).await),
            // Before the response: either both event and deletion are committed, or neither.
            7 => all.begin_to_delete(&path),
            _ => {
                all.delete(&path).await;
                continue;
            }
        }
        all.kill().await;
        database.outlast_leases().await;
        all = Process::start(database.url(), &[]).await;
        let (status, body) = all.ask(Method::DELETE, &path, None).await;
        assert!(status == 404 || n % 8 == 7 && status == 200, "{status} {body}");
    }
    let once = i64::from(USERS);
    database.until("SELECT count(*) FROM cleanings", once).await;
    database.until_all_is_delivered().await;
    assert_eq!(database.number("SELECT count(*) FROM postrider_event").await, once, "one event a deletion");
    assert_eq!(database.number("SELECT count(*) FROM cleanings WHERE n <> 1").await, 0, "one cleaning an event");
    assert_eq!(database.number("SELECT count(*) FROM playlists").await, 0);
    all.stop().await;
}

/// Checks the sockets of the process after its work: its listener,
/// accepted connections, and connections to its database.
async fn without_a_broker_no_connection_to_one_is_tried(database: &Database) {
    let mut all = Process::start(database.url(), &[]).await;
    all.post("/users/zoe").await;
    let event = all.delete("/users/zoe").await;
    all.logs(&["Consumed", &event]).await;

    let mut allowed = vec![all.port()];
    if let Some((_, server)) = database.url().split_once('@') {
        allowed.push(server.split('/').next().unwrap().rsplit_once(':').unwrap().1.parse().unwrap());
    }
    let sockets = tcp_sockets(all.id());
    assert!(!sockets.is_empty(), "the listener at least is seen");
    for (local, remote) in sockets {
        assert!(allowed.contains(&local) || allowed.contains(&remote), "a connection from port {local} to {remote}");
    }
    let log = all.stop().await;
    assert_eq!(count(&log, &["rabbitmq"]) + count(&log, &["amqp"]), 0, "{}", log.join("\n"));
}

/// The local and remote port of every TCP socket of a process, as Linux lists them.
fn tcp_sockets(process: u32) -> Vec<(u16, u16)> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let files: Vec<_> = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok()).collect();
    let is_its_own = |inode: &str| files.iter().any(|file| file.as_os_str() == format!("socket:[{inode}]").as_str());
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':').unwrap().1, 16).unwrap();
    let mut sockets = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            if is_its_own(fields[9]) {
                sockets.push((port(fields[1]), port(fields[2])));
            }
        }
    }
    sockets
}
