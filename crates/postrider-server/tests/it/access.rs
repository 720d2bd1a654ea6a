//! Which role may call which route: every route with every role, and without a token.

use postrider::prelude::*;
use postrider::store::access::Role;
use postrider_server::{Entry, TABLE, secret};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::desk::{Desk, read};

/// A call that is refused for nothing but its caller.
fn call(desk: &Desk, entry: &Entry) -> RequestBuilder {
    let path = entry.path.replace("{topic}", "matrix").replace("{consumerId}", "walker").replace("{eventId}", "e");
    let path = path.replace("{tokenId}", "t").replace("{traceId}", "t").replace("{operationId}", "o");
    let request = desk.client.request(entry.method.clone(), format!("{}{path}", desk.url));
    if entry.method == Method::GET { request } else { request.json(&json!({})) }
}

/// S3, S4, G.8: routes × {no token, unknown, revoked, each role}. A new route is walked as soon as it is in the table, which
/// another test holds to the document.
#[tokio::test]
async fn every_route_is_open_to_its_roles_only() {
    // A new server for every few routes: too many wrong tokens are answered with 429.
    for entries in TABLE.chunks(15) {
        let desk = Desk::open().await;
        walk(&desk, entries).await;
        desk.close().await;
    }
}

async fn walk(desk: &Desk, entries: &[Entry]) {
    let (revoked, token) = secret::create(&desk.store, &secret::Wanted::new("revoked", Role::Admin)).await.unwrap();
    desk.store.revoke_token(&token.token_id).await.unwrap();
    for entry in entries {
        let what = format!("{} {}", entry.method, entry.path);
        let status = async |request: RequestBuilder| request.send().await.unwrap().status().as_u16();
        let nobody = status(call(desk, entry)).await;
        let late = status(call(desk, entry).bearer_auth(&revoked)).await;
        let Some(roles) = entry.roles else {
            assert!(!matches!(nobody, 401 | 403) && !matches!(late, 401 | 403), "{what}: {nobody} {late}");
            continue;
        };
        assert_eq!((nobody, late), (401, 401), "{what}");
        for (role, token) in &desk.tokens {
            let got = status(call(desk, entry).bearer_auth(token)).await;
            let granted = roles.iter().any(|one| one.as_str() == *role);
            if granted {
                assert!(!matches!(got, 401 | 403 | 405 | 500..), "{what} as {role}: {got}");
            } else {
                assert_eq!(got, 403, "{what} as {role}");
            }
        }
    }
}

/// S15: wrong credentials are limited per address, and right ones from the same address are not.
#[tokio::test]
async fn wrong_credentials_are_limited_and_right_ones_are_not() {
    let desk = Desk::open().await;
    let mut answers = Vec::new();
    for n in 0..100 {
        let guess = desk.client.get(format!("{}/api/v1/jobs", desk.url)).bearer_auth(format!("prt_{n}"));
        answers.push(guess.send().await.unwrap().status().as_u16());
    }
    assert_eq!(answers[0], 401);
    assert_eq!(answers[99], 429, "{answers:?}");
    let login = desk.client.post(format!("{}/api/v1/login", desk.url)).json(&json!({ "token": "prt_guess" }));
    let refused = login.send().await.unwrap();
    assert!(refused.headers().contains_key("retry-after"));
    read(refused, 429).await;
    read(desk.get("viewer", "/jobs").await, 200).await;
    desk.close().await;
}

/// S14: one caller's rate is no other's.
#[tokio::test]
async fn a_caller_that_asks_too_often_waits() {
    let options = postrider_server::Options { requests_per_second: 5, ..Default::default() };
    let desk = Desk::with(options).await;
    let mut last = 200;
    for _ in 0..50 {
        last = desk.get("viewer", "/jobs").await.status().as_u16();
    }
    assert_eq!(last, 429);
    read(desk.get("operator", "/jobs").await, 200).await;
    desk.close().await;
}

