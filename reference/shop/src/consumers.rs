//! The effects of events on assets. The effect of a consumer, its inbox row and its operation key are committed
//! together, so a repeated event moves nothing. The events of one order reach each consumer in order.
//!
//! | lane | topics | effect |
//! |---|---|---|
//! | `coupon`, `wallet`, `points` | `order.checkout_locked` | locks; an asset that can never be locked cancels the
//! order |
//! | | `order.paid` | spends; earns points |
//! | | `order.canceled` | releases, unless a refund follows |
//! | | `order.refunded` | returns |
//! | `inventory` | the same | deducts and returns stock, over HTTP |
//! | `payment`, `refund` | `payment.*`, `refund.*` | repeats the same operations under the same keys, as a safety net |
//! | `member-service`, `message-service`, `activity` | `order.purchased` and its children | no effect on assets |

mod inventory;
mod members;

use postrider::{Consumer, Failure, Inbox, LaneOptions, Received};

use crate::database::Database;
use crate::effects::{self, Told};
use crate::error::{Result, ShopError};
use crate::events::OrderEvent;
use crate::ledger::{Moved, Patience};
use crate::orders::{self, By, Order};
use crate::refunds::{self, Reason};
use crate::shop::{Caller, Shop};
use crate::{coupons, points, wallet};

/// The number of tries, about a minute, for an asset that another order holds. Without a limit, an order that was paid
/// meanwhile would never get the asset or a refund.
const PATIENT_ATTEMPTS: u32 = 6;

/// All consumers of a shop.
pub fn inbox<S: Database>(shop: &Shop<S>) -> Inbox<S> {
    let options = LaneOptions { retry: shop.settings.retry.clone(), ..LaneOptions::default() };
    let inbox = Inbox::new(shop.store.clone()).default_options(options);
    let inbox = members::add(add(inbox, shop), shop);
    match &shop.settings.inventory {
        Some(url) => inventory::add(inbox, shop, url),
        None => inbox,
    }
}

/// The parts of the event besides the order.
pub(crate) struct Cause {
    attempt: u32,
    refund_id: Option<String>,
    pub(crate) event_id: String,
    pub(crate) topic: String,
}

/// `Name: "lane" hears Event, does work`. The order's row is locked during the work.
macro_rules! consumers {
    ($($name:ident: $lane:literal hears $event:ident, does $work:path;)*) => {
        $(struct $name<S>(Shop<S>);

        impl<S: Database> Consumer<S> for $name<S> {
            const NAME: &'static str = $lane;
            type Event = crate::events::$event;

            async fn handle(&self, tx: &mut S::Conn, event: Received<Self::Event>) -> Result<(), Failure> {
                let (order, cause) = begin(&self.0, tx, &event).await?;
                let did = $work(&self.0, tx, order, cause).await.map_err(ShopError::failure)?;
                event.keep(&did)?;
                chance_to_fail(&self.0)
            }
        })*

        pub(super) fn add<S: Database>(inbox: Inbox<S>, shop: &Shop<S>) -> Inbox<S> {
            inbox$(.consumer($name(shop.clone())))*
        }
    };
}
use consumers;

consumers! {
    LockCoupon: "coupon" hears CheckoutLocked, does lock_coupon;
    CommitCoupon: "coupon" hears Paid, does commit_coupon;
    ReleaseCoupon: "coupon" hears Canceled, does release_coupon;
    ReturnCoupon: "coupon" hears Refunded, does return_coupon;
    FreezeWallet: "wallet" hears CheckoutLocked, does freeze_wallet;
    CommitWallet: "wallet" hears Paid, does commit_wallet;
    ReleaseWallet: "wallet" hears Canceled, does release_wallet;
    RevertWallet: "wallet" hears Refunded, does revert_wallet;
    FreezePoints: "points" hears CheckoutLocked, does freeze_points;
    CommitPoints: "points" hears Paid, does commit_points;
    ReleasePoints: "points" hears Canceled, does release_points;
    RevertPoints: "points" hears Refunded, does revert_points;
    AfterPayment: "payment" hears PaymentSucceeded, does after_payment;
    AfterFailedPayment: "payment" hears PaymentFailed, does after_failed_payment;
    AfterRefund: "refund" hears RefundSucceeded, does after_refund;
    AfterFailedRefund: "refund" hears RefundFailed, does after_failed_refund;
}

