//! Operations on the caller's connection, inside the caller's transaction.

use std::future::Future;
use std::ops::DerefMut;
use std::time::Duration;

use super::{DeliveryId, Enqueued, History, NewEvent, Store, Token, Unheard};
use crate::error::Result;

/// A store whose writes can join the caller's transaction.
pub trait Enlist: Store + Clone {
    /// The connection that carries a transaction: what `&mut tx` derefs to.
    type Conn: Send;
    /// A transaction of the store. It rolls back when dropped.
    type Tx: DerefMut<Target = Self::Conn> + Send;

    /// Begins a transaction that can write.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// Commits it.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<()>> + Send;

    /// Writes events and their deliveries. One answer per event, in order.
    fn enqueue(
        &self,
        conn: &mut Self::Conn,
        batch: &[NewEvent],
        unheard: Unheard,
    ) -> impl Future<Output = Result<Vec<Enqueued>>> + Send;

    /// Writes the inbox row. Returns false, and writes nothing, if this consumer has received this event before.
    fn receive(&self, conn: &mut Self::Conn, receipt: &Receipt<'_>) -> impl Future<Output = Result<bool>> + Send;

    /// The same for many events. One answer per receipt, in order.
    fn receive_many(
        &self,
        conn: &mut Self::Conn,
        receipts: &[Receipt<'_>],
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Counts an event that the inbox has stopped, in the transaction that removes its delivery.
    fn note_repeat(
        &self,
        conn: &mut Self::Conn,
        consumer: &str,
        event_id: &str,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Stores the business key of an effect with its inbox row, before [`Enlist::complete`].
    fn keep_key(
        &self,
        conn: &mut Self::Conn,
        consumer: &str,
        event_id: &str,
        key: &str,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The last statement of a consumer's transaction: stores the results, appends the successes and removes the
    /// deliveries, if the token still holds **and** every inbox row is there. Otherwise it returns
    /// [`Error::LeaseLost`](crate::Error::LeaseLost) or [`Error::TransactionLost`](crate::Error::TransactionLost), and the
    /// transaction must be rolled back: the lease is gone, or a database error that the consumer ignored has ended the
    /// transaction.
    fn complete(&self, conn: &mut Self::Conn, completion: &Completion<'_>) -> impl Future<Output = Result<()>> + Send;

    /// The last statement of a consumer's transaction if the delivery is a broker's message and no row of this database:
    /// stores the results, if every inbox row is there. Otherwise it returns
    /// [`Error::TransactionLost`](crate::Error::TransactionLost).
    fn confirm_received(
        &self,
        conn: &mut Self::Conn,
        consumer: &str,
        handled: &[Handled<'_>],
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Idempotency keys of business operations, in the caller's transaction.
pub trait Keys: Enlist {
    /// Takes an idempotency key.
    fn begin_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        fingerprint: &[u8],
        lease: Duration,
    ) -> impl Future<Output = Result<KeyState>> + Send;

    /// Stores the result of the work done under a key. Returns false if another caller holds the key by now.
    fn complete_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        result: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Records that the work under a key failed, so that it may be tried again. Returns false if another caller holds the
    /// key.
    fn fail_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        error: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Takes a key that was begun in an earlier transaction into this one; until this one ends, no other caller can take it
    /// over. Only the new token completes it: if this transaction is rolled back, even by the database, the new token was
    /// never stored and completes nothing. Returns `None` if another caller holds the key.
    fn join_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        lease: Duration,
    ) -> impl Future<Output = Result<Option<Token>>> + Send;

    /// Extends the lease of a key to `lease` from now. Returns false if another caller holds it.
    fn extend_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        lease: Duration,
    ) -> impl Future<Output = Result<bool>> + Send;
}

/// [`Events::publish`](super::Events::publish) of a store that can enlist, in a transaction of the store.
pub(super) async fn publish(store: &impl Enlist, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
    let mut tx = store.begin().await?;
    let enqueued = store.enqueue(&mut tx, batch, unheard).await?;
    store.commit(tx).await?;
    Ok(enqueued)
}

/// What the inbox stores about an event.
#[derive(Debug, Clone)]
pub struct Receipt<'a> {
    /// The consumer that received it.
    pub consumer: &'a str,
    /// The event.
    pub event_id: &'a str,
    /// Its topic.
    pub topic: &'a str,
    /// Its tenant.
    pub tenant_id: Option<&'a str>,
    /// The idempotency key of its effect in other systems.
    pub idempotency_key: Option<&'a str>,
}

/// The end of a consumer's transaction.
#[derive(Debug, Clone)]
pub struct Completion<'a> {
    /// The consumer.
    pub consumer: &'a str,
    /// The claim under which all events were handled.
    pub token: Token,
    /// Whether the successes are appended.
    pub history: History,
    /// The handled events.
    pub completed: &'a [Completed<'a>],
}

/// One event that a consumer has handled.
#[derive(Debug, Clone)]
pub struct Completed<'a> {
    /// The event.
    pub event_id: &'a str,
    /// Its delivery.
    pub delivery: DeliveryId,
    /// The consumer's result, stored in the inbox. `None` leaves the stored value as it is.
    pub result: Option<&'a str>,
}

/// An event that a consumer has handled and that has no delivery in this store.
#[derive(Debug, Clone)]
pub struct Handled<'a> {
    /// The event.
    pub event_id: &'a str,
    /// The consumer's result, stored in the inbox. `None` leaves the stored value as it is.
    pub result: Option<&'a str>,
}

/// A business idempotency key within its scope.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// The namespace of the key: a route, a tenant, an operation.
    pub scope: &'a str,
    /// The key.
    pub key: &'a str,
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// The caller holds it: do the work, then complete or fail the key with this token.
    Begun(Token),
    /// The caller holds it. An earlier holder failed or never finished, so part of its work may exist.
    TakenOver(Token),
    /// The work is done; this is its result.
    Done(String),
    /// Another caller holds it.
    InProgress,
    /// The key was used with another request.
    Mismatch,
}
