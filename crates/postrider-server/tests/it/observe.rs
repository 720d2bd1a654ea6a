//! What operators see of consumers that pull and consumers that report: metrics, and an error for each dead delivery. And
//! whether the server is ready, and the jobs.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use postrider::prelude::*;
use postrider::store::{JobOutcome, JobPlan, JobStart};
use postrider::testing::Age;
use postrider_server::Options;
use serde_json::{Value, json};

use super::desk::{Desk, read};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The fields of every error.
    fn errors(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["level"] == "ERROR").map(|line| line["fields"].clone()).collect()
    }
}

/// Runs on one thread, so that only this test's metrics and log lines are collected.
fn observed(test: impl AsyncFnOnce(&Desk)) -> (String, Vec<Value>) {
    let (log, recorder) = (Log::default(), PrometheusBuilder::new().build_recorder());
    let (writer, metrics) = (log.clone(), recorder.handle());
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(async {
                let desk = Desk::with(Options { metrics: Some(metrics.clone()), ..Options::default() }).await;
                test(&desk).await;
                desk.close().await;
            });
        });
    });
    (metrics.render(), log.errors())
}

/// The value of a metric.
fn value(metrics: &str, name: &str) -> Option<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

async fn settle(desk: &Desk, delivery: &Value, more: Value) {
    let mut result = json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"] });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    desk.ask("consumer", "/consumers/points/settle", json!({ "results": [result] }), 200).await;
}