/// Locks the order's row.
pub(crate) async fn begin<S: Database, E: OrderEvent>(
    shop: &Shop<S>,
    tx: &mut S::Conn,
    event: &Received<E>,
) -> Result<(Order, Cause), Failure> {
    chance_to_fail(shop)?;
    let order = orders::lock::<S>(tx, &event.facts().order_id).await.map_err(ShopError::failure)?;
    let envelope = event.envelope();
    let cause = Cause {
        attempt: event.attempt(),
        refund_id: event.facts().refund_id.clone(),
        event_id: envelope.event_id.to_string(),
        topic: envelope.topic.clone(),
    };
    tracing::info!(order_id = %order.order_id, status = %order.status, "Handling");
    Ok((order, cause))
}

/// Fails at the configured rate. Called before and after the work, so each call uses half of the rate.
pub(crate) fn chance_to_fail<S>(shop: &Shop<S>) -> Result<(), Failure> {
    let percent = f64::from(u32::try_from(uuid::Uuid::new_v4().as_u128() % 10_000).unwrap_or(0)) / 10_000.0;
    if percent < shop.settings.fail_rate / 2.0 {
        Err(Failure::retry("failed on purpose").code("onPurpose"))
    } else {
        Ok(())
    }
}

impl Cause {
    fn patience(&self) -> Patience {
        if self.attempt < PATIENT_ATTEMPTS { Patience::TryAgain } else { Patience::GiveUp }
    }
}

// --- order.checkout_locked

/// Whether the order still needs locks.
fn wants_locks(order: &Order) -> bool {
    order.status == "WAIT_PAY" || order.paid_at.is_some()
}

/// A refused asset ends the order. The resulting event releases the other assets.
async fn unless_refused<S: Database>(
    shop: &Shop<S>,
    tx: &mut S::Conn,
    mut order: Order,
    told: Told,
) -> Result<Vec<Told>> {
    if let Moved::Refused { code } = told.moved() {
        tracing::warn!(order_id = %order.order_id, code, "An order cannot lock an asset");
        give_up(shop, tx, &mut order).await?;
    }
    Ok(vec![told])
}

/// Ends an order that cannot lock an asset: cancels it, or refunds it if it was paid in the meantime.
pub(crate) async fn give_up<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &mut Order) -> Result<()> {
    match order.status.as_str() {
        "WAIT_PAY" => orders::cancel_in(shop, tx, order, &Caller::default(), By::System).await,
        "PAID" | "WAIT_ACCEPT" | "ACCEPTED" => refunds::open_if_none::<S>(tx, order, Reason::NotLocked).await,
        _ => Ok(()),
    }
}

async fn lock_coupon<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, cause: Cause) -> Result<Vec<Told>> {
    if !wants_locks(&order) {
        return Ok(vec![Told::nothing(&order.status)]);
    }
    let moved = coupons::lock(shop, tx, &order, cause.patience()).await?;
    let told = effects::coupon(&order, "checkout", moved);
    unless_refused(shop, tx, order, told).await
}

async fn freeze_wallet<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, cause: Cause) -> Result<Vec<Told>> {
    if !wants_locks(&order) {
        return Ok(vec![Told::nothing(&order.status)]);
    }
    let moved = wallet::freeze(shop, tx, &order, cause.patience()).await?;
    let told = effects::wallet(&order, "freeze", "", moved);
    unless_refused(shop, tx, order, told).await
}

async fn freeze_points<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, cause: Cause) -> Result<Vec<Told>> {
    if !wants_locks(&order) {
        return Ok(vec![Told::nothing(&order.status)]);
    }
    let moved = points::freeze(shop, tx, &order, cause.patience()).await?;
    let told = effects::points(&order, "freeze", "", moved);
    unless_refused(shop, tx, order, told).await
}

// --- order.paid

/// An event inserted by hand for an unpaid order must not spend anything.
fn check_paid(order: &Order) -> Result<()> {
    match order.paid_at {
        Some(_) => Ok(()),
        None => Err(ShopError::Illegal {
            what: "order",
            id: order.order_id.clone(),
            status: order.status.clone(),
            needed: &["PAID"],
        }),
    }
}

async fn commit_coupon<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    check_paid(&order)?;
    Ok(vec![effects::coupon(&order, "commit", coupons::commit(shop, tx, &order).await?)])
}

async fn commit_wallet<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    check_paid(&order)?;
    Ok(vec![effects::wallet(&order, "commit", "", wallet::commit(shop, tx, &order).await?)])
}

async fn commit_points<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    check_paid(&order)?;
    Ok(vec![
        effects::points(&order, "commit", "", points::commit(shop, tx, &order).await?),
        effects::points(&order, "earn", "", points::earn(shop, tx, &order).await?),
    ])
}

