//! The commands that talk to a server: what they print, and with which exit code they end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};
use crate::{postrider, stderr, stdout};

/// `publish`, `listen`, `events show` and `events trace` show one event.
#[tokio::test]
async fn the_story_of_one_event_in_a_terminal() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let unheard = server.run(&["publish", "order.paid", "--data", "{}", "-o", "json"]);
    let skipped: Value = serde_json::from_slice(&unheard.stdout).unwrap();
    assert_eq!((unheard.status.code(), &skipped["outcome"]), (Some(4), &"skipped".into()));
    assert!(stderr(&unheard).contains("no consumer subscribes to order.paid: the event is not stored"), "{unheard:?}");
    let set = server.run(&["subscriptions", "set", "order.paid", "points", "--description", "积分"]);
    assert!(set.status.success(), "{}", stderr(&set));
    let listed = server.run(&["subscriptions", "list"]);
    assert!(
        stdout(&listed).starts_with("TOPIC") && stdout(&listed).contains("order.paid  points"),
        "{}",
        stdout(&listed)
    );

    let listening = server.command(&["listen", "order.paid", "--consumer", "points", "--count", "1"]);
    let listening = { listening }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let published =
        server.run(&["publish", "order.paid", "--data", r#"{"orderId":7}"#, "--id", "order:7", "--key", "7", "--wait"]);
    assert!(published.status.success(), "{}", stderr(&published));
    assert!(stdout(&published).contains("accepted") && stderr(&published).contains("CONSUMED: 1/1 consumed"));
    let listened = listening.wait_with_output().unwrap();
    assert!(listened.status.success(), "{}", stderr(&listened));
    assert_eq!(stdout(&listened), "order.paid order:7 attempt 1 ok: {\"orderId\":7}\n");

    let shown = server.run(&["events", "show", "order:7"]);
    assert!(stdout(&shown).contains("EVENT ID") && stdout(&shown).contains("attempts"), "{}", stdout(&shown));
    let sent = stdout(&shown).lines().find(|line| line.starts_with("SENT ")).unwrap().to_owned();
    assert!(sent.ends_with(" ago)"), "{sent}");
    let shown = server.run(&["events", "show", "order:7", "-o", "jsonl"]);
    assert_eq!(stdout(&shown).lines().count(), 1);
    let child = ["publish", "order.paid", "--data", "{}", "--id", "child", "--parent", "order:7"];
    assert!(server.run(&child).status.success());
    for id in ["order:7", "child"] {
        let traced = stdout(&server.run(&["events", "trace", id]));
        let lines: Vec<_> = traced.lines().collect();
        assert_eq!(lines.len(), 3, "{traced}");
        assert!(lines[0].starts_with("trace ") && lines[1].starts_with("└─ order.paid CONSUMED "), "{traced}");
        assert!(lines[1].ends_with(" 1/1 consumed order:7"), "{traced}");
        assert!(
            lines[2].starts_with("  └─ order.paid PENDING ") && lines[2].ends_with(" 0/1 consumed child"),
            "{traced}"
        );
    }
    let removed = server.run(&["subscriptions", "remove", "order.paid", "points"]);
    assert_eq!(removed.status.code(), Some(6), "{}", stderr(&removed));
    assert!(stderr(&removed).contains("1 deliveries of this subscription wait"), "{}", stderr(&removed));
    assert!(server.run(&["subscriptions", "remove", "order.paid", "points", "--waiting", "discard"]).status.success());
    assert!(stdout(&server.run(&["events", "show", "child"])).contains("was removed"));
    server.stop();
    database.drop().await;
}

/// Limits, versions and reasons of a subscription; the whole consumer is changed at once.
#[tokio::test]
async fn a_subscription_is_changed_from_the_command_line() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let set =
        |more: &[&str]| server.run(&[&["subscriptions", "set", "order.paid", "points", "-o", "json"], more].concat());
    let made = set(&["--rate", "50", "--max-attempts", "5", "--reason", "the wallet is slow"]);
    let made: Value = serde_json::from_str(&stdout(&made)).unwrap();
    assert_eq!((&made["ratePerSecond"], &made["maxAttempts"], &made["waiting"]), (&json!(50), &json!(5), &json!(0)));
    let etag = made["etag"].as_str().unwrap();
    assert!(set(&["--via", "local", "--timeout", "9", "--if-match", etag]).status.success());
    let stale = set(&["--if-match", etag]);
    assert_eq!(stale.status.code(), Some(6));
    assert!(stderr(&stale).contains("read it again"), "{}", stderr(&stale));
    assert!(server.run(&["subscriptions", "set", "order.sent", "points", "--via", "local"]).status.success());
    let second = set(&["--via", "external"]);
    assert!(stderr(&second).contains("a consumer has one `via`"), "{}", stderr(&second));
    assert!(set(&["--via", "external", "--all-topics"]).status.success());
    let listed = stdout(&server.run(&["subscriptions", "list"]));
    assert_eq!(listed.matches("external").count(), 2, "{listed}");
    let stale = server.run(&["subscriptions", "remove", "order.paid", "points", "--if-match", etag]);
    assert_eq!(stale.status.code(), Some(6));
    let help = |of: &str| stdout(&server.run(&["subscriptions", of, "--help"]));
    for (of, example) in [("set", "--all-topics --reason"), ("set", "--if-match"), ("remove", "--waiting deliver   #")]
    {
        assert!(help(of).contains(example), "{}", help(of));
    }
    let audit = server.admin(Method::GET, "/audit", Value::Null, 200).await.to_string();
    assert!(audit.contains("the wallet is slow"), "{audit}");
    server.stop();
    database.drop().await;
}