/// S2: of a token only its hash is stored.
#[tokio::test]
async fn a_token_is_shown_once_and_stored_hashed() {
    let desk = Desk::open().await;
    let made = desk.ask("admin", "/tokens", json!({ "name": "ci", "role": "publisher" }), 201).await;
    let secret = made["secret"].as_str().unwrap();
    let listed = read(desk.get("admin", "/tokens").await, 200).await;
    assert!(!listed.to_string().contains(secret));
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 6);
    let stored: Vec<String> = sqlx_text(&desk, "SELECT concat(token_id, name, role, hash) FROM postrider_token").await;
    assert!(stored.iter().all(|row| !row.contains(&secret[4..])));
    let sent = desk.client.post(format!("{}/api/v1/events", desk.url)).bearer_auth(secret);
    read(sent.json(&json!({ "topic": "t", "payload": 1 })).send().await.unwrap(), 200).await;

    let path = format!("/api/v1/tokens/{}", made["tokenId"].as_str().unwrap());
    read(desk.request("admin", Method::DELETE, &path).send().await.unwrap(), 204).await;
    read(desk.request("admin", Method::DELETE, &path).send().await.unwrap(), 404).await;
    let sent = desk.client.post(format!("{}/api/v1/events", desk.url)).bearer_auth(secret);
    read(sent.json(&json!({ "topic": "t", "payload": 1 })).send().await.unwrap(), 401).await;
    desk.close().await;
}

/// The last admin cannot be locked out by accident.
#[tokio::test]
async fn a_token_does_not_revoke_itself() {
    let desk = Desk::open().await;
    let listed = read(desk.get("admin", "/tokens").await, 200).await;
    let own = listed["tokens"].as_array().unwrap().iter().find(|token| token["name"] == "admin").unwrap();
    let path = format!("/api/v1/tokens/{}", own["tokenId"].as_str().unwrap());
    let refused = read(desk.request("admin", Method::DELETE, &path).send().await.unwrap(), 409).await;
    assert_eq!(refused["code"], "ownToken");
    read(desk.get("admin", "/tokens").await, 200).await;
    desk.close().await;
}

async fn sqlx_text(desk: &Desk, sql: &'static str) -> Vec<String> {
    let mut tx = desk.store.begin().await.unwrap();
    sqlx::query_scalar(sql).fetch_all(&mut *tx).await.unwrap()
}

/// S2, G.8: the first start makes one token, and no later one does, however many instances start.
#[tokio::test]
async fn the_first_token_is_made_once() {
    let desk = Desk::open().await;
    assert_eq!(postrider_server::first_token(&desk.store).await.unwrap(), None, "there are tokens");
    let store = std::sync::Arc::new(postrider::store::memory::MemoryStore::new());
    let starts = (0..8).map(|_| {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move { postrider_server::first_token(&*store).await.unwrap() })
    });
    let mut made = 0;
    for start in starts.collect::<Vec<_>>() {
        made += usize::from(start.await.unwrap().is_some());
    }
    assert_eq!(made, 1);
    desk.close().await;
}

/// S20: every call that changes something leaves one record, whether it was granted or not; the others leave none.
#[tokio::test]
async fn every_change_leaves_one_record() {
    let desk = Desk::open().await;
    let records = async || desk.store.audit(None, 500).await.unwrap();
    for entry in TABLE {
        let what = format!("{} {}", entry.method, entry.path);
        for role in ["admin", "viewer"] {
            let before = records().await.len();
            let response = call(&desk, entry).bearer_auth(&desk.tokens[role]).send().await.unwrap();
            let now = records().await;
            assert_eq!(now.len() - before, usize::from(entry.audited), "{what} as {role}");
            if entry.audited {
                let record = &now[0];
                assert_eq!((record.actor.as_str(), record.action.as_str()), (role, what.as_str()));
                assert_eq!(record.outcome, response.status().as_str(), "{what}");
                assert_eq!(record.request_id.as_deref(), response.headers()["x-request-id"].to_str().ok());
            }
        }
    }
    desk.close().await;
}

/// S20: newest first, page by page.
#[tokio::test]
async fn the_audit_is_read_page_by_page() {
    let desk = Desk::open().await;
    for n in 0..5 {
        desk.subscribe(&format!("topic-{n}"), "points", json!({})).await;
    }
    let (mut seen, mut cursor): (Vec<Value>, Option<String>) = (Vec::new(), None);
    loop {
        let more = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = read(desk.get("operator", &format!("/audit?limit=2{more}")).await, 200).await;
        seen.extend(page["records"].as_array().unwrap().clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.into()),
            None => break,
        }
    }
    let targets: Vec<_> = seen.iter().map(|record| record["target"].as_str().unwrap()).collect();
    let expected: Vec<_> = (0..5).rev().map(|n| format!("/subscriptions/topic-{n}/points")).collect();
    assert_eq!(targets, expected);
    assert_eq!(seen[0]["detail"], "enabled=true via=pull");
    desk.close().await;
}
