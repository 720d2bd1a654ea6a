//! Consumers of many types behind one type. No other file erases types.

use std::sync::Arc;

use async_trait::async_trait;

use crate::consumer::{BatchConsumer, Consumer, Failure, Handling, OutsideConsumer, Received};
use crate::event::FromEnvelope;
use crate::store::Enlist;

/// A consumer of any type, by its kind.
pub(crate) enum Registered<S: Enlist> {
    InTransaction(Box<dyn InTransaction<S>>),
    Outside(Box<dyn Outside>),
    InBatches(Box<dyn InBatches<S>>),
}

#[async_trait]
pub(crate) trait InTransaction<S: Enlist>: Send + Sync {
    async fn handle(&self, tx: &mut S::Conn, handling: &Arc<Handling>) -> Result<(), Failure>;
}

#[async_trait]
pub(crate) trait Outside: Send + Sync {
    async fn handle(&self, handling: &Arc<Handling>) -> Result<(), Failure>;
}

#[async_trait]
pub(crate) trait InBatches<S: Enlist>: Send + Sync {
    fn size(&self) -> usize;

    async fn handle(&self, tx: &mut S::Conn, batch: &[Arc<Handling>]) -> Result<(), Failure>;
}

/// A wrapper for each kind, since one type may be a consumer of two kinds.
pub(crate) struct Typed<C>(pub(crate) C);

#[async_trait]
impl<S: Enlist, C: Consumer<S>> InTransaction<S> for Typed<C> {
    async fn handle(&self, tx: &mut S::Conn, handling: &Arc<Handling>) -> Result<(), Failure> {
        self.0.handle(tx, decode(handling)?).await
    }
}

#[async_trait]
impl<C: OutsideConsumer> Outside for Typed<C> {
    async fn handle(&self, handling: &Arc<Handling>) -> Result<(), Failure> {
        self.0.handle(decode(handling)?).await
    }
}

#[async_trait]
impl<S: Enlist, C: BatchConsumer<S>> InBatches<S> for Typed<C> {
    fn size(&self) -> usize {
        C::SIZE.max(1)
    }

    async fn handle(&self, tx: &mut S::Conn, batch: &[Arc<Handling>]) -> Result<(), Failure> {
        let events = batch.iter().map(decode).collect::<Result<_, _>>()?;
        self.0.handle(tx, events).await
    }
}

fn decode<E: FromEnvelope>(handling: &Arc<Handling>) -> Result<Received<E>, Failure> {
    Ok(Received::new(E::from_envelope(&handling.envelope)?, Arc::clone(handling)))
}