/// D.8: dead letters are listed, counted and redriven; redrives that a rule forbids are reported.
async fn dead_letters(kind: Kind) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &["--set", "redrive.max-count=1"]);
    assert!(server.run(&["subscriptions", "set", "order.paid", "points"]).status.success());
    let events = (0..5).map(|n| json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n }));
    let events = json!({ "events": events.collect::<Vec<_>>() });
    server.admin(Method::POST, "/events/batch", events, 200).await;
    let settle = async |success: bool, count: u32| {
        let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": count }), 200).await;
        let result = |one: &Value| json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": success, "willRetry": false, "errorMessage": "no" });
        let results: Vec<_> = claimed["deliveries"].as_array().unwrap().iter().map(result).collect();
        assert_eq!(results.len(), count as usize);
        server.admin(Method::POST, "/consumers/points/settle", json!({ "results": results }), 200).await;
    };
    settle(false, 5).await;
    let listed = server.run(&["dead", "list", "--consumer", "points"]);
    assert_eq!(stdout(&listed).lines().count(), 6, "{}", stdout(&listed));
    assert!(stdout(&listed).starts_with("EVENT ID") && stdout(&listed).contains("e4"), "{}", stdout(&listed));
    let counted = server.run(&["dead", "redrive", "--consumer", "points", "--dry-run", "-o", "json"]);
    let counted: Value = serde_json::from_slice(&counted.stdout).unwrap();
    assert_eq!((&counted["matching"], &counted["exact"]), (&json!(5), &json!(true)));
    let preview = stdout(&server.run(&["dead", "redrive", "--consumer", "points", "--dry-run", "--ramp", "1,3"]));
    for part in ["5 events match\n", "redrive", "e4 e3 e2 e1 e0", "steps: 1, 3, 1\n"] {
        assert!(preview.contains(part), "{part}: {preview}");
    }

    let redriven =
        server.run(&["dead", "redrive", "--topic", "order.paid", "--rate", "1000", "--reason", "mended", "-o", "json"]);
    assert!(redriven.status.success(), "{}", stderr(&redriven));
    let figures = "5 redriven, 0 refused, 0 needed nothing: 0 delivered, 0 failed again, 5 without a result yet\n";
    assert_eq!(stderr(&redriven), figures);
    let operation: Value = serde_json::from_slice(&redriven.stdout).unwrap();
    assert_eq!((&operation["state"], &operation["reason"]), (&json!("DONE"), &json!("mended")));
    let id = operation["operationId"].as_str().unwrap();
    assert!(stdout(&server.run(&["operations", "list"])).contains(id));
    assert!(stdout(&server.run(&["operations", "show", id])).contains("DONE"));
    assert_eq!(server.run(&["operations", "pause", id]).status.code(), Some(6), "it has ended");
    assert_eq!(server.run(&["operations", "cancel", "unknown"]).status.code(), Some(3));

    // Twice is once too often: redrive.max-count.
    settle(false, 5).await;
    let refused = server.run(&["dead", "redrive"]);
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    assert!(stderr(&refused).starts_with("0 redriven, 5 refused"), "{}", stderr(&refused));
    let one = server.run(&["events", "redrive", "e0"]);
    assert_eq!(one.status.code(), Some(6));
    assert!(stderr(&one).contains("redrive.max-count"), "{}", stderr(&one));
    assert_eq!(server.run(&["events", "redrive", "unknown"]).status.code(), Some(3));
    assert_eq!(server.run(&["events", "expire", "e1", "unknown"]).status.code(), Some(4));
    // Lists by status follow within a second, behind the roll-up.
    let listed = async {
        while stdout(&server.run(&["events", "list", "--status", "EXPIRED", "-o", "jsonl"])).lines().count() != 1 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), listed).await.expect("e1 is listed");
    assert_eq!(server.run(&["events", "redrive"]).status.code(), Some(1), "everything there is, by a slip");
    let viewer = server.token_of("viewer").await;
    assert_eq!(server.run(&["dead", "redrive", "--token", &viewer]).status.code(), Some(6));
    server.stop();
    database.drop().await;
}

