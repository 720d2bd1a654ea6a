//! One event with everything that happened to it.

use std::collections::BTreeMap;

use postrider::Scope;
use postrider::entry::DeliveryStatus;
use postrider::store::{DeadHead, Delivery, KeyFront, Record};
use postrider::subscription::EVERY_TOPIC;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{AnyJson, ConsumptionView, Content, DeliveryView, EventSummary, summaries};
use crate::App;
use crate::problem::Problem;

/// An event, its payload where the caller may see it, and everything that happened to it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventDetail {
    #[serde(flatten)]
    summary: EventSummary,
    #[serde(flatten)]
    content: Content,
    /// Whether payload and metadata are left out, because the caller's role does not see them.
    masked: bool,
    /// Bytes of the payload's text.
    payload_bytes: usize,
    /// Whether `payload` is a string with the beginning of the payload's text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    payload_truncated: bool,
    consumptions: Vec<ConsumptionView>,
    deliveries: Vec<DeliveryView>,
    /// What caused it, the nearest first, as far as it is still there.
    parents: Vec<EventSummary>,
    /// What it directly caused, in the order of time.
    children: Vec<EventSummary>,
}

/// Bytes of a preview: more than a page shows at once.
const PREVIEW_BYTES: usize = 64 * 1024;

/// How much of a payload is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PayloadPart {
    /// Nothing.
    None,
    /// Its first 64 KiB.
    Preview,
    /// All of it.
    #[default]
    Full,
}

/// Every attempt at an event.
pub(crate) fn consumptions(found: &Record) -> Vec<ConsumptionView> {
    found.history().into_iter().map(Into::into).collect()
}

/// Everything of an event that still waits.
pub(crate) fn deliveries(found: &Record, lanes: &LaneAttempts) -> Vec<DeliveryView> {
    let of_event = found.envelope.max_attempts;
    let view = |one: Delivery| {
        let max_attempts = of_event.unwrap_or_else(|| lanes.of(&one.lane, &found.envelope.topic));
        DeliveryView::of(one, max_attempts)
    };
    found.deliveries.iter().cloned().map(view).collect()
}

/// What each delivery of an event waits for, in the order of its deliveries.
#[derive(Default)]
pub(crate) struct Fronts(Vec<Option<KeyFront>>);

impl Fronts {
    /// As a token with this scope sees them.
    pub(crate) async fn read(app: &App, scope: &Scope, found: &Record) -> Result<Self, Problem> {
        let Some(key) = &found.envelope.key else { return Ok(Self::default()) };
        let mut fronts = Vec::with_capacity(found.deliveries.len());
        for delivery in &found.deliveries {
            // A relay may be configured otherwise: what it has parked waits, whatever this server would do.
            let rule = if delivery.held { DeadHead::Hold } else { app.options.dead_head };
            let mut front = match delivery.status {
                DeliveryStatus::New | DeliveryStatus::Failed => {
                    app.store.key_front(&delivery.lane, key, found.sequence, rule).await?
                }
                DeliveryStatus::Processing | DeliveryStatus::Dead => None,
            };
            if let Some(one) = front.as_ref().filter(|_| !scope.is_everything()) {
                let event = app.store.find(&one.event_id).await?;
                front = front.filter(|_| event.is_some_and(|event| scope.has_event(&event)));
            }
            fronts.push(front);
        }
        Ok(Self(fronts))
    }
}

/// How many attempts a delivery of each lane has.
#[derive(Default)]
pub(crate) struct LaneAttempts {
    /// By lane, as its relay is configured.
    recorded: BTreeMap<String, u32>,
    /// By consumer and topic, as an operator limits them.
    limited: BTreeMap<(String, String), u32>,
    otherwise: u32,
}

impl LaneAttempts {
    pub(crate) async fn read(app: &App) -> Result<Self, Problem> {
        let subscriptions = app.store.subscriptions(None).await?.into_iter().map(|stored| stored.subscription);
        let limited = subscriptions.filter_map(|one| Some(((one.consumer, one.topic), one.max_attempts?)));
        Ok(Self {
            recorded: app.store.lanes().await?.into_iter().map(|(lane, is)| (lane, is.max_attempts)).collect(),
            limited: limited.collect(),
            otherwise: app.options.retry.max_attempts,
        })
    }

    fn of(&self, lane: &str, topic: &str) -> u32 {
        let limit = |topic: &str| self.limited.get(&(lane.to_owned(), topic.to_owned()));
        let limit = limit(topic).or_else(|| limit(EVERY_TOPIC)).or_else(|| self.recorded.get(lane));
        limit.copied().unwrap_or(self.otherwise)
    }
}

impl EventDetail {
    /// The event with its relatives; `shown` is `None` if the caller does not see payloads.
    pub(crate) fn of(
        found: Record,
        parents: &[Record],
        children: &[Record],
        shown: Option<PayloadPart>,
        lanes: &LaneAttempts,
        fronts: Fronts,
    ) -> Self {
        let (summary, payload_bytes) = (EventSummary::from(&found), found.envelope.payload.len());
        let fronts = fronts.0.into_iter().chain(std::iter::repeat(None));
        let deliveries =
            deliveries(&found, lanes).into_iter().zip(fronts).map(|(one, front)| one.behind(front)).collect();
        let consumptions = consumptions(&found);
        let truncated = shown == Some(PayloadPart::Preview) && payload_bytes > PREVIEW_BYTES;
        let preview = truncated.then(|| {
            let text = &found.envelope.payload;
            // As a string: JSON that ends in the middle is none.
            AnyJson::of(&text[..text.floor_char_boundary(PREVIEW_BYTES)], false)
        });
        let mut content = Content::of(found.envelope, shown.is_some());
        content.payload = preview.or(content.payload).filter(|_| shown != Some(PayloadPart::None));
        Self {
            summary,
            content,
            masked: shown.is_none(),
            payload_bytes,
            payload_truncated: truncated,
            consumptions,
            deliveries,
            parents: summaries(parents),
            children: summaries(children),
        }
    }
}
