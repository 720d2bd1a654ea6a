//! `Idempotency`: `run_in`, `run` and `call`. The effect is a plain `n = n + 1`, never an upsert, so a repeat is
//! visible.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::Error;
use postrider::idempotency::{Attempt, BoxFuture, Idempotency, IdempotencyError, Outcome, fingerprint};
use postrider::limits::RESULT_BYTES;
use postrider::prelude::*;
use postrider::store::{Key, KeyState, Token};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::steps::*;
use crate::{Conn, Harness};

const SCOPE: &str = "inventory.deduct";
const KEY: &str = "7-DEDUCT";
const EFFECT: &str = "deducted";

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Ran = Result<Outcome<u32>, IdempotencyError<Failure>>;

fn keys<H: Harness>(h: &H) -> Idempotency<H::Store> {
    Idempotency::new(h.store().clone()).scope(SCOPE).lease(LEASE)
}

fn request() -> Value {
    json!({ "orderId": 7, "quantity": 2 })
}

/// Work with the effect and a result.
fn deduct<H: Harness>(
    h: &H,
) -> impl for<'c> FnOnce(&'c mut Conn<H>) -> BoxFuture<'c, Result<u32, Failure>> + Send + use<H> {
    let h = h.clone();
    move |tx| {
        Box::pin(async move {
            h.add(tx, EFFECT).await?;
            Ok(42)
        })
    }
}

/// Work with the effect and then an error.
fn deduct_and_fail<H: Harness>(
    h: &H,
) -> impl for<'c> FnOnce(&'c mut Conn<H>) -> BoxFuture<'c, Result<u32, Failure>> + Send + use<H> {
    let h = h.clone();
    move |tx| {
        Box::pin(async move {
            h.add(tx, EFFECT).await?;
            Err("the handler fell over".into())
        })
    }
}

async fn run<H: Harness>(h: &H, key: &str) -> Ran {
    keys(h).run(key, &request(), deduct(h)).await
}

/// Runs in a transaction that the caller commits or drops.
async fn run_in<H: Harness>(h: &H, key: &str, commit: bool) -> Ran {
    let mut tx = h.store().begin().await.unwrap();
    let ran = keys(h).run_in(&mut *tx, key, &request(), deduct(h)).await;
    if commit && ran.is_ok() {
        h.store().commit(tx).await.unwrap();
    }
    ran
}

/// Begins the key for a holder that dies or returns late.
async fn hold<H: Harness>(h: &H) -> Token {
    let mut tx = h.store().begin().await.unwrap();
    let fingerprint = fingerprint(&request()).unwrap();
    let key = Key { scope: SCOPE, key: KEY };
    let state = h.store().begin_key(&mut *tx, &key, &fingerprint, LEASE).await.unwrap();
    h.store().commit(tx).await.unwrap();
    match state {
        KeyState::Begun(token) | KeyState::TakenOver(token) => token,
        other => panic!("not begun but {other:?}"),
    }
}

async fn effects(h: &impl Harness) -> i64 {
    h.counter(EFFECT).await
}

/// C.2, A.9: a completed key returns its result without a second effect, marked as replayed.
pub async fn a_repeat_gets_the_first_result<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    assert_eq!(run(&h, KEY).await.unwrap(), Outcome::Fresh(42));
    for _ in 0..2 {
        let again = run(&h, KEY).await.unwrap();
        assert!(again.is_replayed());
        assert_eq!(again.into_inner(), 42);
        age(&h, 9 * HOUR).await;
    }
    assert_eq!(run_in(&h, KEY, true).await.unwrap(), Outcome::Replayed(42), "whichever way it is asked for");
    assert_eq!(effects(&h).await, 1);
    // Another order of fields is the same request.
    let text = r#"{ "quantity": 2, "orderId": 7 }"#;
    let same: Value = serde_json::from_str(text).unwrap();
    assert!(keys(&h).run(KEY, &same, deduct(&h)).await.unwrap().is_replayed());
    // A stored result of another type is an error, without a second effect.
    let other = keys(&h).run(KEY, &request(), |_| Box::pin(async { Ok::<_, Failure>("text".to_owned()) })).await;
    assert!(matches!(other, Err(IdempotencyError::Store(Error::Invalid { field: "result", .. }))), "{other:?}");
    assert_eq!(effects(&h).await, 1);
}