/// G.12: a redrive in steps stops by itself, tells why, and goes on when it is resumed; its events are listed by what came of them.
async fn redrive_in_steps(kind: Kind) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &[]);
    assert!(server.run(&["subscriptions", "set", "order.paid", "points"]).status.success());
    let events = (0..6).map(|n| json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n }));
    let events = json!({ "events": events.collect::<Vec<_>>() });
    server.admin(Method::POST, "/events/batch", events, 200).await;
    let settle = async |success: bool| {
        let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 100 }), 200).await;
        let result = |one: &Value| json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": success, "willRetry": false, "errorMessage": "no" });
        let results: Vec<_> = claimed["deliveries"].as_array().unwrap().iter().map(result).collect();
        if !results.is_empty() {
            server.admin(Method::POST, "/consumers/points/settle", json!({ "results": results }), 200).await;
        }
    };
    settle(false).await;
    let stopped = server.run(&[
        "dead",
        "redrive",
        "--ramp",
        "1,2",
        "--stop-above",
        "10%",
        "--gate",
        "1s",
        "--oldest-first",
        "-o",
        "json",
    ]);
    assert_eq!(stopped.status.code(), Some(4), "{}", stderr(&stopped));
    let why = "stopped itself: none of 1 redriven events had its first attempt within 1 s; the limit is 10 %";
    assert!(stderr(&stopped).contains(why), "{}", stderr(&stopped));
    assert!(stderr(&stopped).contains("step 1 of 3: stopped, 1 of 1 redriven"), "{}", stderr(&stopped));
    let operation: Value = serde_json::from_slice(&stopped.stdout).unwrap();
    let id = operation["operationId"].as_str().unwrap();
    let listed = stdout(&server.run(&["operations", "list"]));
    assert!(listed.starts_with("NUMBER") && listed.contains("PAUSED") && listed.contains("none of 1"), "{listed}");
    settle(false).await;
    let shown = stdout(&server.run(&["operations", "show", id]));
    assert!(shown.contains("step 2 of 3: todo, 0 of 2 redriven"), "{shown}");
    assert!(shown.contains("stopped itself: none of 1"), "{shown}");
    assert!(server.run(&["operations", "resume", id]).status.success());
    let done = async {
        loop {
            settle(true).await;
            let shown = server.run(&["operations", "show", id, "-o", "json"]);
            let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
            if shown["state"] != "RUNNING" {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), done).await.expect("it ends");
    assert_eq!((&done["state"], &done["done"], &done["delivered"]), (&json!("DONE"), &json!(6), &json!(5)), "{done}");
    let items = stdout(&server.run(&["operations", "show", id, "--items", "failedAgain"]));
    assert!(items.contains("e0") && items.lines().count() == 2, "{items}");
    let group = server.run(&["failures", "-o", "json"]);
    let group: Value = serde_json::from_slice(&group.stdout).unwrap();
    let group = group[0]["groupId"].as_str().unwrap();
    let by_group = server.run(&["dead", "redrive", "--group", group, "--only-failed", "--no-wait", "-o", "json"]);
    assert!(by_group.status.success() && stdout(&by_group).contains("operationId"), "{}", stderr(&by_group));
    for wrong in [["--ramp", "0"], ["--gate", "30s"], ["--stop-above", "20%"]] {
        assert_ne!(server.run(&["dead", "redrive", wrong[0], wrong[1]]).status.code(), Some(0), "{wrong:?}");
    }
    server.stop();
    database.drop().await;
}

#[tokio::test]
async fn redrives_go_in_steps_on_sqlite() {
    redrive_in_steps(Kind::Sqlite).await;
}

#[tokio::test]
async fn redrives_go_in_steps_on_postgres() {
    redrive_in_steps(Kind::Postgres).await;
}

#[tokio::test]
async fn redrives_go_in_steps_on_mysql() {
    redrive_in_steps(Kind::MySql).await;
}

