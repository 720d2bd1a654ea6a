//! A bulk redrive of fifty thousand, whose server is killed in the middle of it.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::postgres::PgPool;

use crate::process::{Database, Kind, Process};

const EVENTS: u64 = 50_000;
/// Redrives a second that the test asks for.
const RATE: u64 = 2_500;
/// How far ahead of its rate it may be seen: a transaction's worth, and what is made up for after a moment in which nothing went.
const AHEAD: u64 = 200 + RATE / 2;
/// When the server is killed: so many have been redriven by then.
const KILLED_AT: u64 = 10_000;
/// However slow the machine, an operation comes to its end within this.
const PATIENCE: Duration = Duration::from_secs(200);

/// As ten attempts of each that failed have left them: given up, for the consumer that was away.
const DEAD: &str = "
WITH written AS (
    INSERT INTO postrider_event (event_id, topic, payload, waits_for)
    SELECT 'order:' || n, 'order.paid', '{}', NULL FROM generate_series(1, 50000) n
    RETURNING seq),
attempts AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, error)
    SELECT seq, 'points', 10, false, 'the database is away' FROM written)
INSERT INTO postrider_delivery (event_seq, due_at, place, shard, attempts, lane, last_error)
SELECT seq, now(), 3, seq % 64, 10, 'points', 'the database is away' FROM written";

/// Looks at an operation until `enough` says so, and at every look holds it to its rate: now it has done `before`.
async fn watch(server: &Process, token: &str, id: &str, before: u64, enough: impl Fn(&Value) -> bool) -> Value {
    let (began, path) = (Instant::now(), format!("/operations/{id}"));
    loop {
        let shown = server.ask(token, Method::GET, &path, Value::Null, 200).await;
        let (done, seconds) = (shown["done"].as_u64().unwrap(), began.elapsed().as_secs_f64());
        assert!((done - before) as f64 <= RATE as f64 * seconds + AHEAD as f64, "too fast: {done} in {seconds} s");
        if enough(&shown) {
            return shown;
        }
        assert!(began.elapsed() < PATIENCE, "it does not come to its end: {shown}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// D.8: a bulk redrive survives a kill of its server, redrives each event once, and keeps to its rate.
#[tokio::test]
async fn a_bulk_redrive_survives_kill_9_on_postgres() {
    let database = Database::make(Kind::Postgres).await;
    let server = Process::start(&database, &[]);
    let token = server.token().to_owned();
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({ "via": "pull" }), 200).await;
    let pool = PgPool::connect(&database.url).await.unwrap();
    sqlx::query(DEAD).execute(&pool).await.unwrap();
    let wanted =
        json!({ "kind": "redrive", "filter": { "deliveryStatus": "DEAD" }, "reason": "mended", "ratePerSecond": RATE });
    let created = server.admin(Method::POST, "/operations", wanted, 202).await;
    let id = created["operationId"].as_str().unwrap();

    let working = Instant::now();
    watch(&server, &token, id, 0, |shown| shown["done"].as_u64().unwrap() >= KILLED_AT).await;
    let worked = working.elapsed();
    server.kill();
    let progress = "SELECT state, done, total FROM postrider_operation WHERE id = $1";
    let (state, done, total): (String, i64, i64) = sqlx::query_as(progress).bind(id).fetch_one(&pool).await.unwrap();
    assert!(state == "RUNNING" && 0 < done && done < total, "killed in the middle: {state}, {done} of {total}");
    assert_eq!(total as u64, EVENTS);

    let server = Process::start(&database, &[]);
    let before = done as u64;
    // Nothing happens until the lease of the dead one has run out.
    let taken_up = watch(&server, &token, id, before, |shown| shown["done"].as_u64().unwrap() > before).await;
    let working = Instant::now();
    let before = taken_up["done"].as_u64().unwrap();
    let ended = watch(&server, &token, id, before, |shown| shown["state"] != "RUNNING").await;
    let seconds = (worked + working.elapsed()).as_secs_f64();
    assert_eq!((&ended["state"], &ended["done"], &ended["total"]), (&json!("DONE"), &json!(EVENTS), &json!(EVENTS)));
    assert_eq!((&ended["failed"], &ended["skipped"]), (&json!(0), &json!(0)));
    let least = EVENTS as f64 / RATE as f64;
    assert!(seconds > least * 0.95, "{EVENTS} in {seconds} s is more than {RATE}/s");

    let waiting = "SELECT count(*), count(DISTINCT event_seq) FROM postrider_delivery WHERE place = 0 AND attempts = 0";
    let waiting: (i64, i64) = sqlx::query_as(waiting).fetch_one(&pool).await.unwrap();
    assert_eq!(waiting, (EVENTS as i64, EVENTS as i64), "each is due again");
    let redrives = "SELECT count(*), min(redrives), max(redrives) FROM postrider_status";
    let redrives: (i64, i32, i32) = sqlx::query_as(redrives).fetch_one(&pool).await.unwrap();
    assert_eq!(redrives, (EVENTS as i64, 1, 1), "each once");
    let one = server.ask(&token, Method::GET, "/events/order:1", Value::Null, 200).await;
    assert_eq!((&one["retryCount"], &one["deliveries"][0]["status"]), (&json!(1), &json!("NEW")));
    pool.close().await;
    server.stop();
    database.drop().await;
}
