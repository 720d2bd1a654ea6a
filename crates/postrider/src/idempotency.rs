//! Idempotency: a business operation with a key happens once, however often it is requested.
//!
//! The caller provides the key (`order:7:deduct`, an `Idempotency-Key` header) and the request. The first call does
//! the work and stores its result. A repeated call gets that result. The same key with another request is refused.
//! Which method to use depends on where the effect is:
//!
//! | the effect is | use | what happens once |
//! |---|---|---|
//! | in a transaction that you have anyway | [`run_in`](Idempotency::run_in) | effect and result commit with your transaction |
//! | in this database, and concurrent calls should get "in progress" | [`run`](Idempotency::run) | effect and result commit together, in a transaction of the store |
//! | elsewhere: a payment provider, a mail server | [`call`](Idempotency::call) | the result; the effect **at least** once |
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # mod example {
//! # use postrider::store::sqlite::SqliteStore;
//! use postrider::idempotency::{Idempotency, IdempotencyError, Outcome};
//!
//! # async fn example(store: SqliteStore) -> Result<(), Box<dyn std::error::Error>> {
//! let keys = Idempotency::new(store).scope("inventory.deduct");
//! let request = serde_json::json!({ "orderId": 7, "items": [{ "sku": "A", "quantity": 2 }] });
//! let deducted = keys
//!     .run("7-DEDUCT", &request, |tx| {
//!         Box::pin(async move {
//!             let query = sqlx::query("UPDATE stock SET n = n - 2 WHERE sku = 'A' AND n >= 2");
//!             Ok::<_, sqlx::Error>(query.execute(tx).await?.rows_affected())
//!         })
//!     })
//!     .await;
//! match deducted {
//!     Ok(Outcome::Fresh(rows)) | Ok(Outcome::Replayed(rows)) => println!("{rows} rows"),
//!     Err(IdempotencyError::InProgress | IdempotencyError::LeaseLost) => println!("409: try again later"),
//!     Err(IdempotencyError::Mismatch) => println!("422: this key belongs to another request"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! # }
//! ```

mod fingerprint;

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use fingerprint::fingerprint;

use crate::error::{Error, Result};
use crate::limits;
use crate::store::{Key, KeyState, Keys, Token};

/// How long a key is held without an extension: as long as a claim.
pub const LEASE: Duration = Duration::from_secs(30);

/// A future that borrows the connection it works on, such as `Box::pin(async move { … })`.
pub type BoxFuture<'c, T> = Pin<Box<dyn Future<Output = T> + Send + 'c>>;

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<T> {
    /// This call did the work.
    Fresh(T),
    /// An earlier call did the work; this is its result.
    Replayed(T),
}

impl<T> Outcome<T> {
    /// The result of either.
    pub fn into_inner(self) -> T {
        match self {
            Self::Fresh(result) | Self::Replayed(result) => result,
        }
    }

    /// Whether an earlier call did the work.
    pub fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }
}

/// Why an operation did not happen, sorted by what the caller can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdempotencyError<E> {
    /// Another call works on it. Try again later with the same key and request (HTTP: 409).
    #[error("an operation with this key is in progress: try again later")]
    InProgress,
    /// The key belongs to another request, finished or not. Nothing was done; use another key (HTTP: 422).
    #[error("this key belongs to another request: use another key")]
    Mismatch,
    /// The key was lost: the work took longer than its lease and another call has it, or a database error that the
    /// work ignored has ended its transaction. What was done in a transaction is rolled back; what was done elsewhere
    /// remains. Try again later.
    #[error("the key was lost before the work was recorded: try again later")]
    LeaseLost,
    /// The work failed. The failure is recorded, and the operation may be tried again with the same key.
    // Not transparent, which would ask for `E: Error`, and `anyhow::Error` is none. With `#` that shows its causes too.
    #[error("{0:#}")]
    Work(E),
    /// The store failed, or the key or the result exceeds a limit, which the text names. Try again, or correct it.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Whether the work of [`call`](Idempotency::call) may find effects of an earlier attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// There was no attempt before.
    First,
    /// An earlier attempt failed or never finished: check first whether the effect exists.
    Again,
}

/// Idempotency keys of one scope.
#[derive(Debug, Clone)]
pub struct Idempotency<S> {
    store: S,
    scope: Arc<str>,
    lease: Duration,
}

impl<S: Keys> Idempotency<S> {
    /// Keys without a scope.
    pub fn new(store: S) -> Self {
        Self { store, scope: "default".into(), lease: LEASE }
    }