/// A.5, A.16, A.18: what a pulling consumer settles is counted, and a delivery that it gives up is an error in the log with what is
/// needed to find it and how many wait behind it.
#[test]
fn a_pulling_consumer_is_counted_and_its_dead_deliveries_are_logged() {
    let (metrics, errors) = observed(async |desk| {
        desk.subscribe("order.paid", "points", json!({})).await;
        for id in ["done", "dead", "behind", "behind2"] {
            let key = if id == "done" { "other" } else { "one" };
            let event = json!({ "eventId": id, "topic": "order.paid", "payload": 1, "key": key, "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "initiator": { "clientRequestId": "r-17" } });
            desk.publish(event, 202).await;
        }
        let claimed = desk.claim("points", 2).await;
        let of = |id: &str| claimed.iter().find(|one| one["event"]["eventId"] == id).unwrap();
        settle(desk, of("done"), json!({ "success": true })).await;
        settle(desk, of("done"), json!({ "success": true })).await;
        settle(desk, of("dead"), json!({ "success": false })).await;
        desk.store.age(Duration::from_secs(60)).await.unwrap();
        let again = desk.claim("points", 1).await;
        let gone = json!({ "success": false, "willRetry": false, "errorMessage": "no wallet", "errorCode": "wallet" });
        settle(desk, &again[0], gone).await;
    });
    for (name, expected) in [
        ("postrider_outbox_events_sent_total", 1),
        ("postrider_outbox_events_failed_total", 2),
        ("postrider_outbox_events_dead_total", 1),
        ("postrider_consumer_events_consumed_total{consumer=\"points\"}", 1),
        ("postrider_consumer_events_failed_total{consumer=\"points\"}", 2),
        ("postrider_relay_lease_lost_total", 1),
    ] {
        assert_eq!(value(&metrics, name), Some(expected), "{name} of {metrics}");
    }
    let [dead] = &errors[..] else { panic!("one error: {errors:#?}") };
    for (field, expected) in [
        ("message", json!("DEAD: given up. Redrive it when the cause is repaired")),
        ("consumer", json!("points")),
        ("event_id", json!("dead")),
        ("topic", json!("order.paid")),
        ("trace_id", json!("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("request_id", json!("r-17")),
        ("key", json!("one")),
        ("code", json!("wallet")),
        ("error", json!("no wallet")),
        ("attempts", json!(2)),
        ("held", json!(2)),
    ] {
        assert_eq!(dead[field], expected, "{field} of {dead}");
    }
}

/// A.5: a delivery whose holders were lost in every attempt is an error in the log too.
#[test]
fn a_pulling_consumer_that_is_lost_leaves_an_error() {
    let (metrics, errors) = observed(async |desk| {
        desk.subscribe("order.paid", "points", json!({})).await;
        desk.publish(json!({ "eventId": "e", "topic": "order.paid", "payload": 1, "maxAttempts": 1 }), 202).await;
        assert_eq!(desk.claim("points", 1).await.len(), 1);
        desk.store.age(Duration::from_secs(60)).await.unwrap();
        assert!(desk.claim("points", 1).await.is_empty(), "its attempts are used up");
    });
    assert_eq!(value(&metrics, "postrider_outbox_events_dead_total"), Some(1), "{metrics}");
    let [dead] = &errors[..] else { panic!("one error: {errors:#?}") };
    assert_eq!((&dead["event_id"], &dead["code"]), (&json!("e"), &json!("exhausted")), "{dead}");
}

/// A.5, A.18: what a remote consumer reports is counted, a repeated report as idempotent, and a failure for good is an error
/// in the log.
#[test]
fn a_reporting_consumer_is_counted_and_its_dead_events_are_logged() {
    let (metrics, errors) = observed(async |desk| {
        desk.subscribe("order.paid", "remote", json!({ "via": "external" })).await;
        for id in ["a", "b"] {
            desk.publish(json!({ "eventId": id, "topic": "order.paid", "payload": 1, "key": "k" }), 202).await;
        }
        let report = async |id: &str, body: Value, expected: u16| {
            desk.ask("consumer", &format!("/events/{id}/consumptions"), body, expected).await;
        };
        let success = json!({ "consumerId": "remote", "success": true, "callbackId": "1" });
        report("a", success.clone(), 201).await;
        report("a", success, 200).await;
        report("b", json!({ "consumerId": "remote", "success": false, "willRetry": true }), 201).await;
        let gone =
            json!({ "consumerId": "remote", "success": false, "errorMessage": "no such user", "errorCode": "user" });
        report("b", gone, 201).await;
    });
    for (name, expected) in [
        ("postrider_consumer_events_consumed_total{consumer=\"remote\"}", 1),
        ("postrider_consumer_events_idempotent_total{consumer=\"remote\"}", 1),
        ("postrider_consumer_events_failed_total{consumer=\"remote\"}", 2),
        ("postrider_outbox_events_dead_total", 1),
    ] {
        assert_eq!(value(&metrics, name), Some(expected), "{name} of {metrics}");
    }
    let [dead] = &errors[..] else { panic!("one error: {errors:#?}") };
    for (field, expected) in [
        ("consumer", json!("remote")),
        ("event_id", json!("b")),
        ("topic", json!("order.paid")),
        ("key", json!("k")),
        ("code", json!("user")),
        ("error", json!("no such user")),
        ("attempts", json!(2)),
    ] {
        assert_eq!(dead[field], expected, "{field} of {dead}");
    }
}

/// G.9: a server whose program and tables differ serves nothing, and tells which of them is old.
#[tokio::test]
async fn a_server_with_other_tables_is_not_ready() {
    let desk = Desk::open().await;
    let ready = async || desk.client.get(format!("{}/readyz", desk.url)).send().await.unwrap();
    assert_eq!(ready().await.status(), 200);
    desk.execute("UPDATE postrider_migrations SET success = false WHERE version >= 9").await;
    let old = read(ready().await, 503).await;
    assert_eq!(old["code"], "schemaOld", "{old}");
    assert!(old["detail"].as_str().unwrap().contains("postrider migrate up"), "{old}");
    desk.execute("UPDATE postrider_migrations SET success = true").await;
    assert_eq!(ready().await.status(), 200);
    desk.execute("UPDATE postrider_migrations SET version = 9999 WHERE version = 1").await;
    assert_eq!(read(ready().await, 503).await["code"], "schemaNew");
    desk.close().await;
}

/// G.9: the schedule of each job, when it ran, who ran it and how that ended.
#[tokio::test]
async fn the_jobs_show_their_last_and_next_run() {
    let desk = Desk::open().await;
    assert_eq!(read(desk.get("viewer", "/jobs").await, 200).await, json!({ "jobs": [] }));
    let now = desk.store.now().await.unwrap();
    let (slot, next) = (now - Duration::from_secs(60), now + Duration::from_secs(3_600));
    let plan = JobPlan { name: "reaper", schedule: "0 */5 * * * ?", zone: "Asia/Shanghai", next_slot: Some(slot) };
    desk.store.plan_job(&plan).await.unwrap();
    let jobs = async || read(desk.get("viewer", "/jobs").await, 200).await["jobs"][0].clone();
    let planned = jobs().await;
    for (field, expected) in [
        ("name", json!("reaper")),
        ("schedule", json!("0 */5 * * * ?")),
        ("timeZone", json!("Asia/Shanghai")),
        ("lastFire", Value::Null),
        ("owner", Value::Null),
        ("success", Value::Null),
    ] {
        assert_eq!(planned[field], expected, "{field} of {planned}");
    }
    let lease = Duration::from_secs(60);
    let start = JobStart { name: "reaper", slot: Some(slot), next_slot: Some(next), owner: "host-1", lease };
    let token = desk.store.begin_job(&start).await.unwrap().unwrap();
    let running = jobs().await;
    assert!(running["lockedUntil"].is_string() && running["lastFire"].is_string(), "{running}");
    assert_eq!(running["owner"], "host-1");
    desk.store.finish_job("reaper", token, &JobOutcome::Failed("the wallet is away".into())).await.unwrap();
    let ended = jobs().await;
    assert_eq!((&ended["success"], &ended["message"]), (&json!(false), &json!("the wallet is away")));
    assert!(
        ended["finishedAt"].is_string() && ended["lockedUntil"].is_null() && ended["nextFire"].is_string(),
        "{ended}"
    );
    assert_ne!(ended["nextFire"], planned["nextFire"]);
    desk.close().await;
}