#[tokio::test]
async fn dead_letters_are_redriven_on_sqlite() {
    dead_letters(Kind::Sqlite).await;
}

#[tokio::test]
async fn dead_letters_are_redriven_on_postgres() {
    dead_letters(Kind::Postgres).await;
}

#[tokio::test]
async fn dead_letters_are_redriven_on_mysql() {
    dead_letters(Kind::MySql).await;
}

/// `consumers` and `events discard`: a consumer is paused, renamed and listed, and a delivery is given up.
#[tokio::test]
async fn a_consumer_is_renamed_and_a_delivery_discarded() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    for consumer in ["points", "mail"] {
        assert!(server.run(&["subscriptions", "set", "order.paid", consumer]).status.success());
    }
    for id in ["e1", "e2"] {
        assert!(server.run(&["publish", "order.paid", "--data", "{}", "--id", id]).status.success());
    }
    assert!(server.run(&["consumers", "pause", "points"]).status.success());
    let renamed = server.run(&["consumers", "rename", "points", "bonus", "--reason", "one name", "-o", "json"]);
    assert!(renamed.status.success(), "{}", stderr(&renamed));
    let renamed: Value = serde_json::from_slice(&renamed.stdout).unwrap();
    assert_eq!((&renamed["consumerId"], &renamed["deliveries"]), (&json!("bonus"), &json!(2)));
    let listed = stdout(&server.run(&["consumers", "list", "-o", "jsonl"]));
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = listed.iter().map(|one| (&one["consumerId"], &one["paused"], &one["lag"])).collect();
    assert_eq!(names, [(&json!("bonus"), &json!(true), &json!(2)), (&json!("mail"), &json!(false), &json!(2))]);
    assert!(server.run(&["consumers", "resume", "bonus"]).status.success());
    assert_eq!(server.run(&["consumers", "rename", "points", "other"]).status.code(), Some(3), "it is gone");
    let taken = server.run(&["consumers", "rename", "bonus", "mail"]);
    assert_eq!(taken.status.code(), Some(6));
    assert!(stderr(&taken).contains("mail is in use: choose another"), "{}", stderr(&taken));

    let discard = ["events", "discard", "--consumer", "bonus", "--reason", "a test"];
    let discarded = server.run(&[&discard[..], &["e1", "e2", "-o", "jsonl"]].concat());
    assert!(discarded.status.success(), "{}", stderr(&discarded));
    assert_eq!(stdout(&discarded).matches("\"PARTIAL\"").count(), 2, "{}", stdout(&discarded));
    let again = server.run(&[&discard[..], &["e1"]].concat());
    assert_eq!(again.status.code(), Some(6));
    assert!(stderr(&again).contains("there is nothing to discard"), "{}", stderr(&again));
    assert_eq!(server.run(&["events", "discard", "e1", "--consumer", "bonus"]).status.code(), Some(2), "why?");
    server.stop();
    database.drop().await;
}

/// 3 not found, 6 not allowed, 1 otherwise.
#[tokio::test]
async fn the_exit_code_says_what_happened() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    assert_eq!(server.run(&["events", "show", "unknown"]).status.code(), Some(3));
    assert_eq!(server.run(&["subscriptions", "remove", "a", "b"]).status.code(), Some(3));
    assert_eq!(server.run(&["tokens", "list", "--token", "prt_wrong"]).status.code(), Some(6));
    assert_eq!(server.run(&["publish", "a b", "--data", "{}"]).status.code(), Some(1));
    assert_eq!(server.run(&["publish", "t", "--data", "{"]).status.code(), Some(2));
    assert_eq!(server.run(&["publish", "t", "--data", "@no-such-file"]).status.code(), Some(2));
    assert_eq!(server.run(&["publish", "t"]).status.code(), Some(2));
    let viewer = server.token_of("viewer").await;
    assert_eq!(server.run(&["publish", "t", "--data", "{}", "--token", &viewer]).status.code(), Some(6));
    let no_server = postrider(&["events", "show", "x", "--server", "http://127.0.0.1:1"]);
    assert_eq!(no_server.status.code(), Some(1));
    assert!(stderr(&no_server).contains("is `postrider serve` running there?"), "{}", stderr(&no_server));
    server.stop();
    database.drop().await;
}

