//! Where consumers of many types become things of one type. Nobody else erases types.

use std::sync::Arc;

use async_trait::async_trait;

use crate::consumer::{BatchConsumer, Consumer, Failure, Handling, OutsideConsumer, Received};
use crate::event::Event;
use crate::store::Enlist;

/// A consumer of some type, behind its kind.
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

    async fn handle(&self, tx: &mut S::Conn, batch: &[Arc<Handling>]) -> Result<Vec<Result<(), Failure>>, Failure>;
}

/// A type of its own for each kind: one type may be a consumer in two ways.
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

    async fn handle(&self, tx: &mut S::Conn, batch: &[Arc<Handling>]) -> Result<Vec<Result<(), Failure>>, Failure> {
        let events = batch.iter().map(decode).collect::<Result<_, _>>()?;
        let results = self.0.handle(tx, events).await?;
        match results.len() == batch.len() {
            true => Ok(results),
            false => Err(Failure::reject(format!(
                "the consumer answered for {} of {} events: return one result for each",
                results.len(),
                batch.len()
            ))
            .code("answers")),
        }
    }
}

/// F19: what cannot be decoded can never be, and is given up by itself.
fn decode<E: Event>(handling: &Arc<Handling>) -> Result<Received<E>, Failure> {
    match serde_json::from_str(&handling.envelope.payload) {
        Ok(event) => Ok(Received::new(event, Arc::clone(handling))),
        Err(e) => {
            Err(Failure::reject(format!("the payload is no {}: {}", E::TOPIC, without_values(&e))).code("undecodable"))
        }
    }
}

/// The error without what it found: payloads are not for logs.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let names_a_field = ["missing field", "unknown field", "duplicate field"].iter().any(|kind| text.starts_with(kind));
    match names_a_field {
        true => text,
        false => format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    #[allow(dead_code, reason = "only its decoding is of interest")]
    struct Paid {
        cents: i64,
    }

    #[test]
    fn an_undecodable_payload_is_described_without_its_values() {
        let describe = |json: &str| match serde_json::from_str::<Paid>(json) {
            Ok(_) => panic!("{json} is a payment"),
            Err(e) => without_values(&e),
        };
        assert_eq!(describe("{}"), "missing field `cents` at line 1 column 2");
        let secret = describe(r#"{"cents": "hunter2"}"#);
        assert_eq!(secret, "Data error at line 1 column 19");
    }
}