/// C.4, A.15: of concurrent calls one has the effect. The others wait, get `InProgress`, or get the result.
pub async fn two_at_the_same_moment_have_one_effect<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    let both = (0..h.features().connections.min(8)).map(|n| {
        let h = h.clone();
        async move {
            match n % 2 {
                0 => run(&h, KEY).await,
                _ => run_in(&h, KEY, true).await,
            }
        }
    });
    let ran = together(both).await;
    let fresh = ran.iter().filter(|ran| matches!(ran, Ok(Outcome::Fresh(42)))).count();
    let others = ran.iter().filter(|ran| matches!(ran, Ok(Outcome::Replayed(42)) | Err(IdempotencyError::InProgress)));
    assert_eq!((fresh, others.count()), (1, ran.len() - 1), "{ran:?}");
    assert_eq!(effects(&h).await, 1);
}

/// C.2: a key in progress is a conflict. F25: a mismatch is reported before `InProgress`.
pub async fn in_progress_and_mismatch_are_distinguished<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    let (let_go, held) = oneshot::channel::<()>();
    let (sender, begun) = oneshot::channel();
    let call = {
        let h = h.clone();
        tokio::spawn(async move {
            let work = async |_| {
                sender.send(()).unwrap();
                held.await.unwrap();
                Ok::<_, Failure>(42)
            };
            keys(&h).call(KEY, &request(), work).await
        })
    };
    begun.await.unwrap();
    assert!(matches!(run(&h, KEY).await, Err(IdempotencyError::InProgress)));
    assert!(matches!(run_in(&h, KEY, true).await, Err(IdempotencyError::InProgress)));
    let other = json!({ "orderId": 7, "quantity": 3 });
    let mismatch = keys(&h).run(KEY, &other, deduct(&h)).await;
    assert!(matches!(mismatch, Err(IdempotencyError::Mismatch)), "while it is running: {mismatch:?}");
    let_go.send(()).unwrap();
    assert_eq!(call.await.unwrap().unwrap(), Outcome::Fresh(42));
    let mismatch = keys(&h).run(KEY, &other, deduct(&h)).await;
    assert!(matches!(mismatch, Err(IdempotencyError::Mismatch)), "and when it is done");
    assert_eq!(run(&h, KEY).await.unwrap(), Outcome::Replayed(42));
    assert_eq!(effects(&h).await, 0, "nothing but the call was executed");
}

/// F26: a key in another scope does not replay the result.
pub async fn scopes_are_apart<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    run(&h, KEY).await.unwrap();
    let elsewhere = keys(&h).scope("inventory.release").run(KEY, &request(), deduct(&h)).await;
    assert_eq!(elsewhere.unwrap(), Outcome::Fresh(42));
    assert_eq!(run(&h, "8-DEDUCT").await.unwrap(), Outcome::Fresh(42));
    assert_eq!(effects(&h).await, 3);
}

/// F23: after the holder dies, the key is in progress until its lease expires; then the next call takes it over.
pub async fn an_abandoned_key_is_taken_over<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    hold(&h).await;
    assert!(matches!(run(&h, KEY).await, Err(IdempotencyError::InProgress)));
    age(&h, HOUR).await;
    assert_eq!(run(&h, KEY).await.unwrap(), Outcome::Fresh(42));
    assert_eq!(effects(&h).await, 1);
}

/// F24: a holder that returns after a takeover has no effect and changes no result.
pub async fn a_late_holder_has_no_effect<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    // The work outlives its lease, and another call completes the key in the meantime.
    let late = {
        let h = h.clone();
        let other = h.clone();
        let work = async move |attempt| {
            assert_eq!(attempt, Attempt::First);
            age(&other, HOUR).await;
            assert_eq!(run(&other, KEY).await.unwrap(), Outcome::Fresh(42));
            Ok::<_, Failure>(43)
        };
        keys(&h).call(KEY, &request(), work).await
    };
    assert!(matches!(late, Err(IdempotencyError::LeaseLost)), "{late:?}");
    assert_eq!(run(&h, KEY).await.unwrap(), Outcome::Replayed(42), "the newer state is kept");
    assert_eq!(effects(&h).await, 1);
}