    /// The namespace of the keys: an operation, a route, a tenant. The same key in another scope is another key.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into().into();
        self
    }

    /// How soon a key can be taken over after its holder has died. [`call`](Self::call) extends it during the work; a
    /// key inside a transaction is not taken over.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Does the work inside the caller's transaction. Use it if there is one anyway, for example in a consumer.
    /// Effect, key and result commit or roll back with it.
    ///
    /// After **any** error, roll back: the key is part of the transaction. A failure is therefore not recorded, and
    /// the next call starts again. A concurrent call waits for this transaction, and then gets its result.
    pub async fn run_in<T, E, F>(
        &self,
        conn: &mut S::Conn,
        key: &str,
        request: &(impl Serialize + Sync + ?Sized),
        work: F,
    ) -> Result<Outcome<T>, IdempotencyError<E>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Send,
        F: for<'c> FnOnce(&'c mut S::Conn) -> BoxFuture<'c, Result<T, E>> + Send,
    {
        let fingerprint = self.check(key, request)?;
        let key = self.key(key);
        let token = match mine(self.store.begin_key(conn, &key, &fingerprint, self.lease).await?)? {
            Begun::Mine(token, _) => token,
            Begun::Done(result) => return Ok(Outcome::Replayed(decode(&result)?)),
        };
        let result = work(&mut *conn).await.map_err(IdempotencyError::Work)?;
        self.complete(conn, &key, token, &encode(&result)?).await?;
        Ok(Outcome::Fresh(result))
    }

    /// Does the work in a transaction of the store. Use it if the effect is in this database. The key is taken first,
    /// in a short transaction, so that concurrent calls get "in progress" at once instead of waiting; then effect and
    /// result commit together. If the work fails, its transaction is rolled back and the failure is recorded outside
    /// of it: the next call tries again, one at a time.
    ///
    /// If the process dies, or the future is dropped, the key can be taken over when its lease ends. Then no part of
    /// the effect exists.
    pub async fn run<T, E, F>(
        &self,
        key: &str,
        request: &(impl Serialize + Sync + ?Sized),
        work: F,
    ) -> Result<Outcome<T>, IdempotencyError<E>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        F: for<'c> FnOnce(&'c mut S::Conn) -> BoxFuture<'c, Result<T, E>> + Send,
    {
        let fingerprint = self.check(key, request)?;
        let key = self.key(key);
        let token = match self.begin(&key, &fingerprint).await? {
            Begun::Mine(token, _) => token,
            Begun::Done(result) => return Ok(Outcome::Replayed(decode(&result)?)),
        };
        match self.commit_together(&key, token, work).await {
            Ok(result) => Ok(Outcome::Fresh(result)),
            Err(error) => {
                // If the answer to the commit was lost, it may have happened. Then the key is done, and this call
                // changes nothing.
                self.fail(&key, token, &error.to_string()).await;
                Err(error)
            }
        }
    }

    /// Does work whose effect is outside the database: a call to a payment provider, a mail. No transaction is open
    /// during the work, and the lease is extended as long as it takes.
    ///
    /// The result is stored once. The effect happens **at least** once, because the process can die between the two.
    /// [`Attempt::Again`] means that an earlier attempt may have had the effect: check first, or send a key that the
    /// other system knows.
    pub async fn call<T, E, F, Fut>(
        &self,
        key: &str,
        request: &(impl Serialize + Sync + ?Sized),
        work: F,
    ) -> Result<Outcome<T>, IdempotencyError<E>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        F: FnOnce(Attempt) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let fingerprint = self.check(key, request)?;
        let key = self.key(key);
        let (token, attempt) = match self.begin(&key, &fingerprint).await? {
            Begun::Mine(token, attempt) => (token, attempt),
            Begun::Done(result) => return Ok(Outcome::Replayed(decode(&result)?)),
        };
        let worked = tokio::select! {
            worked = work(attempt) => worked,
            never = self.keep(&key, token) => match never {},
        };
        match self.record(&key, token, worked).await {
            Ok(result) => Ok(Outcome::Fresh(result)),
            Err(error) => {
                self.fail(&key, token, &error.to_string()).await;
                Err(error)
            }
        }
    }

    fn key<'a>(&'a self, key: &'a str) -> Key<'a> {
        Key { scope: &self.scope, key }
    }

    fn check(&self, key: &str, request: &(impl Serialize + ?Sized)) -> Result<[u8; 32]> {
        limits::text("scope", &self.scope, limits::LABEL_CHARS)?;
        limits::text("idempotency key", key, limits::IDEMPOTENCY_KEY_CHARS)?;
        if self.lease.is_zero() {
            return Err(Error::invalid("lease", "must be longer than nothing".into()));
        }
        fingerprint(request)
    }

    /// Takes the key in a separate transaction.
    async fn begin<E>(&self, key: &Key<'_>, fingerprint: &[u8]) -> Result<Begun, IdempotencyError<E>> {
        let mut tx = self.store.begin().await?;
        let state = self.store.begin_key(&mut tx, key, fingerprint, self.lease).await?;
        self.store.commit(tx).await?;
        mine(state)
    }

    /// The work and its result, in one transaction.
    async fn commit_together<T, E, F>(&self, key: &Key<'_>, token: Token, work: F) -> Result<T, IdempotencyError<E>>
    where
        T: Serialize + Send,
        E: Send,
        F: for<'c> FnOnce(&'c mut S::Conn) -> BoxFuture<'c, Result<T, E>> + Send,
    {
        let mut tx = self.store.begin().await?;
        // Under a token of this transaction. If a database error that the work ignored has ended the transaction, the
        // token is gone with it, and the result cannot be stored without the effect.
        let joined = self.store.join_key(&mut tx, key, token, self.lease).await?;
        let joined = joined.ok_or(IdempotencyError::LeaseLost)?;
        let result = work(&mut tx).await.map_err(IdempotencyError::Work)?;
        self.complete(&mut tx, key, joined, &encode(&result)?).await?;
        self.store.commit(tx).await?;
        Ok(result)
    }

    /// Stores the result of work that was done elsewhere.
    async fn record<T, E>(&self, key: &Key<'_>, token: Token, worked: Result<T, E>) -> Result<T, IdempotencyError<E>>
    where
        T: Serialize + Send,
        E: Send,
    {
        let result = worked.map_err(IdempotencyError::Work)?;
        let text = encode(&result)?;
        let mut tx = self.store.begin().await?;
        self.complete(&mut tx, key, token, &text).await?;
        self.store.commit(tx).await?;
        Ok(result)
    }

    async fn complete<E>(
        &self,
        conn: &mut S::Conn,
        key: &Key<'_>,
        token: Token,
        result: &str,
    ) -> Result<(), IdempotencyError<E>> {
        if self.store.complete_key(conn, key, token, result).await? { Ok(()) } else { Err(IdempotencyError::LeaseLost) }
    }

    /// Records a failure, so that the next attempt need not wait for the lease to end. If that fails too, it waits.
    /// Does nothing if another call holds the key.
    async fn fail(&self, key: &Key<'_>, token: Token, words: &str) {
        let recorded = async {
            let mut tx = self.store.begin().await?;
            self.store.fail_key(&mut tx, key, token, words).await?;
            self.store.commit(tx).await
        };
        if let Err(error) = recorded.await {
            let (scope, key) = (key.scope, key.key);
            tracing::warn!(scope, key, %error, "a failure under a key was not recorded: its lease runs out");
        }
    }

    /// Extends the lease during the work. The work is not stopped if the lease is lost: an effect elsewhere cannot be
    /// undone half-way, and its result is refused at the end.
    async fn keep(&self, key: &Key<'_>, token: Token) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(self.lease / 3).await;
            let extended = async {
                let mut tx = self.store.begin().await?;
                let extended = self.store.extend_key(&mut tx, key, token, self.lease).await?;
                self.store.commit(tx).await?;
                Ok::<_, Error>(extended)
            };
            match extended.await {
                Ok(true) => {}
                Ok(false) => std::future::pending().await,
                Err(error) => {
                    let (scope, key) = (key.scope, key.key);
                    tracing::warn!(scope, key, %error, "the lease of a key was not extended");
                }
            }
        }
    }
}

