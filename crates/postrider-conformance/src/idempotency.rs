//! `begin_key`, `complete_key`, `fail_key`, `join_key`, `extend_key`: an operation under a key is executed once.

use std::time::Duration;

use postrider::Error;
use postrider::prelude::*;
use postrider::store::{Key, KeyState, Token};

use crate::Harness;
use crate::steps::*;

const KEY: Key<'static> = Key { scope: "orders", key: "order:7:pay" };
const REQUEST: &[u8] = b"request";

async fn begin<H: Harness>(h: &H, key: Key<'_>, fingerprint: &[u8]) -> KeyState {
    let mut tx = h.store().begin().await.unwrap();
    let state = h.store().begin_key(&mut *tx, &key, fingerprint, LEASE).await.unwrap();
    h.store().commit(tx).await.unwrap();
    state
}

async fn complete<H: Harness>(h: &H, token: Token, result: &str) -> bool {
    let mut tx = h.store().begin().await.unwrap();
    let completed = h.store().complete_key(&mut *tx, &KEY, token, result).await.unwrap();
    h.store().commit(tx).await.unwrap();
    completed
}

async fn fail<H: Harness>(h: &H, token: Token, error: &str) -> bool {
    let mut tx = h.store().begin().await.unwrap();
    let failed = h.store().fail_key(&mut *tx, &KEY, token, error).await.unwrap();
    h.store().commit(tx).await.unwrap();
    failed
}

fn begun(state: KeyState) -> Token {
    match state {
        KeyState::Begun(token) => token,
        other => panic!("not begun but {other:?}"),
    }
}

/// The token, if this call holds the key.
fn is_mine(state: &KeyState) -> Option<Token> {
    match state {
        KeyState::Begun(token) | KeyState::TakenOver(token) => Some(*token),
        _ => None,
    }
}

/// C.2: a key in progress is a conflict.
pub async fn the_first_begins_and_the_next_is_in_progress<H: Harness>(h: H) {
    begun(begin(&h, KEY, REQUEST).await);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::InProgress);
}

/// A.9: later calls get the first result.
pub async fn a_result_is_returned_again<H: Harness>(h: H) {
    let token = begun(begin(&h, KEY, REQUEST).await);
    assert!(complete(&h, token, r#"{"结果":1}"#).await);
    for _ in 0..2 {
        assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done(r#"{"结果":1}"#.into()));
        age(&h, 9 * HOUR).await;
    }
    assert!(!complete(&h, token, "again").await, "once");
    assert!(!fail(&h, token, "too late").await);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done(r#"{"结果":1}"#.into()));
}

/// F25 same key, other body: a mismatch, whether the key is in progress, failed, abandoned or done.
pub async fn another_request_is_a_mismatch_before_anything_else<H: Harness>(h: H) {
    let token = begun(begin(&h, KEY, REQUEST).await);
    assert_eq!(begin(&h, KEY, b"other").await, KeyState::Mismatch);
    fail(&h, token, "boom").await;
    assert_eq!(begin(&h, KEY, b"other").await, KeyState::Mismatch, "failed");
    let token = is_mine(&begin(&h, KEY, REQUEST).await).unwrap();
    age(&h, HOUR).await;
    assert_eq!(begin(&h, KEY, b"other").await, KeyState::Mismatch, "abandoned");
    assert!(complete(&h, token, "done").await);
    assert_eq!(begin(&h, KEY, b"other").await, KeyState::Mismatch, "done");
    assert_eq!(begin(&h, KEY, b"").await, KeyState::Mismatch);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done("done".into()));
}

/// F23 key stuck IN_PROGRESS: the holder died and its lease has expired.
pub async fn an_abandoned_key_is_taken_over<H: Harness>(h: H) {
    let first = begun(begin(&h, KEY, REQUEST).await);
    age(&h, HOUR).await;
    let KeyState::TakenOver(second) = begin(&h, KEY, REQUEST).await else {
        panic!("part of the first's work may be there: the second gets TakenOver");
    };
    assert_ne!(first, second);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::InProgress, "with a lease of its own");
    assert!(complete(&h, second, "by the second").await);
}

/// F24: an outdated token writes nothing.
pub async fn a_late_completion_by_the_old_holder_writes_nothing<H: Harness>(h: H) {
    let first = begun(begin(&h, KEY, REQUEST).await);
    age(&h, HOUR).await;
    let second = is_mine(&begin(&h, KEY, REQUEST).await).unwrap();
    assert!(!complete(&h, first, "by the first").await);
    assert!(!fail(&h, first, "by the first").await);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::InProgress);
    assert!(complete(&h, second, "by the second").await);
    assert!(!complete(&h, first, "by the first").await);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done("by the second".into()));

    // A late completion counts if no other call has taken the key over.
    let other = Key { key: "other", ..KEY };
    let token = begun(begin(&h, other, REQUEST).await);
    age(&h, HOUR).await;
    let mut tx = h.store().begin().await.unwrap();
    assert!(h.store().complete_key(&mut *tx, &other, token, "late").await.unwrap());
}

