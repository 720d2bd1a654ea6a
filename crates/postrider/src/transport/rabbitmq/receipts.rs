//! Receipts: remote consumers report through the broker, and a collector writes the reports to the store.

use std::sync::Arc;

use futures_util::StreamExt;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::link::{Away, Link};
use super::publisher::{Letter, Properties, Publisher};
use super::topology::{self, Undeclared};
use crate::alert;
use crate::error::{Error, Result};
use crate::limits;
use crate::retry;
use crate::store::{Appended, Report, Store};
use crate::transport::Outcome;

/// Receipts that the broker delivers ahead.
const PREFETCH: u16 = 100;

/// Marks receipts of this library's receivers.
const APP_ID: &str = "postrider";

/// A report, in the names of the API.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    event_id: String,
    consumer_id: String,
    success: bool,
    #[serde(default)]
    will_retry: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "limits::lossy_text")]
    error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "limits::lossy_text")]
    error_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time::serde::rfc3339::option")]
    consumed_at: Option<OffsetDateTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    callback_id: Option<String>,
}

pub(super) fn body(report: &Report) -> Vec<u8> {
    let wire = Wire {
        event_id: report.event_id.clone(),
        consumer_id: report.consumer.clone(),
        success: report.success,
        will_retry: report.will_retry,
        error_message: report.error.as_deref().map(limits::error_text),
        error_code: report.code.clone(),
        consumed_at: report.consumed_at,
        callback_id: report.callback_id.clone(),
    };
    // Cannot fail: texts, flags and a time.
    serde_json::to_vec(&wire).unwrap_or_default()
}

pub(super) fn properties() -> BasicProperties {
    let properties = BasicProperties::default().with_delivery_mode(2).with_content_type("application/json".into());
    properties.with_app_id(APP_ID.into())
}

/// Whether a receiver of this library has sent it.
fn is_ours(properties: &BasicProperties) -> bool {
    properties.app_id().as_ref().is_some_and(|id| id.as_str() == APP_ID)
}

fn parse(body: &[u8]) -> Result<Report, String> {
    let wire: Wire = serde_json::from_slice(body)
        .map_err(|e| format!("{:?} error at line {} column {}", e.classify(), e.line(), e.column()))?;
    Ok(Report {
        event_id: wire.event_id,
        consumer: wire.consumer_id,
        success: wire.success,
        will_retry: wire.will_retry,
        error: wire.error_message,
        code: wire.error_code,
        callback_id: wire.callback_id,
        consumed_at: wire.consumed_at,
    })
}

/// The same receipt in our own form.
#[cfg(feature = "testing")]
pub(crate) fn reread(text: &str) -> Option<String> {
    let report = parse(text.as_bytes()).ok()?;
    String::from_utf8(body(&report)).ok()
}

/// Writes receipts as attempts, in the store that has the events.
pub struct ReceiptCollector {
    link: Arc<Link>,
    publisher: Publisher,
    store: Arc<dyn Store>,
}

impl ReceiptCollector {
    pub(super) fn new(link: Arc<Link>, publisher: Publisher, store: Arc<dyn Store>) -> Self {
        Self { link, publisher, store }
    }

    /// Works until `shutdown` is ready. A receipt is acknowledged once it is written.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        tokio::select! {
            () = shutdown => Ok(()),
            refused = self.sessions() => refused,
        }
    }

    async fn sessions(&self) -> Result<()> {
        loop {
            let away = match self.session().await {
                Ok(never) => match never {},
                Err(Undeclared::Refused(error)) => return Err(error),
                Err(Undeclared::Away(away)) => away,
            };
            tracing::warn!(error = %away, "receipts are not read: the broker is unreachable");
            tokio::time::sleep(self.link.rest()).await;
        }
    }

    async fn session(&self) -> Result<std::convert::Infallible, Undeclared> {
        let channel = self.link.channel().await?;
        topology::declare_receipts(&channel).await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await.map_err(Away::from)?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consuming = channel.basic_consume(topology::RECEIPTS.into(), ShortString::default(), options, arguments);
        let mut messages = consuming.await.map_err(Away::from)?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(Away::from)?;
            match parse(&message.data) {
                Ok(report) => self.write(&report, is_ours(&message.properties)).await,
                Err(why) => self.park(&message, &why).await?,
            }
            message.acker.ack(BasicAckOptions::default()).await.map_err(Away::from)?;
        }
        Err(Away("the queue of receipts was closed".into()).into())
    }

    /// Writes one receipt. An unreachable store is waited for. `counted`: whether its sender has metrics of its own.
    async fn write(&self, report: &Report, counted: bool) {
        let mut failures = 0;
        loop {
            match self.store.append_consumption(report).await {
                Ok(appended @ (Appended::Attempt(_) | Appended::Repeated(_))) => {
                    match alert::last_attempt(report, &appended) {
                        // A receiver of this library has counted it.
                        Some(attempts) if counted => alert::log_given_up(&*self.store, report, attempts).await,
                        None if counted => {}
                        _ => alert::note_report(&*self.store, report, &appended).await,
                    }
                    return;
                }
                Ok(Appended::NotExpected) => {
                    tracing::warn!(
                        event_id = report.event_id,
                        consumer = report.consumer,
                        "a receipt of a consumer that was not expected"
                    );
                    return;
                }
                Err(Error::Unavailable(error)) => {
                    failures += 1;
                    tracing::warn!(%error, "a receipt waits for the store");
                    tokio::time::sleep(retry::pause(failures)).await;
                }
                Err(error) => {
                    tracing::error!(event_id = report.event_id, consumer = report.consumer, %error, "a receipt was refused");
                    return;
                }
            }
        }
    }

    /// Keeps a message that is not a receipt, for an operator to look at.
    async fn park(&self, message: &Delivery, why: &str) -> Result<(), Away> {
        tracing::error!(error = why, "a message on the queue of receipts is not a receipt");
        let letter = Letter {
            exchange: topology::TO_QUEUE,
            routing_key: &format!("{}.dead", topology::RECEIPTS),
            body: &message.data,
            properties: Properties::Given(&message.properties.clone().with_delivery_mode(2)),
        };
        match self.publisher.publish(vec![letter]).await.pop() {
            Some(Outcome::Done) => Ok(()),
            _ => Err(Away("a message could not be parked".into())),
        }
    }
}