// --- order.canceled

/// `Some` if the order was paid before it was canceled. A refund then returns the assets.
fn refund_follows(order: &Order) -> Option<Vec<Told>> {
    order.paid_at.map(|_| vec![Told::nothing("refundFollows")])
}

async fn release_coupon<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    match refund_follows(&order) {
        Some(nothing) => Ok(nothing),
        None => Ok(vec![effects::coupon(&order, "release", coupons::release(shop, tx, &order).await?)]),
    }
}

async fn release_wallet<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    match refund_follows(&order) {
        Some(nothing) => Ok(nothing),
        None => Ok(vec![effects::wallet(&order, "release", "", wallet::release(shop, tx, &order).await?)]),
    }
}

async fn release_points<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    match refund_follows(&order) {
        Some(nothing) => Ok(nothing),
        None => Ok(vec![effects::points(&order, "release", "", points::release(shop, tx, &order).await?)]),
    }
}

// --- order.refunded

/// The successful refund. An order has at most one, whatever the event contains.
async fn refund_of<S: Database>(tx: &mut S::Conn, order: &Order) -> Result<String> {
    match refunds::active::<S>(tx, &order.order_id).await? {
        Some(refund) if refund.status == "SUCCESS" => Ok(refund.refund_id),
        _ => Err(ShopError::Conflict {
            code: "notRefunded",
            detail: format!("order {} has no refund that succeeded", order.order_id),
        }),
    }
}

async fn return_coupon<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    refund_of::<S>(tx, &order).await?;
    Ok(vec![effects::coupon(&order, "return", coupons::give_back(shop, tx, &order).await?)])
}

async fn revert_wallet<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    let refund_id = refund_of::<S>(tx, &order).await?;
    Ok(vec![effects::wallet(&order, "revert", &refund_id, wallet::revert(shop, tx, &order, &refund_id).await?)])
}

async fn revert_points<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    let refund_id = refund_of::<S>(tx, &order).await?;
    Ok(vec![effects::points(&order, "revert", &refund_id, points::revert(shop, tx, &order, &refund_id).await?)])
}

// --- the safety nets: coupon, wallet, points, always in this order

async fn after_payment<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    if order.paid_at.is_none() {
        return Ok(vec![Told::nothing("paidTooLate")]);
    }
    Ok(vec![
        effects::coupon(&order, "commit", coupons::commit(shop, tx, &order).await?),
        effects::wallet(&order, "commit", "", wallet::commit(shop, tx, &order).await?),
        effects::points(&order, "commit", "", points::commit(shop, tx, &order).await?),
        effects::points(&order, "earn", "", points::earn(shop, tx, &order).await?),
    ])
}

async fn after_failed_payment<S: Database>(
    shop: &Shop<S>,
    tx: &mut S::Conn,
    mut order: Order,
    _: Cause,
) -> Result<Vec<Told>> {
    if order.status == "WAIT_PAY" {
        orders::cancel_in(shop, tx, &mut order, &Caller::default(), By::System).await?;
    }
    release_all(shop, tx, &order).await
}

/// Releases everything that an unpaid order holds.
pub(crate) async fn release_all<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Vec<Told>> {
    if let Some(nothing) = refund_follows(order) {
        return Ok(nothing);
    }
    Ok(vec![
        effects::coupon(order, "release", coupons::release(shop, tx, order).await?),
        effects::wallet(order, "release", "", wallet::release(shop, tx, order).await?),
        effects::points(order, "release", "", points::release(shop, tx, order).await?),
    ])
}

async fn after_refund<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: Order, _: Cause) -> Result<Vec<Told>> {
    let refund_id = refund_of::<S>(tx, &order).await?;
    Ok(vec![
        effects::coupon(&order, "return", coupons::give_back(shop, tx, &order).await?),
        effects::wallet(&order, "revert", &refund_id, wallet::revert(shop, tx, &order, &refund_id).await?),
        effects::points(&order, "revert", &refund_id, points::revert(shop, tx, &order, &refund_id).await?),
    ])
}

async fn after_failed_refund<S: Database>(
    _: &Shop<S>,
    tx: &mut S::Conn,
    order: Order,
    cause: Cause,
) -> Result<Vec<Told>> {
    let refund_id = cause.refund_id.unwrap_or_default();
    tracing::error!(order_id = %order.order_id, refund_id, "A refund failed: an operator has to return the money");
    refunds::call_for_attention::<S>(tx, &refund_id).await?;
    Ok(vec![Told::nothing("needsAttention")])
}
