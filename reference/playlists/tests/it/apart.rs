//! Three processes, three databases and a broker: the same guarantees over a network.

use serde_json::json;

use crate::broker::Broker;
use crate::database::Database;
use crate::process::{Process, count};

/// Runs each case over each store. The module names list the servers that are needed.
macro_rules! apart {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        mod on_sqlite_and_rabbitmq {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                use crate::database::Database;
                let apart = super::Apart {
                    broker: crate::broker::Broker::fresh().await,
                    users: Database::sqlite(),
                    songs: Database::sqlite(),
                    playlists: Database::sqlite(),
                };
                super::$case(&apart).await;
                apart.finish().await;
            })*
        }
        mod on_postgres_and_rabbitmq {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                use crate::database::Database;
                let apart = super::Apart {
                    broker: crate::broker::Broker::fresh().await,
                    users: Database::postgres().await,
                    songs: Database::postgres().await,
                    playlists: Database::postgres().await,
                };
                super::$case(&apart).await;
                apart.finish().await;
            })*
        }
        mod on_mysql_and_rabbitmq {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                use crate::database::Database;
                let apart = super::Apart {
                    broker: crate::broker::Broker::fresh().await,
                    users: Database::mysql().await,
                    songs: Database::mysql().await,
                    playlists: Database::mysql().await,
                };
                super::$case(&apart).await;
                apart.finish().await;
            })*
        }
    };
}

apart! {
    /// E.3: the verification of the requirements document, and its log lines.
    verification_1_a_deletion_in_one_process_cleans_once_in_another,
    /// E.3: the second half of that verification.
    verification_2_the_same_message_again_changes_and_logs_nothing,
    /// E.3
    kills_on_either_side_lose_no_cleaning_and_double_none,
    /// E.3
    an_event_published_before_its_queue_exists_is_retried,
    /// E.4
    a_deletion_without_a_broker_is_published_later,
    /// E.4
    one_process_may_be_given_a_broker_later,
}

struct Apart {
    broker: Broker,
    users: Database,
    songs: Database,
    playlists: Database,
}

impl Apart {
    async fn start_users(&self) -> Process {
        Process::start(self.users.url(), &["--service", "users", "--broker", self.broker.url()]).await
    }

    async fn start_songs(&self) -> Process {
        Process::start(self.songs.url(), &["--service", "songs", "--broker", self.broker.url()]).await
    }

    /// Waits until the queue exists: a message without a queue is retried only seconds later.
    async fn start_playlists(&self) -> Process {
        let arguments = ["--service", "playlists", "--broker", self.broker.url()];
        let mut playlists = Process::start(self.playlists.url(), &arguments).await;
        playlists.logs(&["reading the queue"]).await;
        playlists
    }

    async fn finish(self) {
        self.users.finish().await;
        self.songs.finish().await;
        self.playlists.finish().await;
        self.broker.finish().await;
    }
}

async fn verification_1_a_deletion_in_one_process_cleans_once_in_another(apart: &Apart) {
    let mut playlists = apart.start_playlists().await;
    let (users, songs) = (apart.start_users().await, apart.start_songs().await);
    users.post("/users/zoe").await;
    songs.post("/songs/blue").await;
    playlists.put_playlist("late", "zoe", &["blue"]).await;
    playlists.put_playlist("noon", "bob", &["blue", "so what"]).await;

    let song = songs.delete("/songs/blue").await;
    playlists.logs(&["Consumed", &song]).await;
    assert_eq!(playlists.songs_of("late").await, Some(json!([])));
    assert_eq!(playlists.songs_of("noon").await, Some(json!(["so what"])));

    let user = users.delete("/users/zoe").await;
    playlists.logs(&["Consumed", &user]).await;
    assert_eq!(playlists.songs_of("late").await, None);
    assert_eq!(playlists.songs_of("noon").await, Some(json!(["so what"])));

    apart.users.until_all_is_delivered().await;
    apart.songs.until_all_is_delivered().await;
    let (users, songs, consumed) = (users.stop().await, songs.stop().await, playlists.stop().await);
    for (log, topic, event) in [(&users, "user.deleted", &user), (&songs, "song.deleted", &song)] {
        assert_eq!(count(log, &["Outbox enqueued", topic, event]), 1, "{}", log.join("\n"));
        assert_eq!(count(log, &["Outbox published", topic, event]), 1, "{}", log.join("\n"));
        assert_eq!(count(&consumed, &["Consumed", topic, event]), 1, "{}", consumed.join("\n"));
        assert_eq!(apart.playlists.cleanings_after(event).await, 1);
    }
    for log in [users, songs, consumed] {
        let secrets = ["zoe", "blue", "guest:guest"];
        assert!(secrets.iter().all(|word| count(&log, &[word]) == 0), "{}", log.join("\n"));
    }
}

