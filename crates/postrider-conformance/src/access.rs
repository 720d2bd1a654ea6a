//! Access control: `create_token`, `find_token`, `tokens`, `revoke_token`; `create_session`, `find_session`,
//! `end_session`; `append_audit`, `audit`, `seal_audit`, `prune_audit`.

use std::time::Duration;

use postrider::prelude::*;
use postrider::store::access::{
    AuditCheck, AuditQuery, NewAudit, NewSession, NewToken, Role, StoredToken, audited, explain, verify_audit,
};
use postrider::{Error, Scope};
use time::macros::datetime;

use crate::Harness;
use crate::steps::*;

const IDLE: Duration = Duration::from_secs(1800);

fn token<'a>(token_id: &'a str, hash: &'a str) -> NewToken<'a> {
    NewToken { token_id, name: "ci", role: Role::Publisher, hash, scope: Scope::default(), lasts: None }
}

async fn create(h: &impl Harness, token_id: &str, hash: &str) -> bool {
    h.store().create_token(&token(token_id, hash)).await.unwrap()
}

async fn find_token(h: &impl Harness, hash: &str) -> Option<StoredToken> {
    h.store().find_token(hash).await.unwrap()
}

async fn begin(h: &impl Harness, hash: &str, token_id: &str) {
    h.store().create_session(&NewSession { hash, token_id, lasts: 8 * HOUR }).await.unwrap();
}

async fn find_session(h: &impl Harness, hash: &str) -> Option<StoredToken> {
    h.store().find_session(hash, IDLE).await.unwrap()
}

async fn append(h: &impl Harness, action: &str) {
    let record = NewAudit { actor: "ci", action, outcome: "200", ..NewAudit::default() };
    h.store().append_audit(&record).await.unwrap();
}

/// G.8
pub async fn a_token_is_found_by_its_hash_alone<H: Harness>(h: H) {
    assert!(create(&h, "t1", "abc").await);
    let found = find_token(&h, "abc").await.expect("it is there");
    assert_eq!((found.token_id.as_str(), found.name.as_str(), found.role), ("t1", "ci", Role::Publisher));
    assert_eq!((found.last_used_at, found.revoked_at), (None, None));
    assert_eq!(find_token(&h, "ABC").await, None, "compared byte for byte");
    assert_eq!(find_token(&h, "ab").await, None);
    assert_eq!(find_token(&h, "t1").await, None);
}

/// G.8
pub async fn every_role_comes_back<H: Harness>(h: H) {
    for role in Role::ALL {
        let hash = role.as_str();
        let new = NewToken { role, ..token(hash, hash) };
        assert!(h.store().create_token(&new).await.unwrap());
        assert_eq!(find_token(&h, hash).await.expect("it is there").role, role);
    }
}

/// G.8: ids and hashes are unique, compared byte for byte.
pub async fn a_taken_id_or_hash_is_refused<H: Harness>(h: H) {
    assert!(create(&h, "t1", "abc").await);
    assert!(!create(&h, "t1", "other").await);
    assert!(!create(&h, "t2", "abc").await);
    assert!(create(&h, "T1", "Abc").await, "compared byte for byte");
    assert_eq!(h.store().tokens().await.unwrap().len(), 2);
}

/// A name is 1 to 128 characters.
pub async fn invalid_token_names_are_refused<H: Harness>(h: H) {
    let long = "a".repeat(129);
    let refused = h.store().create_token(&NewToken { name: &long, ..token("t1", "abc") }).await;
    assert!(matches!(refused, Err(Error::Invalid { field: "name", .. })));
    let refused = h.store().create_token(&NewToken { name: "", ..token("t1", "abc") }).await;
    assert!(matches!(refused, Err(Error::Invalid { field: "name", .. })));
    let longest = "名".repeat(128);
    assert!(h.store().create_token(&NewToken { name: &longest, ..token("t1", "abc") }).await.unwrap());
    assert_eq!(find_token(&h, "abc").await.expect("it is there").name, longest);
}

/// G.8: a revoked token stops working at once and stays in the list.
pub async fn a_revoked_token_is_not_found<H: Harness>(h: H) {
    create(&h, "t1", "abc").await;
    assert!(h.store().revoke_token("t1").await.unwrap());
    assert_eq!(find_token(&h, "abc").await, None);
    assert!(!h.store().revoke_token("t1").await.unwrap(), "once");
    assert!(!h.store().revoke_token("t2").await.unwrap(), "there is none");
    let tokens = h.store().tokens().await.unwrap();
    assert!(tokens[0].revoked_at.is_some());
    assert!(!create(&h, "t1", "abc").await, "and its id is not given again");
}

/// G.8: an operator can see which tokens are in use.
pub async fn the_last_use_is_recorded_to_the_minute<H: Harness>(h: H) {
    create(&h, "t1", "abc").await;
    let last = async || h.store().tokens().await.unwrap()[0].last_used_at;
    assert_eq!(last().await, None);
    find_token(&h, "abc").await;
    let first = last().await.expect("it was used");
    age(&h, 5 * MINUTE).await;
    find_token(&h, "abc").await;
    assert!(last().await.expect("it was used") > first - 5 * MINUTE, "and again");
}

