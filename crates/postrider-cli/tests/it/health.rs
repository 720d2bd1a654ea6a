//! The health of an installation: its processes, and what no process runs.

use reqwest::Method;
use serde_json::{Value, json};

use crate::alerts::healthy;
use crate::process::{Database, Kind, Process, RelayProcess};
use crate::{postrider, stdout};

/// Whether a list of objects has one with this member.
fn has(list: &Value, member: &str, value: &str) -> bool {
    list.as_array().unwrap().iter().any(|one| one[member] == value)
}

async fn loops_and_lanes_without_a_process_are_named(kind: Kind) {
    let database = Database::make(kind).await;
    let api = Process::start(&database, &["--role", "api"]);
    let token = api.token().to_owned();
    api.admin(Method::PUT, "/subscriptions/order.paid/old-name", json!({ "via": "local" }), 200).await;
    api.admin(Method::POST, "/events", json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;

    let shown = healthy(&api, &token, |health| health["instances"].as_array().unwrap().len() == 1).await;
    let instance = &shown["instances"][0];
    assert_eq!((&instance["role"], &instance["version"]), (&json!("api"), &json!(env!("CARGO_PKG_VERSION"))));
    assert_eq!(shown["unservedLanes"], json!([{ "lane": "old-name", "waiting": 1 }]), "{shown}");
    for name in ["router", "rollup", "operations", "retention", "alerts", "promises"] {
        assert!(has(&shown["unservedLoops"], "name", name), "{name} of {shown}");
    }
    let store = &shown["store"];
    let expected = match kind {
        Kind::Sqlite => "sqlite",
        Kind::Postgres => "postgres",
        Kind::MySql => "mysql",
    };
    assert_eq!((store["kind"].as_str(), &store["schema"]["found"]), (Some(expected), &store["schema"]["needed"]));
    assert!(store["latencyMs"].as_f64().unwrap() > 0.0 && store["sizes"][0]["bytes"].as_u64().unwrap() > 0, "{store}");
    assert!(store["clockDifferenceMs"].as_i64().unwrap().abs() < 5_000, "{store}");
    let doctor = postrider(&["doctor", "--store", &database.url, "-o", "json"]);
    assert_eq!(doctor.status.code(), Some(4));
    let found: Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    let failed: Vec<_> = found.as_array().unwrap().iter().filter(|one| one["ok"] == false).collect();
    let finding = |check: &str, part: &str| {
        failed.iter().any(|one| one["check"] == check && one["finding"].as_str().unwrap().contains(part))
    };
    assert!(finding("lanes", "old-name") && finding("loops", "rollup"), "{failed:?}");

    let relay = RelayProcess::start(&[&database], "relay.log", &[]);
    let shown = healthy(&api, &token, |health| health["unservedLoops"] == json!([])).await;
    let roles = shown["instances"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap());
    assert_eq!(roles.collect::<Vec<_>>(), ["api", "relay"], "{shown}");
    assert_eq!(shown["unservedLanes"][0]["lane"], "old-name", "a relay does not serve what no code consumes");
    relay.stop();
    let shown = healthy(&api, &token, |health| health["instances"].as_array().unwrap().len() == 1).await;
    assert!(has(&shown["unservedLoops"], "name", "router"), "a process that has ended runs nothing: {shown}");

    // A consumer that claims is served by itself.
    api.admin(Method::PUT, "/subscriptions/order.sent/puller", json!({ "via": "pull" }), 200).await;
    api.admin(Method::POST, "/events", json!({ "eventId": "p", "topic": "order.sent", "payload": 1 }), 202).await;
    healthy(&api, &token, |health| has(&health["unservedLanes"], "lane", "puller")).await;
    api.admin(Method::POST, "/consumers/puller/claim", json!({ "max": 1 }), 200).await;
    healthy(&api, &token, |health| !has(&health["unservedLanes"], "lane", "puller")).await;

    let log = || std::fs::read_to_string(database.folder().join("log")).unwrap();
    let warned = async {
        while !log().contains("no process serves their lane") {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), warned).await.expect("a warning at the start");
    let warning = log().lines().find(|line| line.contains("no process serves their lane")).unwrap().to_owned();
    assert!(warning.contains("WARN") && warning.contains("old-name"), "{warning}");
    assert!(
        log().lines().any(|line| line.contains("no process runs this loop") && line.contains("rollup")),
        "{}",
        log()
    );
    api.stop();
    database.drop().await;
}

/// G.9: a lane with waiting deliveries after a consumer was renamed, and loops that are not run, are named at the start, in
/// the health and by the doctor; also from another process, and until a process that runs them is there.
#[tokio::test]
async fn loops_and_lanes_without_a_process_are_named_on_sqlite() {
    loops_and_lanes_without_a_process_are_named(Kind::Sqlite).await;
}

#[tokio::test]
async fn loops_and_lanes_without_a_process_are_named_on_postgres() {
    loops_and_lanes_without_a_process_are_named(Kind::Postgres).await;
}

#[tokio::test]
async fn loops_and_lanes_without_a_process_are_named_on_mysql() {
    loops_and_lanes_without_a_process_are_named(Kind::MySql).await;
}

/// Waits until a gauge of the lane has a value.
async fn gauge(server: &Process, name: &str, lane: &str, expected: &str) {
    let line = format!("{name}{{consumer=\"{lane}\"}} {expected}");
    let reading = async {
        loop {
            let request = server.client.get(format!("{}/metrics", server.url)).bearer_auth(server.token());
            let metrics = request.send().await.unwrap().text().await.unwrap();
            if metrics.lines().any(|shown| shown == line) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), reading).await.unwrap_or_else(|_| panic!("{line}"));
}

/// A.18: a lane has its gauges before its first delivery, and they return to zero. What the stores count is in their suite.
#[tokio::test]
async fn the_gauges_of_a_lane_follow_it_and_return_to_zero() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let settle = async |success: bool| {
        let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 200).await;
        let delivery = &claimed["deliveries"][0];
        let result = json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"],
            "success": success, "willRetry": false });
        server.admin(Method::POST, "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    };
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({ "via": "pull" }), 200).await;
    gauge(&server, "postrider_consumer_lag", "points", "0").await;
    for id in ["a", "b"] {
        let event = json!({ "eventId": id, "topic": "order.paid", "payload": 1 });
        server.admin(Method::POST, "/events", event, 202).await;
    }
    gauge(&server, "postrider_consumer_lag", "points", "2").await;
    settle(true).await;
    settle(false).await;
    gauge(&server, "postrider_consumer_lag", "points", "0").await;
    gauge(&server, "postrider_consumer_dead", "points", "1").await;
    server.stop();
    database.drop().await;
}