/// F27: the handler fails after its effect. The retry has the effect once.
pub async fn a_failed_handler_leaves_no_effect<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    let failed = keys(&h).run(KEY, &request(), deduct_and_fail(&h)).await;
    assert!(matches!(&failed, Err(IdempotencyError::Work(error)) if error.to_string() == "the handler fell over"));
    assert_eq!(effects(&h).await, 0, "rolled back");
    assert_eq!(run(&h, KEY).await.unwrap(), Outcome::Fresh(42), "C.2: FAILED may be tried again at once");
    assert_eq!(effects(&h).await, 1);

    // The caller fails after the commit: the retry finds the key done.
    let handler = async {
        run(&h, "8-DEDUCT").await.map_err(|error| error.to_string())?;
        Err::<(), _>("the answer could not be sent".to_owned())
    };
    handler.await.unwrap_err();
    assert!(run(&h, "8-DEDUCT").await.unwrap().is_replayed());
    assert_eq!(effects(&h).await, 2, "one for each key");
}

/// C.2: the failure is recorded outside the transaction that it rolls back. Of concurrent retries, one has the effect.
pub async fn a_failure_is_recorded_and_retried_by_one<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    keys(&h).run(KEY, &request(), deduct_and_fail(&h)).await.unwrap_err();
    let mismatch = keys(&h).run(KEY, &"another request", deduct(&h)).await;
    assert!(matches!(mismatch, Err(IdempotencyError::Mismatch)), "the key is known");
    let retries = (0..h.features().connections.min(8)).map(|_| {
        let h = h.clone();
        async move { run(&h, KEY).await }
    });
    let ran = together(retries).await;
    assert_eq!(ran.iter().filter(|ran| matches!(ran, Ok(Outcome::Fresh(_)))).count(), 1, "{ran:?}");
    assert_eq!(effects(&h).await, 1);
}

/// F55: work that ignores a database error does not store a result without its effect.
pub async fn a_swallowed_database_error_keeps_nothing_half<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    let inner = h.clone();
    let ran: Ran = keys(&h)
        .run(KEY, &request(), |tx| {
            Box::pin(async move {
                inner.add(&mut *tx, EFFECT).await?;
                inner.swallow_a_database_error(tx).await;
                Ok(42)
            })
        })
        .await;
    // If the transaction survives the error, everything is committed; if not, nothing is.
    assert_eq!(effects(&h).await, i64::from(ran.is_ok()), "{ran:?}");
    let again = run(&h, KEY).await.unwrap();
    assert_eq!(again.is_replayed(), ran.is_ok());
    assert_eq!(effects(&h).await, 1);
}

/// `run_in` is part of the caller's transaction: a rollback removes the key too.
pub async fn in_the_callers_transaction_all_of_it_or_nothing<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    assert_eq!(run_in(&h, KEY, false).await.unwrap(), Outcome::Fresh(42));
    assert_eq!(effects(&h).await, 0);
    let mut tx = h.store().begin().await.unwrap();
    let failed = keys(&h).run_in(&mut *tx, KEY, &request(), deduct_and_fail(&h)).await;
    assert!(matches!(failed, Err(IdempotencyError::Work(_))));
    drop(tx);
    assert_eq!(run_in(&h, KEY, true).await.unwrap(), Outcome::Fresh(42));
    assert_eq!(run_in(&h, KEY, true).await.unwrap(), Outcome::Replayed(42));
    assert_eq!(effects(&h).await, 1);
}

