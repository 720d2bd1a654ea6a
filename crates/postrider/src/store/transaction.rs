//! Whole transactions that are run again when the database asks for it.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use super::Enlist;
use crate::error::Error;
use crate::retry::chance;

/// How often a transaction is retried. Each takes milliseconds, so the conflicting one has ended by then.
const TRIES: u32 = 10;

/// Transactions with the caller's own statements, from begin to commit.
pub trait Transactions: Enlist {
    /// Begins a transaction, runs `work` on it, and commits. After an error it rolls back. If the database has rolled the
    /// transaction back in favour of another (a deadlock, a serialization failure), `work` is run again, ten times at most:
    /// it must have no effect outside the database.
    ///
    /// ```
    /// # use postrider::prelude::*;
    /// # use postrider::{Event, Outbox};
    /// # async fn pay<S: Enlist, E: Event>(store: S, outbox: Outbox<S>, paid: E) -> postrider::Result<()> {
    /// store
    ///     .transaction(async |tx| {
    ///         // your own statements on `tx`, then:
    ///         outbox.enqueue(tx, &paid).await?;
    ///         Ok::<_, postrider::Error>(())
    ///     })
    ///     .await
    /// # }
    /// ```
    fn transaction<T, E, F>(&self, work: F) -> impl Future<Output = Result<T, E>>
    where
        E: TransactionError,
        F: AsyncFn(&mut Self::Conn) -> Result<T, E>,
    {
        async move {
            let mut tries = 0;
            loop {
                let done = once(self, &work).await;
                match done {
                    Err(error) if error.is_transaction_lost() && tries < TRIES => {
                        // A random wait, so that two transactions that collided do not collide again.
                        let longest = Duration::from_millis(1 << tries);
                        tokio::time::sleep(longest.mul_f64(chance())).await;
                        tries += 1;
                    }
                    done => return done,
                }
            }
        }
    }
}

impl<S: Enlist> Transactions for S {}

async fn once<S, T, E, F>(store: &S, work: &F) -> Result<T, E>
where
    S: Enlist,
    E: TransactionError,
    F: AsyncFn(&mut S::Conn) -> Result<T, E>,
{
    let mut tx = store.begin().await?;
    let done = work(&mut tx).await?;
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
    /// Searches the causes for an error of this library or of the driver.
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
