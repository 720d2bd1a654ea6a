//! Whole transactions that are run again when the database asks for it.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use super::Enlist;
use crate::error::Error;
use crate::retry::chance;

/// How often a transaction is run again. Each takes milliseconds, so the one it collided with has ended by then.
const TRIES: u32 = 10;

/// Transactions with the caller's own statements, from begin to commit.
pub trait Transactions: Enlist {
    /// Begins a transaction, runs `work` on it, and commits the transaction that `work` returns with its result. After an error
    /// it rolls back. If the database has rolled the transaction back in favour of another (a deadlock, a serialization
    /// failure), `work` is run again, ten times at most: it must have no effect outside the database.
    ///
    /// ```
    /// # use postrider::prelude::*;
    /// # use postrider::{Event, Outbox};
    /// # async fn pay<S: Enlist, E: Event>(store: &S, outbox: &Outbox<S>, paid: &E) -> postrider::Result<()> {
    /// store
    ///     .transaction(|mut tx| async move {
    ///         // your own statements on `&mut *tx`, then:
    ///         outbox.enqueue(&mut tx, paid).await?;
    ///         Ok((tx, ()))
    ///     })
    ///     .await
    /// # }
    /// ```
    // Not an async closure over `&mut Conn`: its future cannot be shown to be `Send` where handlers of axum need that.
    fn transaction<T, E, F, W>(&self, work: F) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send,
        E: TransactionError + Send,
        F: Fn(Self::Tx) -> W + Send + Sync,
        W: Future<Output = Result<(Self::Tx, T), E>> + Send,
    {
        async move { retry_lost(|| once(self, &work)).await }
    }
}

impl<S: Enlist> Transactions for S {}

/// Runs a whole transaction, from begin to commit, again while the database rolls it back in favour of another, ten times at
/// most. For work that begins and commits by itself; [`Transactions::transaction`] does that too.
pub async fn retry_lost<T, E, W>(work: impl Fn() -> W) -> Result<T, E>
where
    E: TransactionError,
    W: Future<Output = Result<T, E>>,
{
    let mut tries = 0;
    loop {
        match work().await {
            Err(error) if error.is_transaction_lost() && tries < TRIES => {
                // At random, so that two transactions that collided do not collide again.
                let longest = Duration::from_millis(1 << tries);
                tokio::time::sleep(longest.mul_f64(chance())).await;
                tries += 1;
            }
            done => return done,
        }
    }
}

async fn once<S, T, E, W>(store: &S, work: &(impl Fn(S::Tx) -> W + Sync)) -> Result<T, E>
where
    S: Enlist,
    E: TransactionError,
    W: Future<Output = Result<(S::Tx, T), E>> + Send,
{
    let (tx, done) = work(store.begin().await?).await?;
    store.commit(tx).await?;
    Ok(done)
}

/// An error of the work inside [`Transactions::transaction`].
pub trait TransactionError: From<Error> {
    /// Whether the database has rolled the transaction back and asks to run it again.
    fn is_transaction_lost(&self) -> bool;
}

impl TransactionError for Error {
    fn is_transaction_lost(&self) -> bool {
        matches!(self, Self::TransactionLost(_))
    }
}

impl TransactionError for Box<dyn StdError + Send + Sync> {
    /// Looks through the causes: an error of ours or of the driver.
    fn is_transaction_lost(&self) -> bool {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&**self);
        while let Some(error) = cause {
            if error.downcast_ref::<Error>().is_some_and(Error::is_transaction_lost) {
                return true;
            }
            #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
            if error.downcast_ref::<sqlx::Error>().is_some_and(super::sql::is_transaction_lost) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