/// Tokens through the server, and directly in the store if the last one is lost.
#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let made = server.run(&["tokens", "create", "ci", "--role", "publisher", "-o", "json"]);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let secret = made["secret"].as_str().unwrap();
    // Allowed, but not stored: the topic has no consumer.
    assert_eq!(server.run(&["publish", "t", "--data", "1", "--token", secret]).status.code(), Some(4));
    let revoked = server.run(&["tokens", "revoke", made["tokenId"].as_str().unwrap()]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    assert_eq!(server.run(&["publish", "t", "--data", "1", "--token", secret]).status.code(), Some(6));

    let rescue = postrider(&["tokens", "create", "rescue", "--role", "admin", "--store", &database.url, "-o", "json"]);
    let rescue: Value = serde_json::from_slice(&rescue.stdout).unwrap();
    let listed = server.run(&["tokens", "list", "--token", rescue["secret"].as_str().unwrap()]);
    assert_eq!(stdout(&listed).lines().count(), 4, "{}", stdout(&listed));
    let straight = postrider(&["tokens", "list", "--store", &database.url]);
    assert_eq!(stdout(&straight).lines().count(), 4);
    assert!(!stdout(&straight).contains("prt_"));
    let unknown = postrider(&["tokens", "revoke", "nobody", "--store", &database.url]);
    assert_eq!(unknown.status.code(), Some(3));
    server.stop();
    database.drop().await;
}

/// G.9: each check of the doctor, well and not well.
#[tokio::test]
async fn the_doctor_reports_failed_checks_and_remedies() {
    let database = Database::make(Kind::Sqlite).await;
    std::fs::write(database.url.strip_prefix("sqlite://").unwrap(), "").unwrap();
    let empty = postrider(&["doctor", "--store", &database.url, "-o", "json"]);
    assert_eq!(empty.status.code(), Some(4));
    let findings: Value = serde_json::from_slice(&empty.stdout).unwrap();
    let wrong: Vec<_> = findings.as_array().unwrap().iter().filter(|one| one["ok"] == false).collect();
    assert_eq!(
        (wrong.len(), &wrong[0]["check"], &wrong[0]["remedy"]),
        (1, &"schema".into(), &"postrider migrate up".into())
    );
    assert!(postrider(&["migrate", "up", "--store", &database.url]).status.success());
    let well = postrider(&["doctor", "--store", &database.url, "-o", "json"]);
    assert!(well.status.success(), "{}", stdout(&well));
    let findings: Value = serde_json::from_slice(&well.stdout).unwrap();
    let checks: Vec<_> = findings.as_array().unwrap().iter().map(|one| one["check"].as_str().unwrap()).collect();
    let all = ["configuration", "store", "schema", "clock", "permissions", "processes", "audit", "snapshots", "broker"];
    assert_eq!(checks, all, "{findings}");
    let file = database.folder().join("postrider.toml");
    std::fs::write(&file, "[alert]\nwebhook-secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n").unwrap();
    let config = file.display().to_string();
    // No program starts with the first; the group may be meant to read the second.
    for (mode, finding) in [
        (0o644, "has secrets (alert.webhook-secret) and every user can open it: chmod 600"),
        (0o640, "holds alert.webhook-secret and others can read it"),
    ] {
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let readable = postrider(&["doctor", "--store", &database.url, "--config", &config]);
        assert_eq!(readable.status.code(), Some(4));
        assert!(stdout(&readable).contains(finding), "{}", stdout(&readable));
    }
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(postrider(&["doctor", "--store", &database.url, "--config", &config]).status.success());
    let away = postrider(&["doctor", "--store", "postgres://postgres@127.0.0.1:1/none", "-o", "json"]);
    let findings: Value = serde_json::from_slice(&away.stdout).unwrap();
    let store = findings.as_array().unwrap().iter().find(|one| one["check"] == "store").unwrap();
    assert_eq!((&store["ok"], &store["remedy"]), (&false.into(), &"start the database, or correct `store`".into()));
    let no_broker = postrider(&["doctor", "--store", &database.url, "--broker", "amqp://u:secret@127.0.0.1:1/"]);
    assert_eq!(no_broker.status.code(), Some(4));
    assert!(stdout(&no_broker).contains("start the broker") && !stdout(&no_broker).contains("secret@"));
    let bad = postrider(&["doctor", "--set", "outbox.batch-size=x"]);
    assert!(stdout(&bad).contains("outbox.batch-size in the command line"), "{}", stdout(&bad));
    database.drop().await;
}

