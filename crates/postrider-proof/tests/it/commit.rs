//! The connection fails after COMMIT was sent: the database has committed, but the client has no answer.

use postrider::store::postgres::PostgresStore;
use postrider::{Consumer, Draft, Enlist, Enqueued, Error, Event, Failure, Inbox, Outbox, Received, Relay};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::database::{Database, TIMEOUT};

#[derive(Serialize, Deserialize)]
struct Done {
    counter: String,
}

impl Event for Done {
    const TOPIC: &'static str = "work.done";
}

fn draft(event: &str) -> Draft {
    Draft::of(&Done { counter: event.into() }).unwrap().event_id(event)
}

fn events(event: &str) -> String {
    format!("SELECT count(*) FROM postrider_event WHERE event_id = '{event}'")
}

/// F34: committed, but the client does not know. Writing the same id again is a duplicate, never a second event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_one_event_on_postgres() {
    let database = Database::postgres().await;
    let (proxy, url) = database.proxy().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let outbox = Outbox::new(store.clone());

    let mut tx = store.begin().await.unwrap();
    outbox.enqueue(&mut tx, draft("known")).await.unwrap();
    proxy.hold_answers();
    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(tx).await }
    });
    database.until(&events("known"), 1).await;
    proxy.reset();
    let unknown = committing.await.unwrap();
    assert!(matches!(unknown, Err(Error::Unavailable(_))), "neither success nor failure is reported: {unknown:?}");

    let mut tx = store.begin().await.unwrap();
    let again = outbox.enqueue(&mut tx, draft("known")).await.unwrap();
    assert!(matches!(again, Enqueued::Duplicate(_)), "{again:?}");
    store.commit(tx).await.unwrap();
    assert_eq!(database.number(&events("known")).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 1);
    database.finish().await;
}

/// F34: the connection fails before COMMIT arrives. The repeated call writes the event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_repeated_on_postgres() {
    let database = Database::postgres().await;
    let (proxy, url) = database.proxy().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let outbox = Outbox::new(store.clone());

    let mut tx = store.begin().await.unwrap();
    outbox.enqueue(&mut tx, draft("lost")).await.unwrap();
    proxy.stall();
    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(tx).await }
    });
    proxy.reset();
    assert!(matches!(committing.await.unwrap(), Err(Error::Unavailable(_))));
    // The server has noticed the reset and rolled the transaction back.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    database.until(open, 0).await;
    assert_eq!(database.number(&events("lost")).await, 0);

    let mut tx = store.begin().await.unwrap();
    let again = outbox.enqueue(&mut tx, draft("lost")).await.unwrap();
    assert!(matches!(again, Enqueued::Accepted(_)), "{again:?}");
    store.commit(tx).await.unwrap();
    assert_eq!(database.number(&events("lost")).await, 1);
    database.finish().await;
}

struct Count;

impl Consumer<PostgresStore> for Count {
    const NAME: &'static str = "count";
    type Event = Done;

    async fn handle(&self, tx: &mut PgConnection, done: Received<Done>) -> Result<(), Failure> {
        let add = sqlx::query("UPDATE counter SET n = n + 1 WHERE name = $1").bind(&done.counter);
        add.execute(&mut *tx).await?;
        sqlx::query("INSERT INTO effect_log (name, worker) VALUES ($1, 0)").bind(&done.counter).execute(tx).await?;
        Ok(())
    }
}

/// F34: the answer to a consumer's commit is lost. The relay assumes a failure; there is still one effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_whose_commit_is_not_answered_has_one_effect_on_postgres() {
    let database = Database::postgres().await;
    // A deferred trigger makes COMMIT wait inside the server until the test releases the lock.
    database
        .execute(
            "CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_advisory_xact_lock_shared(34); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER wait_at_commit AFTER UPDATE ON counter
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit();
             INSERT INTO counter (name, n) VALUES ('e', 0)",
        )
        .await;
    let (proxy, url) = database.proxy().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let direct = PostgresStore::connect(database.url()).await.unwrap();
    let mut gate = direct.begin().await.unwrap();
    sqlx::query("SELECT pg_advisory_xact_lock(34)").execute(&mut *gate).await.unwrap();
    let mut tx = direct.begin().await.unwrap();
    Outbox::new(direct.clone()).enqueue(&mut tx, draft("e")).await.unwrap();
    direct.commit(tx).await.unwrap();

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let relay = Relay::new(store.clone(), Inbox::new(store.clone()).consumer(Count));
    let relay = tokio::spawn(relay.run(async { stopped.await.unwrap_or_default() }));
    let committing = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND query = 'COMMIT' AND wait_event = 'advisory'";
    database.until(committing, 1).await;
    proxy.hold_answers();
    direct.commit(gate).await.unwrap();
    database.until("SELECT n FROM counter WHERE name = 'e'", 1).await;
    proxy.reset();

    // The relay records its failure after it reconnects. The delivery is gone, so the write changes nothing.
    let mut tx = direct.begin().await.unwrap();
    sqlx::query("INSERT INTO counter (name, n) VALUES ('next', 0)").execute(&mut *tx).await.unwrap();
    Outbox::new(direct.clone()).enqueue(&mut tx, draft("next")).await.unwrap();
    direct.commit(tx).await.unwrap();
    database.until("SELECT n FROM counter WHERE name = 'next'", 1).await;
    stop.send(()).unwrap();
    tokio::time::timeout(TIMEOUT, relay).await.expect("it ends").unwrap().unwrap();
    database.every_effect_happened_once(2).await;
    database.finish().await;
}