/// G.8
pub async fn tokens_are_listed_by_their_creation<H: Harness>(h: H) {
    for (token_id, hash) in [("b", "1"), ("c", "2"), ("a", "3")] {
        create(&h, token_id, hash).await;
        age(&h, MINUTE).await;
    }
    let tokens = h.store().tokens().await.unwrap();
    assert_eq!(tokens.iter().map(|token| token.token_id.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
}

/// S6
pub async fn a_session_resolves_to_its_token<H: Harness>(h: H) {
    create(&h, "t1", "abc").await;
    begin(&h, "s1", "t1").await;
    assert_eq!(find_session(&h, "s1").await.expect("it lasts").token_id, "t1");
    assert_eq!(find_session(&h, "S1").await, None, "compared byte for byte");
    assert_eq!(find_session(&h, "abc").await, None, "a token is no session");
    assert_eq!(find_token(&h, "s1").await, None, "nor the other way round");
}

/// S6: an ended session stops working at once.
pub async fn an_ended_session_is_over<H: Harness>(h: H) {
    create(&h, "t1", "abc").await;
    begin(&h, "s1", "t1").await;
    begin(&h, "s2", "t1").await;
    assert!(h.store().end_session("s1").await.unwrap());
    assert!(!h.store().end_session("s1").await.unwrap(), "once");
    assert_eq!(find_session(&h, "s1").await, None);
    assert!(find_session(&h, "s2").await.is_some(), "the other goes on");
}

/// S6: a session ends after 30 minutes idle, or 8 hours in total.
pub async fn a_session_ends_when_idle_and_when_old<H: Harness>(h: H) {
    create(&h, "t1", "abc").await;
    begin(&h, "idle", "t1").await;
    age(&h, IDLE + MINUTE).await;
    assert_eq!(find_session(&h, "idle").await, None, "idle");
    begin(&h, "used", "t1").await;
    for _ in 0..19 {
        age(&h, 25 * MINUTE).await;
        assert!(find_session(&h, "used").await.is_some(), "used every 25 minutes");
    }
    age(&h, 25 * MINUTE).await;
    assert_eq!(find_session(&h, "used").await, None, "eight hours are over");
    // Creating a session deletes the expired ones.
    begin(&h, "next", "t1").await;
    assert!(!h.store().end_session("used").await.unwrap());
    assert!(find_session(&h, "next").await.is_some());
}

/// S6: the sessions of a revoked token stop working.
pub async fn a_revoked_token_ends_its_sessions<H: Harness>(h: H) {
    create(&h, "t1", "abc").await;
    begin(&h, "s1", "t1").await;
    h.store().revoke_token("t1").await.unwrap();
    assert_eq!(find_session(&h, "s1").await, None);
}

/// S20: newest first, with keyset paging: records appended between two pages do not move the page.
pub async fn the_audit_is_read_newest_first_page_by_page<H: Harness>(h: H) {
    for n in 1..=5 {
        append(&h, &format!("act {n}")).await;
    }
    let actions = |page: &[postrider::store::access::AuditRecord]| -> Vec<String> {
        page.iter().map(|record| record.action.clone()).collect()
    };
    let first = h.store().audit(None, 2).await.unwrap();
    assert_eq!(actions(&first), ["act 5", "act 4"]);
    append(&h, "act 6").await;
    let second = h.store().audit(Some(first[1].number), 2).await.unwrap();
    assert_eq!(actions(&second), ["act 3", "act 2"]);
    let last = h.store().audit(Some(second[1].number), 2).await.unwrap();
    assert_eq!(actions(&last), ["act 1"]);
    assert!(h.store().audit(Some(last[0].number), 2).await.unwrap().is_empty());
    // The years that a request may name.
    let (from, to) = (datetime!(1970-01-01 00:00 UTC), datetime!(9998-12-31 23:59 UTC));
    let ever = AuditQuery { from: Some(from), to: Some(to), limit: 10, ..AuditQuery::default() };
    assert_eq!(h.store().find_audit(&ever).await.unwrap().len(), 6);
}

/// S20: actor, time, action, target, outcome, request and reason come
/// back. A record is never refused because of its text.
pub async fn every_field_of_a_record_comes_back_cut_to_its_limit<H: Harness>(h: H) {
    let full = NewAudit {
        actor: "ada",
        token_id: Some("t1"),
        role: Some(Role::Admin),
        action: "PUT /api/v1/subscriptions/{topic}/{consumerId}",
        target: Some("order.paid/points"),
        outcome: "200",
        reason: Some("it moved"),
        request_id: Some("r-1"),
        detail: Some("因为"),
    };
    h.store().append_audit(&full).await.unwrap();
    let record = h.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!((record.actor.as_str(), record.token_id.as_deref()), ("ada", Some("t1")));
    assert_eq!((record.action.as_str(), record.target.as_deref()), (full.action, full.target));
    assert_eq!((record.outcome.as_str(), record.request_id.as_deref()), ("200", Some("r-1")));
    assert_eq!(record.detail.as_deref(), Some("因为"));
    assert_eq!((record.role.as_deref(), record.reason.as_deref()), (Some("admin"), Some("it moved")));
    let long = "错\0".repeat(2_000);
    let odd = NewAudit { actor: &long, target: Some(&long), detail: Some(&long), ..full };
    h.store().append_audit(&odd).await.unwrap();
    let record = h.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!(record.actor.chars().count(), 128);
    assert_eq!(record.target.unwrap().chars().count(), 512);
    assert_eq!(record.detail.unwrap().chars().count(), 1_000);
}

/// G.14: the scope and the end of a token come back, and it works until then.
pub async fn a_token_has_a_scope_and_an_end<H: Harness>(h: H) {
    let scope = Scope { consumers: vec!["points".into()], topics: vec!["order.*".into()], tenants: vec!["7".into()] };
    let new = NewToken { role: Role::Consumer, scope: scope.clone(), lasts: Some(HOUR), ..token("t1", "abc") };
    assert!(h.store().create_token(&new).await.unwrap());
    begin(&h, "s1", "t1").await;
    let found = find_token(&h, "abc").await.expect("it lasts");
    assert_eq!(found.scope, scope);
    assert_eq!(found.expires_at.expect("it ends") - found.created_at, HOUR);
    assert_eq!(find_session(&h, "s1").await.expect("it lasts").scope, scope);
    age(&h, HOUR - MINUTE).await;
    begin(&h, "s2", "t1").await;
    assert!(find_token(&h, "abc").await.is_some());
    age(&h, 2 * MINUTE).await;
    assert_eq!(find_token(&h, "abc").await, None);
    assert_eq!(find_session(&h, "s2").await, None, "its sessions end with it");
    assert!(!h.store().tokens().await.unwrap()[0].is_live(h.store().now().await.unwrap()));
    let wrong = NewToken { scope, ..token("t2", "def") };
    assert!(
        matches!(h.store().create_token(&wrong).await, Err(Error::Invalid { field: "consumers", .. })),
        "a publisher"
    );
}

/// S20: records get their places in the order of their numbers, once each, also with two sealers. What is pruned leaves an anchor.
pub async fn the_audit_is_a_chain<H: Harness>(h: H) {
    for n in 1..=5 {
        append(&h, &format!("act {n}")).await;
    }
    let (one, other) = tokio::join!(h.store().seal_audit(2), h.store().seal_audit(2));
    assert_eq!(one.unwrap() + other.unwrap(), 4);
    append(&h, "act 6").await;
    assert_eq!(h.store().seal_audit(10).await.unwrap(), 2);
    assert_eq!(h.store().seal_audit(10).await.unwrap(), 0);
    let chain = h.store().audit_chain(0, 10).await.unwrap();
    let places: Vec<_> = chain.iter().map(|one| (one.link.place, one.record.action.clone())).collect();
    assert_eq!(places, (1..=6).map(|n| (n, format!("act {n}"))).collect::<Vec<_>>());
    assert_eq!(verify_audit(h.store()).await.unwrap(), AuditCheck::Whole(6));
    assert_eq!(h.store().prune_audit(HOUR, 10).await.unwrap(), 0, "nothing is so old");
    let mut pruned = 0;
    while pruned < 2 {
        // Its clock has to pass the time of the records.
        pruned += h.store().prune_audit(Duration::ZERO, 2).await.unwrap();
    }
    let ends = h.store().audit_ends().await.unwrap();
    assert_eq!((ends.anchor.place, ends.head.place), (2, 6));
    assert_eq!(ends.anchor, chain[1].link);
    assert_eq!(verify_audit(h.store()).await.unwrap(), AuditCheck::Whole(4));
    append(&h, "act 7").await;
    h.store().seal_audit(10).await.unwrap();
    assert_eq!(verify_audit(h.store()).await.unwrap(), AuditCheck::Whole(5));
}

/// S20: the record of a change is there if, and only if, the change is; without a change none is written.
pub async fn a_change_commits_with_its_record<H: Harness>(h: H) {
    let record = NewAudit { actor: "ada", action: "pause", outcome: "204", ..NewAudit::default() };
    let work = async {
        explain(Some("it is slow"), None);
        h.store().set_paused("points", true).await
    };
    let audited_work = audited(&record, work).await;
    audited_work.done.unwrap();
    assert!(audited_work.written);
    let found = h.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!((found.actor.as_str(), found.reason.as_deref()), ("ada", Some("it is slow")));
    assert_eq!(
        (found.before.as_deref(), found.after.as_deref()),
        (Some("{\"paused\":false}"), Some("{\"paused\":true}"))
    );
    let again = audited(&record, h.store().set_paused("points", true)).await;
    assert!(!again.written, "it was paused already");
    let refused = audited(&record, h.store().rename_consumer("nobody", "somebody")).await;
    assert!(refused.done.is_err() && !refused.written);
    assert_eq!(h.store().audit(None, 10).await.unwrap().len(), 1);
    h.store().set_paused("points", false).await.unwrap();
    assert_eq!(h.store().audit(None, 10).await.unwrap().len(), 1, "a caller that is not audited leaves none");
}