/// G.9: `doctor` names the grants that a user who may only read lacks; a broker that answers passes.
#[tokio::test]
async fn the_doctor_names_missing_grants_on_postgres_and_a_rabbitmq_that_answers() {
    use sqlx::{Connection as _, Executor as _};
    let database = Database::make(Kind::Postgres).await;
    assert!(postrider(&["migrate", "up", "--store", &database.url]).status.success());
    let mut admin = sqlx::PgConnection::connect(&database.url).await.unwrap();
    let role = format!("reads_{}", uuid::Uuid::new_v4().simple());
    for sql in [format!("CREATE ROLE {role} LOGIN"), format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")] {
        // The name is ours, made of hexadecimal digits.
        admin.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    }
    let (scheme, place) = database.url.split_once("://").unwrap();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let broker =
        std::env::var("POSTRIDER_TEST_RABBITMQ").expect("POSTRIDER_TEST_RABBITMQ is not set: run `make services`");
    let store = format!("{scheme}://{role}@{place}");
    let found = postrider(&["doctor", "--store", &store, "--broker", &broker, "-o", "json"]);
    let findings: Value = serde_json::from_slice(&found.stdout).unwrap();
    let of = |check: &str| findings.as_array().unwrap().iter().find(|one| one["check"] == check).unwrap().clone();
    assert_eq!((&of("permissions")["ok"], &of("broker")["ok"]), (&false.into(), &true.into()), "{findings}");
    assert!(of("permissions")["remedy"].as_str().unwrap().contains("grant this user"), "{findings}");
    for sql in [format!("DROP OWNED BY {role}"), format!("DROP ROLE {role}")] {
        admin.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    }
    admin.close().await.unwrap();
    database.drop().await;
}

/// F43, F31: `doctor` names a prepared transaction that was left behind.
#[tokio::test]
async fn the_doctor_names_a_prepared_transaction_on_postgres() {
    let database = Database::make(Kind::Postgres).await;
    assert!(postrider(&["migrate", "up", "--store", &database.url]).status.success());
    let snapshots = |seconds: &str| {
        let found = postrider(&["doctor", "--store", &database.url, "--snapshot-seconds", seconds, "-o", "json"]);
        let findings: Value = serde_json::from_slice(&found.stdout).unwrap();
        let snapshots = findings.as_array().unwrap().iter().filter(|one| one["check"] == "snapshots");
        snapshots.cloned().collect::<Vec<_>>()
    };
    let gid = format!("left-behind-{}", uuid::Uuid::new_v4());
    database.run_script(&format!("BEGIN; CREATE TABLE t (n int); PREPARE TRANSACTION '{gid}'")).await;
    let held = snapshots("0");
    let named = |one: &Value| one["finding"].as_str().unwrap().starts_with(&format!("prepared transaction {gid} "));
    assert!(held.iter().any(|one| one["ok"] == false && named(one)), "{held:?}");
    assert_eq!(snapshots("300")[0]["ok"], true, "not for that long");
    database.run_script(&format!("ROLLBACK PREPARED '{gid}'")).await;
    database.drop().await;
}