/// C.2: a failed key can be tried again.
pub async fn a_failed_key_may_be_tried_again<H: Harness>(h: H) {
    let first = begun(begin(&h, KEY, REQUEST).await);
    assert!(fail(&h, first, "boom").await);
    assert!(!complete(&h, first, "after all").await, "it has already failed");
    let second = is_mine(&begin(&h, KEY, REQUEST).await).expect("a failed key is free");
    assert!(!complete(&h, first, "after all").await);
    assert!(complete(&h, second, "done").await);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done("done".into()));
}

/// C.2: of two concurrent retries, one gets the key.
pub async fn a_failed_key_is_retried_by_one_of_two<H: Harness>(h: H) {
    let first = begun(begin(&h, KEY, REQUEST).await);
    fail(&h, first, "boom").await;
    assert_eq!(winners(&h).await, 1);
}

/// C.4: of concurrent calls with one key, one begins it.
pub async fn concurrent_beginners_have_one_winner<H: Harness>(h: H) {
    assert_eq!(winners(&h).await, 1);
}

async fn winners<H: Harness>(h: &H) -> usize {
    let seekers = (0..h.features().connections.min(8)).map(|_| {
        let h = h.clone();
        async move { begin(&h, KEY, REQUEST).await }
    });
    let states = together(seekers).await;
    let others = states.iter().filter(|state| is_mine(state).is_none());
    assert!(others.clone().all(|state| *state == KeyState::InProgress), "{states:?}");
    states.len() - others.count()
}

/// F26 key scope: the same key in another scope is another key. Both are compared byte for byte.
pub async fn scopes_are_apart<H: Harness>(h: H) {
    let token = begun(begin(&h, KEY, REQUEST).await);
    complete(&h, token, "done").await;
    for (scope, key) in
        [("refunds", KEY.key), (KEY.scope, "other"), ("Orders", KEY.key), ("orders ", KEY.key), ("", KEY.key)]
    {
        begun(begin(&h, Key { scope, key }, REQUEST).await);
    }
}

/// The key is written in the caller's transaction and rolled back with it.
pub async fn a_rolled_back_key_was_never_taken<H: Harness>(h: H) {
    let mut tx = h.store().begin().await.unwrap();
    begun(h.store().begin_key(&mut *tx, &KEY, REQUEST, LEASE).await.unwrap());
    drop(tx);
    let token = begun(begin(&h, KEY, b"another request").await);
    let mut tx = h.store().begin().await.unwrap();
    assert!(h.store().complete_key(&mut *tx, &KEY, token, "done").await.unwrap());
    drop(tx);
    assert_eq!(begin(&h, KEY, b"another request").await, KeyState::InProgress);
    // A lease of zero expires at once.
    let other = Key { key: "other", ..KEY };
    let mut tx = h.store().begin().await.unwrap();
    begun(h.store().begin_key(&mut *tx, &other, REQUEST, Duration::ZERO).await.unwrap());
    h.store().commit(tx).await.unwrap();
    assert!(matches!(begin(&h, other, REQUEST).await, KeyState::TakenOver(_)));
}