async fn verification_2_the_same_message_again_changes_and_logs_nothing(apart: &Apart) {
    let mut playlists = apart.start_playlists().await;
    let users = apart.start_users().await;
    for user in ["zoe", "bob"] {
        users.post(&format!("/users/{user}")).await;
    }
    playlists.put_playlist("late", "zoe", &["blue"]).await;
    let event = users.delete("/users/zoe").await;
    playlists.logs(&["Consumed", &event]).await;
    apart.users.until_all_is_delivered().await;

    // The user returns and creates the playlist again. A second cleaning for the first deletion would remove it.
    playlists.put_playlist("late", "zoe", &["blue"]).await;
    for _ in 0..3 {
        apart.users.redrive(&event, "rabbitmq").await;
        apart.users.until_all_is_delivered().await;
    }
    // Last in the queue: when it is consumed, the repeats have been begun, and the shutdown waits for them.
    let last = users.delete("/users/bob").await;
    playlists.logs(&["Consumed", &last]).await;
    assert_eq!(playlists.songs_of("late").await, Some(json!(["blue"])));
    assert_eq!(count(&users.stop().await, &["Outbox published", &event]), 4, "it was sent again");
    assert_eq!(count(&playlists.stop().await, &["Consumed"]), 2, "zoe's and bob's");
    assert_eq!(apart.playlists.cleanings_after(&event).await, 1);
}

/// Users to delete. After every fourth, one of the processes is killed.
const USERS: u32 = 32;

async fn kills_on_either_side_lose_no_cleaning_and_double_none(apart: &Apart) {
    let mut playlists = apart.start_playlists().await;
    let mut users = apart.start_users().await;
    for n in 0..USERS {
        users.post(&format!("/users/u{n}")).await;
        playlists.put_playlist(&format!("p{n}"), &format!("u{n}"), &["blue"]).await;
    }
    for n in 0..USERS {
        users.delete(&format!("/users/u{n}")).await;
        match n % 8 {
            // It may have consumed messages without acknowledging them. The broker redelivers those.
            3 => {
                playlists.kill().await;
                playlists = apart.start_playlists().await;
            }
            // It may have published events without settling them. It publishes those again.
            7 => {
                users.kill().await;
                apart.users.outlast_leases().await;
                users = apart.start_users().await;
            }
            _ => {}
        }
    }
    let once = i64::from(USERS);
    apart.users.until_all_is_delivered().await;
    apart.playlists.until("SELECT count(*) FROM cleanings", once).await;
    assert_eq!(apart.users.number("SELECT count(*) FROM postrider_event").await, once, "one event a deletion");
    users.stop().await;
    playlists.stop().await;
    assert_eq!(apart.playlists.number("SELECT count(*) FROM cleanings").await, once, "nothing else came");
    assert_eq!(apart.playlists.number("SELECT count(*) FROM cleanings WHERE n <> 1").await, 0, "each once");
    assert_eq!(apart.playlists.number("SELECT count(*) FROM playlists").await, 0);
}

async fn an_event_published_before_its_queue_exists_is_retried(apart: &Apart) {
    let mut users = apart.start_users().await;
    users.post("/users/zoe").await;
    let event = users.delete("/users/zoe").await;
    users.logs(&["will be tried again", "unroutable", &event]).await;

    let mut playlists = apart.start_playlists().await;
    apart.users.outlast_leases().await; // also ages the delay of the next try
    playlists.logs(&["Consumed", &event]).await;
    assert_eq!(apart.playlists.cleanings_after(&event).await, 1);
    let log = users.stop().await;
    assert_eq!(count(&log, &["BasicReturnMessage"]), 0, "what came back is not logged whole:\n{}", log.join("\n"));
    playlists.stop().await;
}

async fn a_deletion_without_a_broker_is_published_later(apart: &Apart) {
    let users = Process::start(apart.users.url(), &["--service", "users"]).await;
    users.post("/users/zoe").await;
    users.post("/users/bob").await;
    let without = users.delete("/users/zoe").await;
    users.stop().await;

    // The port is closed; requests are served all the same.
    let unreachable = ["--service", "users", "--broker", "amqp://guest:guest@127.0.0.1:9/none"];
    let mut users = Process::start(apart.users.url(), &unreachable).await;
    users.logs(&["the broker cannot be reached"]).await;
    let away = users.delete("/users/bob").await;
    let log = users.stop().await;
    assert_eq!(count(&log, &["Outbox enqueued", &away]), 1, "{}", log.join("\n"));

    let mut playlists = apart.start_playlists().await;
    let users = apart.start_users().await;
    for event in [&without, &away] {
        playlists.logs(&["Consumed", event]).await;
        assert_eq!(apart.playlists.cleanings_after(event).await, 1);
    }
    users.stop().await;
    playlists.stop().await;
}

async fn one_process_may_be_given_a_broker_later(apart: &Apart) {
    let database = &apart.playlists;
    let mut all = Process::start(database.url(), &[]).await;
    all.post("/users/zoe").await;
    let before = all.delete("/users/zoe").await;
    all.logs(&["Consumed", &before]).await;
    all.stop().await;
    // As if it was killed before it settled the delivery.
    database.redrive(&before, "playlists").await;

    let mut all = Process::start(database.url(), &["--broker", apart.broker.url()]).await;
    all.logs(&["reading the queue"]).await;
    all.post("/users/zoe").await;
    let after = all.delete("/users/zoe").await;
    all.logs(&["Consumed", &after]).await;
    database.until_all_is_delivered().await;
    let log = all.stop().await;
    assert_eq!(count(&log, &["Consumed"]), 1, "{}", log.join("\n"));
    assert_eq!(count(&log, &["Outbox published", "lane=rabbitmq", &after]), 1, "{}", log.join("\n"));
    for event in [&before, &after] {
        assert_eq!(database.cleanings_after(event).await, 1);
    }
}