/// Work outside the database runs at least once. `Attempt::Again` lets a retry check first.
pub async fn a_retried_call_gets_attempt_again<H: Harness>(h: H) {
    let tries = Arc::new(AtomicUsize::new(0));
    let call = async |ok: bool| {
        let tries = Arc::clone(&tries);
        let work = async move |attempt| {
            let expected = if tries.fetch_add(1, Ordering::Relaxed) == 0 { Attempt::First } else { Attempt::Again };
            assert_eq!(attempt, expected);
            if ok { Ok("sent".to_owned()) } else { Err("the mail server is away") }
        };
        keys(&h).call(KEY, &request(), work).await
    };
    assert!(matches!(call(false).await, Err(IdempotencyError::Work("the mail server is away"))));
    assert!(matches!(call(false).await, Err(IdempotencyError::Work(_))), "C.2: at once, without waiting for a lease");
    assert_eq!(call(true).await.unwrap(), Outcome::Fresh("sent".to_owned()));
    assert_eq!(call(true).await.unwrap(), Outcome::Replayed("sent".to_owned()));
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

/// F07: a call that takes longer than its lease keeps it.
pub async fn a_long_call_keeps_its_lease<H: Harness>(h: H) {
    let lease = Duration::from_millis(1500);
    let other = h.clone();
    let work = async move |_| {
        // Sleeps past the lease: without a heartbeat, the call below would take the key over.
        tokio::time::sleep(2 * lease).await;
        let meanwhile = keys(&other).call(KEY, &request(), async |_| Ok::<_, Failure>(2)).await;
        assert!(matches!(meanwhile, Err(IdempotencyError::InProgress)), "{meanwhile:?}");
        Ok::<_, Failure>(1)
    };
    let called = keys(&h).lease(lease).call(KEY, &request(), work).await;
    assert_eq!(called.unwrap(), Outcome::Fresh(1));
}

/// F39, F40: any text in a result comes back. A result over the limit is refused by name and its effect is rolled back.
pub async fn a_result_of_any_text_comes_back_up_to_its_limit<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    let odd = "a\0b\u{7}\u{fffd}错\"\\😀".to_owned();
    for replayed in [false, true] {
        let result = odd.clone();
        let ran = keys(&h).run(KEY, &request(), |_| Box::pin(async { Ok::<_, Failure>(result) })).await.unwrap();
        assert_eq!((ran.is_replayed(), ran.into_inner()), (replayed, odd.clone()));
    }
    // The JSON encoding adds two quotes.
    let largest = "x".repeat(RESULT_BYTES - 2);
    let too_large = format!("{largest}x");
    for (key, result, fits) in [("largest", largest, true), ("too large", too_large, false)] {
        let inner = h.clone();
        let ran: Result<Outcome<String>, IdempotencyError<Failure>> = keys(&h)
            .run(key, &request(), |tx| {
                Box::pin(async move {
                    inner.add(tx, EFFECT).await?;
                    Ok(result)
                })
            })
            .await;
        match ran {
            Ok(_) => assert!(fits, "{key}"),
            Err(IdempotencyError::Store(Error::TooLarge { field: "result", message })) => {
                assert!(!fits && message.contains(&RESULT_BYTES.to_string()), "{key}: {message}");
            }
            Err(error) => panic!("{key}: {error}"),
        }
    }
    assert_eq!(effects(&h).await, 1, "what could not be kept was rolled back");
}

/// S16: a key longer than 255 characters is refused before the work runs.
pub async fn a_key_stops_at_its_limit<H: Harness>(h: H) {
    h.make_counter(EFFECT).await;
    assert_eq!(run(&h, &"钥".repeat(255)).await.unwrap(), Outcome::Fresh(42));
    for bad in ["", &"k".repeat(256), "a\0b", "a\nb"] {
        let refused = run(&h, bad).await.unwrap_err();
        assert!(
            matches!(refused, IdempotencyError::Store(Error::Invalid { field: "idempotency key", .. })),
            "{bad:?}: {refused}"
        );
    }
    let refused = keys(&h).scope("s".repeat(129)).run(KEY, &request(), deduct(&h)).await.unwrap_err();
    assert!(matches!(refused, IdempotencyError::Store(Error::Invalid { field: "scope", .. })), "{refused}");
    assert_eq!(effects(&h).await, 1);
}