#[test]
fn every_command_has_help_with_examples_and_completions() {
    for command in [
        "serve",
        "migrate",
        "doctor",
        "publish",
        "listen",
        "events",
        "dead",
        "operations",
        "subscriptions",
        "tokens",
        "completions",
        "consumers",
        "failures",
        "topics",
        "jobs",
        "instances",
        "audit",
        "config",
        "top",
        "demo",
        "bench",
    ] {
        let help = postrider(&[command, "--help"]);
        assert!(help.status.success() && stdout(&help).contains("Examples:"), "{command}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let completions = postrider(&["completions", shell]);
        assert!(stdout(&completions).contains("subscriptions"), "{shell}");
    }
}

/// On a terminal a table fits its width and has colours, unless `NO_COLOR` is set.
#[test]
fn a_table_fits_a_terminal_and_has_colours_there_only() {
    let on_a_terminal = |settings: &str| {
        let command = format!(
            "stty cols 80 rows 24; {settings} {} doctor --store sqlite://none.db",
            env!("CARGO_BIN_EXE_postrider")
        );
        let mut script = Command::new("script");
        script.args(["--quiet", "--command", &command, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
        stdout(&script.stdin(Stdio::null()).output().unwrap())
    };
    let table = on_a_terminal("NO_COLOR=1");
    assert!(table.contains("CHECK") && !table.contains('\x1b'), "{table:?}");
    let widest = table.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    assert!((60..=80).contains(&widest), "{table}");
    assert!(on_a_terminal("").contains("\x1b[2m"), "the heading is dim");
    assert!(!stdout(&postrider(&["doctor", "--store", "sqlite://none.db"])).contains('\x1b'));
}

/// A reader that closes the pipe early ends the command without a panic.
#[test]
fn a_closed_pipe_ends_the_completions() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    let mut child =
        command.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

/// The payload from a file, and from another command.
#[tokio::test]
async fn a_payload_is_read_from_a_file_and_from_stdin() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    assert!(server.run(&["subscriptions", "set", "t", "points"]).status.success());
    let file = database.folder().join("payload.json");
    std::fs::write(&file, r#"{"from":"file"}"#).unwrap();
    let data = format!("@{}", file.display());
    let published = server.run(&["publish", "t", "--data", &data, "--id", "file"]);
    assert!(published.status.success(), "{}", stderr(&published));
    let mut child = server.command(&["publish", "t", "--data", "-", "--id", "stdin"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"from":"stdin"}"#).unwrap();
    assert!(child.wait().unwrap().success());
    for from in ["file", "stdin"] {
        let shown = server.admin(Method::GET, &format!("/events/{from}"), Value::Null, 200).await;
        assert_eq!(shown["payload"]["from"], from);
    }
    server.stop();
    database.drop().await;
}

/// A listener outlives a restart of its server.
#[tokio::test]
async fn listen_goes_on_after_a_restart_of_the_server() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let (token, address) = (server.token().to_owned(), server.url.strip_prefix("http://").unwrap().to_owned());
    let mut listener = server.command(&["listen", "t", "--consumer", "points", "--count", "1", "-o", "jsonl"]);
    let mut listener = listener.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(listener.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(notes.next().unwrap().contains("listens to t"));
    server.kill();
    assert!(notes.next().unwrap().ends_with("Trying again."));
    let again = ["serve", "--listen", &address, "--store", &database.url];
    let (server, _) = Process::spawn(&again, database.folder(), "listening on ");
    server.ask(&token, Method::POST, "/events", json!({ "topic": "t", "payload": 7 }), 202).await;
    let heard = listener.wait_with_output().unwrap();
    assert!(heard.status.success());
    assert_eq!(serde_json::from_slice::<Value>(&heard.stdout).unwrap()["payload"], 7);
    server.stop();
    database.drop().await;
}

/// What the API tells, as tables: failures, topics, jobs, instances, the audit, the configuration, consumers, and all of it at once.
#[tokio::test]
async fn what_an_operator_reads_is_shown_as_tables() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &["--set", "retention.inbox-days=30"]);
    let read = |command: &[&str]| {
        let output = server.run(command);
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert!(server.run(&["subscriptions", "set", "order.paid", "points", "--reason", "a test"]).status.success());
    assert!(server.run(&["publish", "order.paid", "--data", "{}", "--id", "e1"]).status.success());
    let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 200).await;
    let one = &claimed["deliveries"][0];
    let failed = json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": false, "willRetry": false,
        "errorMessage": "the wallet is away", "errorCode": "wallet" });
    server.admin(Method::POST, "/consumers/points/settle", json!({ "results": [failed] }), 200).await;

    // The roll-up finds it within a second.
    while server.admin(Method::GET, "/failures", Value::Null, 200).await["groups"] == json!([]) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let failures = read(&["failures"]);
    assert!(failures.starts_with("CONSUMER ID") && failures.contains("wallet"), "{failures}");
    assert!(read(&["topics"]).contains("order.paid"));
    assert!(read(&["jobs"]).starts_with("NAME"));
    assert!(read(&["instances"]).starts_with("OWNER"));
    let config = read(&["config"]);
    assert!(config.lines().any(|line| line.starts_with("retention.inbox-days") && line.contains("30")), "{config}");
    let audit = read(&["audit", "--target", "/subscriptions/order.paid/points"]);
    assert!(audit.lines().count() == 2 && audit.contains("a test"), "{audit}");
    assert!(read(&["audit", "--from", "2100-01-01T00:00:00Z", "-o", "jsonl"]).is_empty());
    let shown = read(&["consumers", "show", "points"]);
    assert!(shown.starts_with("CONSUMER ID  points\n") && shown.contains("maxAttempts"), "{shown}");
    let attempts = read(&["consumers", "attempts", "points"]);
    assert!(attempts.starts_with("CONSUMED") && attempts.contains("the wallet is away"), "{attempts}");
    assert_eq!(server.run(&["consumers", "attempts", "nowhere"]).status.code(), Some(3));
    // Not on a terminal: one picture.
    let picture = read(&["top"]);
    assert!(
        picture.contains("per minute") && picture.contains("points") && picture.contains("the wallet is away"),
        "{picture}"
    );
    server.stop();
    database.drop().await;
}

