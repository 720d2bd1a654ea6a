//! Consumers of a purchase that move no assets: growth of the membership, a message to the customer, and an activity
//! record for both. All their events share one trace.

use postrider::{Consumer, Failure, Inbox, Received};

use super::{Cause, begin, chance_to_fail, consumers};
use crate::database::Database;
use crate::error::{Result, ShopError};
use crate::events::{Facts, NotificationSent, PointsAdded, enqueue_event};
use crate::orders::Order;
use crate::shop::{Caller, Shop};

/// One unit of growth per this many cents.
const GROWTH_CENTS: i64 = 100;
/// How a customer is notified of a purchase, and with which text.
const CHANNEL: &str = "inApp";
const TEMPLATE: &str = "order-purchased";

consumers! {
    Member: "member-service" hears Purchased, does grow;
    Message: "message-service" hears Purchased, does notify;
    AfterGrowth: "activity" hears PointsAdded, does remember;
    AfterMessage: "activity" hears NotificationSent, does remember;
}

async fn grow<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, cause: Cause) -> Result<i64> {
    const INSERT: &str = "INSERT INTO shop_growth (order_id, user_id, growth) VALUES ($1, $2, $3)";
    let growth = order.amount_cents / GROWTH_CENTS;
    S::execute(tx, INSERT, &[(&order.order_id).into(), (&order.user_id).into(), growth.into()]).await?;
    let facts = Facts { points: Some(growth), source_event_id: Some(cause.event_id), ..Facts::of(&order) };
    enqueue_event(shop, tx, &order, &Caller::default(), PointsAdded(facts)).await?;
    Ok(growth)
}

async fn notify<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<&'static str> {
    const INSERT: &str = "INSERT INTO shop_message (order_id, user_id) VALUES ($1, $2)";
    S::execute(tx, INSERT, &[(&order.order_id).into(), (&order.user_id).into()]).await?;
    let (channel, template_id) = (Some(CHANNEL.to_owned()), Some(TEMPLATE.to_owned()));
    let facts = Facts { channel, template_id, ..Facts::of(&order) };
    enqueue_event(shop, tx, &order, &Caller::default(), NotificationSent(facts)).await?;
    Ok("sent")
}

async fn remember<S: Database>(_: &Shop<S>, tx: &mut S::Conn, order: Order, cause: Cause) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_activity (event_id, user_id, topic) VALUES ($1, $2, $3)";
    S::execute(tx, INSERT, &[(&cause.event_id).into(), (&order.user_id).into(), (&cause.topic).into()]).await?;
    Ok(())
}
