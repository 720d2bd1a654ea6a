//! The commands that talk to a server: what they print, and with which exit code they end.

use std::process::Stdio;

use serde_json::Value;

use crate::process::{Database, Kind, Process};
use crate::{postrider, stderr, stdout};

/// `publish`, `listen` and `events show` tell the story of one event.
#[tokio::test]
async fn the_story_of_one_event_in_a_terminal() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let unheard = server.run(&["publish", "order.paid", "--data", "{}", "-o", "json"]);
    let skipped: Value = serde_json::from_slice(&unheard.stdout).unwrap();
    assert_eq!((unheard.status.code(), &skipped["outcome"]), (Some(0), &"skipped".into()));
    let set = server.run(&["subscriptions", "set", "order.paid", "points", "--description", "积分"]);
    assert!(set.status.success(), "{}", stderr(&set));
    let listed = server.run(&["subscriptions", "list"]);
    assert!(
        stdout(&listed).starts_with("topic") && stdout(&listed).contains("order.paid  points"),
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
    assert!(stdout(&shown).contains("CONSUMED") && stdout(&shown).contains("attempts"), "{}", stdout(&shown));
    let shown = server.run(&["events", "show", "order:7", "-o", "jsonl"]);
    assert_eq!(stdout(&shown).lines().count(), 1);
    let removed = server.run(&["subscriptions", "remove", "order.paid", "points"]);
    assert!(removed.status.success());
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
    assert_eq!(server.run(&["publish", "t", "--data", "{"]).status.code(), Some(1));
    assert_eq!(server.run(&["publish", "t"]).status.code(), Some(2));
    let viewer = server.token_of("viewer").await;
    assert_eq!(server.run(&["publish", "t", "--data", "{}", "--token", &viewer]).status.code(), Some(6));
    let nobody = postrider(&["events", "show", "x", "--server", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("is `postrider serve` running there?"), "{}", stderr(&nobody));
    server.stop();
    database.drop().await;
}

/// Tokens through the server, and straight in the store for whoever has lost the last one.
#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let made = server.run(&["tokens", "create", "ci", "--role", "publisher", "-o", "json"]);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let secret = made["secret"].as_str().unwrap();
    assert!(server.run(&["publish", "t", "--data", "1", "--token", secret]).status.success());
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

#[tokio::test]
async fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let database = Database::make(Kind::Sqlite).await;
    let empty = postrider(&["doctor", "--store", &database.url, "-o", "json"]);
    assert_eq!(empty.status.code(), Some(4));
    let findings: Value = serde_json::from_slice(&empty.stdout).unwrap();
    let wrong: Vec<_> = findings.as_array().unwrap().iter().filter(|one| one["ok"] == false).collect();
    assert_eq!(
        (wrong.len(), &wrong[0]["check"], &wrong[0]["remedy"]),
        (1, &"schema".into(), &"postrider migrate up".into())
    );
    assert!(postrider(&["migrate", "up", "--store", &database.url]).status.success());
    let well = postrider(&["doctor", "--store", &database.url]);
    assert!(well.status.success(), "{}", stdout(&well));
    let no_broker = postrider(&["doctor", "--store", &database.url, "--broker", "amqp://u:secret@127.0.0.1:1/"]);
    assert_eq!(no_broker.status.code(), Some(4));
    assert!(stdout(&no_broker).contains("start the broker") && !stdout(&no_broker).contains("secret@"));
    let bad = postrider(&["doctor", "--set", "outbox.batch-size=x"]);
    assert!(stdout(&bad).contains("outbox.batch-size in the command line"), "{}", stdout(&bad));
    database.drop().await;
}

#[test]
fn every_command_has_help_with_examples_and_completions() {
    for command in
        ["serve", "migrate", "doctor", "publish", "listen", "events", "subscriptions", "tokens", "completions"]
    {
        let help = postrider(&[command, "--help"]);
        assert!(help.status.success() && stdout(&help).contains("Examples:"), "{command}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let completions = postrider(&["completions", shell]);
        assert!(stdout(&completions).contains("subscriptions"), "{shell}");
    }
}