/// New events and changes of a status, as they come.
#[tokio::test]
async fn events_are_followed_as_they_come() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    for topic in ["order.paid", "order.sent"] {
        assert!(server.run(&["subscriptions", "set", topic, "points"]).status.success());
    }
    let mut tail = server.command(&["events", "tail", "--topic", "order.paid", "--count", "1", "-o", "jsonl"]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(tail.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(notes.next().unwrap(), "following events");
    for (topic, id) in [("order.sent", "other"), ("order.paid", "wanted")] {
        assert!(server.run(&["publish", topic, "--data", "{}", "--id", id]).status.success());
    }
    let followed = tail.wait_with_output().unwrap();
    assert!(followed.status.success());
    assert_eq!(serde_json::from_slice::<Value>(&followed.stdout).unwrap()["eventId"], "wanted");
    server.stop();
    database.drop().await;
}

/// G.11, F18: `story` draws everything about one key, and `consumers skip` and `hold` let a key go on behind a dead event and stop it.
async fn a_story_and_its_key(kind: Kind) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &[]);
    assert!(server.run(&["subscriptions", "set", "order.paid", "points"]).status.success());
    for id in ["e1", "e2", "e3"] {
        let event = json!({ "eventId": id, "topic": "order.paid", "payload": {}, "key": "10492",
            "aggregateType": "ORDER", "aggregateId": "7/a" });
        server.admin(Method::POST, "/events", event, 202).await;
    }
    let claim = async || {
        let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 200).await;
        claimed["deliveries"].as_array().unwrap().clone()
    };
    let settle = async |one: &Value, result: Value| {
        let mut settled = json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"] });
        settled.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
        server.admin(Method::POST, "/consumers/points/settle", json!({ "results": [settled] }), 200).await;
    };
    settle(&claim().await[0], json!({ "success": false, "willRetry": false, "errorMessage": "no account" })).await;
    assert!(claim().await.is_empty(), "the dead one holds");

    let skip = ["consumers", "skip", "points", "10492", "--reason", "the account is closed", "-o", "json"];
    let skipped = server.run(&skip);
    assert!(skipped.status.success(), "{}", stderr(&skipped));
    let skipped: Value = serde_json::from_slice(&skipped.stdout).unwrap();
    assert_eq!((&skipped["deadHead"], &skipped["waiting"]), (&json!("skip"), &json!(2)));
    settle(&claim().await[0], json!({ "success": true })).await;
    let held = server.run(&["consumers", "hold", "points", "10492", "--reason", "not yet"]);
    assert!(held.status.success() && stdout(&held).contains("hold"), "{}", stderr(&held));
    assert!(claim().await.is_empty(), "it holds again");
    let unknown = server.run(&["consumers", "skip", "points", "8", "--reason", "a test"]);
    assert_eq!(unknown.status.code(), Some(6));
    assert!(stderr(&unknown).contains("no event of the key 8 is dead for points"), "{}", stderr(&unknown));
    assert_eq!(server.run(&["consumers", "skip", "points", "10492"]).status.code(), Some(2), "why?");

    // The roll-up lists the events within a second.
    let told = async {
        loop {
            let told = server.run(&["story", "10492"]);
            if stdout(&told).contains("3 events") {
                return stdout(&told);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), told).await.expect("the story is told");
    assert!(told.starts_with("10492\n3 events · 1 effect · 2 attempts · 0 repeats stopped · 0 twice\n"), "{told}");
    for line in ["  order.paid  FAILED  e1", "  order.paid  CONSUMED  e2", "points  dead", "points  done"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let by_aggregate = server.run(&["story", "ORDER/7/a", "-o", "json"]);
    assert!(by_aggregate.status.success(), "{}", stderr(&by_aggregate));
    let story: Value = serde_json::from_slice(&by_aggregate.stdout).unwrap();
    assert_eq!((&story["aggregateType"], &story["aggregateId"]), (&json!("ORDER"), &json!("7/a")));
    assert_eq!(story["events"][2]["deliveries"][0]["consumerId"], "points");
    assert_eq!(server.run(&["story", "unknown"]).status.code(), Some(3));
    assert_eq!(server.run(&["story", "ORDER/8"]).status.code(), Some(3));
    server.stop();
    database.drop().await;
}

#[tokio::test]
async fn a_story_and_its_key_on_sqlite() {
    a_story_and_its_key(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_story_and_its_key_on_postgres() {
    a_story_and_its_key(Kind::Postgres).await;
}

#[tokio::test]
async fn a_story_and_its_key_on_mysql() {
    a_story_and_its_key(Kind::MySql).await;
}
