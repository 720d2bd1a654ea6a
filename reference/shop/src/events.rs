//! The events of the shop. The key of an order's events is the order id, so each consumer gets them in order. Event ids
//! are derived from the step, so a repeated step writes no second event.
//!
//! A consumer needs only the `orderId`, so an event inserted by hand needs no other field.

use postrider::{Aggregate, Draft, Enqueued, Event, Initiator};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::database::Database;
use crate::error::Result;
use crate::orders::Order;
use crate::shop::{Caller, Shop};

/// The payload of an event: the order id, and some fields for other readers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The order.
    #[serde(deserialize_with = "text_or_number")]
    pub order_id: String,
    /// The customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The amount paid or due in money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_cents: Option<i64>,
    /// The payment, if the event is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_id: Option<String>,
    /// The refund, if the event is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund_id: Option<String>,
    /// When the order was paid, if the event is about a purchase. RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<String>,
    /// The growth of the membership, if the event is about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<i64>,
    /// The event that the membership has grown by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_event_id: Option<String>,
    /// The channel of a notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The template of a notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<String>,
}

/// Accepts an id as text or as a number: `7` is `"7"`.
pub(crate) fn text_or_number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(i64),
    }
    Ok(match Id::deserialize(deserializer)? {
        Id::Text(text) => text,
        Id::Number(number) => number.to_string(),
    })
}

/// A time of the database, for readers elsewhere.
pub(crate) fn rfc3339(millis: i64) -> Option<String> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000).ok()?.format(&Rfc3339).ok()
}

impl Facts {
    /// The facts of an order.
    pub fn of(order: &Order) -> Self {
        Self {
            order_id: order.order_id.clone(),
            user_id: Some(order.user_id.clone()),
            amount_cents: Some(order.amount_cents),
            ..Self::default()
        }
    }

    pub(crate) fn payment(mut self, payment_id: &str) -> Self {
        self.payment_id = Some(payment_id.to_owned());
        self
    }

    pub(crate) fn refund(mut self, refund_id: &str) -> Self {
        self.refund_id = Some(refund_id.to_owned());
        self
    }

    /// The facts of a purchase, with the time of its payment.
    pub(crate) fn purchase(order: &Order) -> Self {
        Self { occurred_at: order.paid_at.and_then(rfc3339), ..Self::of(order) }
    }
}

/// An event of an order.
pub trait OrderEvent: Event {
    /// Creates the event.
    fn new(facts: Facts) -> Self;
    /// Its payload.
    fn facts(&self) -> &Facts;
}

macro_rules! order_events {
    ($($(#[$doc:meta])* $event:ident: $topic:literal, $kind:literal, $id:ident as $name:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $event(pub Facts);

        impl Event for $event {
            const TOPIC: &'static str = $topic;

            fn aggregate(&self) -> Option<Aggregate> {
                self.0.$id().map(|id| Aggregate::new($kind, id))
            }

            fn key(&self) -> Option<String> {
                Some(self.0.order_id.clone())
            }

            fn event_id(&self) -> Option<String> {
                self.0.$id().map(|id| format!($name, id))
            }
        }

        impl OrderEvent for $event {
            fn new(facts: Facts) -> Self {
                Self(facts)
            }

            fn facts(&self) -> &Facts {
                &self.0
            }
        }
    )*};
}

impl Facts {
    fn order(&self) -> Option<&str> {
        Some(&self.order_id)
    }

    fn by_payment(&self) -> Option<&str> {
        self.payment_id.as_deref()
    }

    fn by_refund(&self) -> Option<&str> {
        self.refund_id.as_deref()
    }
}

order_events! {
    /// The order is to be paid: its assets are to be locked.
    CheckoutLocked: "order.checkout_locked", "ORDER", order as "order:{}:checkout_locked";
    /// The order is paid: the locked assets are spent.
    Paid: "order.paid", "ORDER", order as "order:{}:paid";
    /// The order is canceled: the locked assets are released.
    Canceled: "order.canceled", "ORDER", order as "order:{}:canceled";
    /// The money is refunded: the assets are returned.
    Refunded: "order.refunded", "ORDER", order as "order:{}:refunded";
    /// The order is paid. For consumers that move no assets.
    Purchased: "order.purchased", "ORDER", order as "order:{}:purchased";
    /// A payment has succeeded.
    PaymentSucceeded: "payment.success", "PAYMENT", by_payment as "payment:{}:success";
    /// A payment has failed.
    PaymentFailed: "payment.failed", "PAYMENT", by_payment as "payment:{}:failed";
    /// A refund has succeeded.
    RefundSucceeded: "refund.success", "REFUND", by_refund as "refund:{}:success";
    /// A refund has failed: an operator has to act.
    RefundFailed: "refund.failed", "REFUND", by_refund as "refund:{}:failed";
    /// A membership has grown.
    PointsAdded: "points.added", "ORDER", order as "order:{}:points_added";
    /// A customer was notified.
    NotificationSent: "notification.sent", "ORDER", order as "order:{}:notified";
}

/// Enqueues an event of an order. All events of one order share one trace.
pub(crate) async fn enqueue_event<S: Database, E: OrderEvent>(
    shop: &Shop<S>,
    tx: &mut S::Conn,
    order: &Order,
    caller: &Caller,
    event: E,
) -> Result<Enqueued> {
    let initiator = Initiator {
        user_id: Some(order.user_id.clone()),
        client_request_id: caller.request_id.clone(),
        ..Initiator::default()
    };
    let draft = Draft::of(&event)?.trace(&order.trace_id, None).initiator(initiator);
    Ok(shop.outbox.enqueue(tx, draft).await?)
}