/// F39: a failure is saved whatever its text contains. A result that cannot be stored is refused.
pub async fn an_error_of_any_text_is_saved<H: Harness>(h: H) {
    let token = begun(begin(&h, KEY, REQUEST).await);
    assert!(fail(&h, token, &oversized_text()).await);
    let token = is_mine(&begin(&h, KEY, REQUEST).await).unwrap();
    let mut tx = h.store().begin().await.unwrap();
    match h.store().complete_key(&mut *tx, &KEY, token, "a\0b").await {
        Ok(completed) => {
            assert!(completed);
            h.store().commit(tx).await.unwrap();
            assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done("a\0b".into()), "kept as it is");
        }
        Err(refused) => {
            assert!(matches!(refused, Error::Invalid { field: "result", .. } | Error::Store(_)), "{refused:?}");
            drop(tx);
            assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::InProgress, "or refused");
        }
    }
}

/// F27: a joined key is completed together with the effect of its transaction, or not at all.
pub async fn a_joined_key_goes_with_its_transaction<H: Harness>(h: H) {
    let token = begun(begin(&h, KEY, REQUEST).await);
    let mut tx = h.store().begin().await.unwrap();
    let lost = h.store().join_key(&mut *tx, &KEY, token, LEASE).await.unwrap().unwrap();
    drop(tx);
    // F55: the situation after the work ended its transaction itself and the next statement auto-commits.
    assert!(!complete(&h, lost, "without its effect").await);
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::InProgress);

    let mut tx = h.store().begin().await.unwrap();
    let joined = h.store().join_key(&mut *tx, &KEY, token, LEASE).await.unwrap().unwrap();
    assert_ne!(joined, token);
    assert!(!h.store().complete_key(&mut *tx, &KEY, token, "old").await.unwrap(), "only the new token counts");
    assert!(h.store().complete_key(&mut *tx, &KEY, joined, "new").await.unwrap());
    h.store().commit(tx).await.unwrap();
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done("new".into()));
    let mut tx = h.store().begin().await.unwrap();
    assert_eq!(h.store().join_key(&mut *tx, &KEY, joined, LEASE).await.unwrap(), None, "it is done");
}

/// F24: an outdated token can neither join nor extend.
pub async fn a_zombie_joins_and_extends_nothing<H: Harness>(h: H) {
    let zombie = begun(begin(&h, KEY, REQUEST).await);
    age(&h, HOUR).await;
    let successor = is_mine(&begin(&h, KEY, REQUEST).await).unwrap();
    let mut tx = h.store().begin().await.unwrap();
    assert_eq!(h.store().join_key(&mut *tx, &KEY, zombie, LEASE).await.unwrap(), None);
    assert!(!h.store().extend_key(&mut *tx, &KEY, zombie, 9 * HOUR).await.unwrap());
    assert!(h.store().extend_key(&mut *tx, &KEY, successor, LEASE).await.unwrap());
    h.store().commit(tx).await.unwrap();
    age(&h, HOUR).await;
    assert!(matches!(begin(&h, KEY, REQUEST).await, KeyState::TakenOver(_)), "the zombie did not lengthen it");
}

/// F07: a heartbeat keeps the key of slow work.
pub async fn an_extended_key_is_not_taken_over<H: Harness>(h: H) {
    let token = begun(begin(&h, KEY, REQUEST).await);
    let mut tx = h.store().begin().await.unwrap();
    assert!(h.store().extend_key(&mut *tx, &KEY, token, 3 * HOUR).await.unwrap());
    h.store().commit(tx).await.unwrap();
    age(&h, 2 * HOUR).await;
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::InProgress);
    assert!(complete(&h, token, "done").await);
}

/// F23, F24: while a transaction has joined the key, an expired lease is not taken over, and other calls do not block.
pub async fn a_joined_key_stays_in_progress_after_its_lease<H: Harness>(h: H) {
    let token = begun(begin(&h, KEY, REQUEST).await);
    age(&h, HOUR).await;
    let mut tx = h.store().begin().await.unwrap();
    let joined = h.store().join_key(&mut *tx, &KEY, token, LEASE).await.unwrap().unwrap();
    if h.features().concurrent_transactions {
        let other = tokio::time::timeout(PROMPTLY, begin(&h, KEY, REQUEST)).await;
        assert_eq!(other.expect("it does not wait"), KeyState::InProgress);
    } else {
        skipped("the transaction is the only one that writes");
    }
    assert!(h.store().complete_key(&mut *tx, &KEY, joined, "done").await.unwrap());
    h.store().commit(tx).await.unwrap();
    assert_eq!(begin(&h, KEY, REQUEST).await, KeyState::Done("done".into()));
}