/// A key that the caller holds, or the stored result.
enum Begun {
    Mine(Token, Attempt),
    Done(String),
}

fn mine<E>(state: KeyState) -> Result<Begun, IdempotencyError<E>> {
    match state {
        KeyState::Begun(token) => Ok(Begun::Mine(token, Attempt::First)),
        KeyState::TakenOver(token) => Ok(Begun::Mine(token, Attempt::Again)),
        KeyState::Done(result) => Ok(Begun::Done(result)),
        KeyState::InProgress => Err(IdempotencyError::InProgress),
        KeyState::Mismatch => Err(IdempotencyError::Mismatch),
    }
}

/// The stored form of a result. JSON escapes NUL, so every store accepts it.
fn encode(result: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(result).map_err(Error::Encode)?;
    limits::bytes("result", &text, limits::RESULT_BYTES)?;
    Ok(text)
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("that was kept under this key cannot be read as what is asked for now ({error})");
        Error::invalid("result", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_an_error_also_for_work_whose_error_is_none() {
        /// Like `anyhow::Error`: it can be shown, and is not an `Error` itself.
        #[derive(Debug)]
        struct Shown;
        impl Display for Shown {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(if f.alternate() { "no stock: the shelf is empty" } else { "no stock" })
            }
        }
        let error: Box<dyn std::error::Error + Send + Sync> = IdempotencyError::Work(Shown).into();
        assert_eq!(error.to_string(), "no stock: the shelf is empty");
    }
}
