//! The process of an earlier build works on a database and dies; the process of this build takes over.
//!
//! The dumps are databases that the program of commit 67f2175 filled and left: `postrider-conformance/tests/it/upgrade.rs`
//! describes their events. `make test-upgrade` also builds that program and sets `POSTRIDER_OLD_EXECUTABLE`: it then starts
//! first, works on the dump, and is killed while it holds leases.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};

const CONSUMERS: [&str; 2] = ["points", "mail"];
/// Keyed events that the old process publishes, and their keys.
const PUBLISHED: usize = 60;
const KEYS: usize = 6;

/// What each consumer has handled, in order, under both processes.
#[derive(Default)]
struct Handled(BTreeMap<&'static str, Vec<String>>);

impl Handled {
    /// Claims for a consumer, settles what came as successes, and returns how many came.
    async fn work(&mut self, server: &Process, token: &str, consumer: &'static str, max: usize) -> usize {
        let deliveries = claim(server, token, consumer, max).await;
        let settled: Vec<_> = deliveries
            .iter()
            .map(|one| json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": true }))
            .collect();
        let path = format!("/consumers/{consumer}/settle");
        let answer = server.ask(token, Method::POST, &path, json!({ "results": settled }), 200).await;
        for (one, result) in deliveries.iter().zip(answer["results"].as_array().unwrap()) {
            assert_eq!(result["outcome"], "settled", "{answer}");
            self.0.entry(consumer).or_default().push(one["event"]["eventId"].as_str().unwrap().to_owned());
        }
        deliveries.len()
    }
}

async fn claim(server: &Process, token: &str, consumer: &str, max: usize) -> Vec<Value> {
    let wanted = json!({ "max": max, "leaseSeconds": 5, "waitSeconds": 0 });
    let claimed = server.ask(token, Method::POST, &format!("/consumers/{consumer}/claim"), wanted, 200).await;
    claimed["deliveries"].as_array().unwrap().clone()
}

/// A token made directly in the store: the secret of the token in the dump is unknown.
fn rescue_token(program: &str, database: &Database) -> String {
    let arguments = ["tokens", "create", "rescue", "--role", "admin", "-o", "json", "--store", &database.url];
    let made = Command::new(program).args(arguments).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    made["secret"].as_str().unwrap().to_owned()
}

/// The old process finishes some of the work, publishes more, and is killed while it holds leases.
async fn old_process(program: &str, database: &Database, handled: &mut Handled) {
    let old = Process::start_program(program, database);
    let token = rescue_token(program, database);
    handled.work(&old, &token, "points", 2).await;
    for n in 0..PUBLISHED {
        let event = json!({ "eventId": format!("late-{n:02}"), "topic": "order.paid", "payload": {}, "key": format!("late-{}", n % KEYS) });
        old.ask(&token, Method::POST, "/events", event, 202).await;
    }
    handled.work(&old, &token, "mail", 10).await;
    assert!(!claim(&old, &token, "mail", 20).await.is_empty(), "it dies with leases");
    old.kill();
}

/// F42: nothing is lost, nothing happens twice, and every key stays in order.
async fn upgrade(kind: Kind, dump: &str) {
    let database = Database::make(kind).await;
    database.run_script(dump).await;
    let (mut handled, mut expected) = (Handled::default(), dumped());
    let old = std::env::var("POSTRIDER_OLD_EXECUTABLE").ok();
    if let Some(old) = &old {
        old_process(old, &database, &mut handled).await;
        for events in expected.values_mut() {
            events.extend((0..PUBLISHED).map(|n| format!("late-{n:02}")));
        }
    }

    let new = Process::start(&database, &[]);
    let token = rescue_token(env!("CARGO_BIN_EXE_postrider"), &database);
    let everything = async {
        while CONSUMERS.iter().any(|one| handled.0.get(one).map_or(0, Vec::len) < expected[one].len()) {
            for consumer in CONSUMERS {
                handled.work(&new, &token, consumer, 100).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), everything).await.expect("everything is handled");
    for consumer in CONSUMERS {
        assert_eq!(claim(&new, &token, consumer, 100).await, [] as [Value; 0], "nothing is left for {consumer}");
        let events = &handled.0[consumer];
        assert_eq!(events.iter().cloned().collect::<BTreeSet<_>>(), expected[consumer], "{consumer}");
        assert_eq!(events.len(), expected[consumer].len(), "{consumer} handled nothing twice");
        let of_key = |part: &dyn Fn(&str) -> bool| events.iter().filter(|id| part(id)).cloned().collect::<Vec<_>>();
        let key_7 = of_key(&|id| id.starts_with("waiting-"));
        assert!(key_7.is_sorted(), "{consumer}: {key_7:?}");
        for key in 0..KEYS {
            let late =
                of_key(&|id| id.strip_prefix("late-").is_some_and(|n| n.parse::<usize>().unwrap() % KEYS == key));
            assert!(late.is_sorted(), "{consumer}: {late:?}");
        }
    }
    for (event, status) in
        [("done-1", "CONSUMED"), ("waiting-3", "CONSUMED"), ("dead-1", "PARTIAL"), ("delayed-1", "PENDING")]
    {
        let shown = new.ask(&token, Method::GET, &format!("/events/{event}"), Value::Null, 200).await;
        assert_eq!(shown["status"], status, "{shown}");
    }
    new.stop();
    database.drop().await;
}

/// What each consumer had still to handle when the dump was made.
fn dumped() -> BTreeMap<&'static str, BTreeSet<String>> {
    let both = ["leased-1", "waiting-1", "waiting-2", "waiting-3"].map(str::to_owned);
    let mail = BTreeSet::from(both);
    let mut points = mail.clone();
    points.insert("failed-1".to_owned());
    BTreeMap::from([("points", points), ("mail", mail)])
}

#[tokio::test]
async fn a_new_process_takes_over_from_an_old_one_on_sqlite() {
    upgrade(Kind::Sqlite, include_str!("../../../postrider-conformance/fixtures/67f2175.sqlite.sql")).await;
}

#[tokio::test]
async fn a_new_process_takes_over_from_an_old_one_on_postgres() {
    upgrade(Kind::Postgres, include_str!("../../../postrider-conformance/fixtures/67f2175.postgres.sql")).await;
}

#[tokio::test]
async fn a_new_process_takes_over_from_an_old_one_on_mysql() {
    upgrade(Kind::MySql, include_str!("../../../postrider-conformance/fixtures/67f2175.mysql.sql")).await;
}
