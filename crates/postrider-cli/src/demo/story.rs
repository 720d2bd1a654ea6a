//! The story of the first seconds in a new folder: each thing that can happen to an event happens once, so that there is
//! something to look at. It uses the same API and jobs as all traffic; only the customers and the moment are fixed.
//!
//! - Ada's purchase is one trace: the shop's consumers succeed, the newsletter gives up (PARTIAL), and so does the carrier
//!   with her parcel (FAILED, a dead letter). Her second parcel takes a few attempts (RETRYING, then CONSUMED).
//! - Grace checks out and does not pay. The reaper releases the locks of her order.
//! - Joan pays, and the event of her payment is deleted by SQL. The consistency check writes it again.

use std::path::PathBuf;
use std::time::Duration;

use postrider::jobs::RunNow;
use postrider::store::JobOutcome;
use postrider::store::sqlite::SqliteStore;
use postrider::{Enlist as _, Store};
use postrider_shop::jobs::{REAPER, jobs};
use postrider_shop::{Database as _, Settings, Shop, ShopError};
use serde_json::{Value, json};

use super::caller::Caller;
use super::people::{Customer, Order};
use super::services::{ISLAND, NOWHERE};

/// The topic of the warehouse's requests to the carrier.
pub(super) const PARCEL_TOPIC: &str = "parcel.requested";
/// The id of the event to look at first, short enough to type.
pub(super) const PARCEL: &str = "adas-parcel";
/// The customer with the full mailbox.
pub(super) const BUYER: &str = "ada";
/// The lanes of a payment's events. They are paused until Joan's event is deleted.
const PAYMENT_LANES: [&str; 4] = ["coupon", "wallet", "points", "payment"];
/// Grace's lock timeout, shortened for the demo.
const GRACE: Duration = Duration::from_secs(2);
/// The poll interval, and the most polls before the story fails.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS: usize = 300;

/// The story and its state.
pub(super) struct Story {
    pub(super) store: SqliteStore,
    pub(super) settings: Settings,
    /// The file that marks it as played.
    pub(super) played: PathBuf,
}

/// Pauses the lanes of a payment before the relay starts: its event can be deleted only while it waits.
pub(super) async fn prepare(store: &dyn Store) -> postrider::Result<()> {
    for lane in PAYMENT_LANES {
        store.set_paused(lane, true).await?;
    }
    Ok(())
}

impl Story {
    /// Plays it. If the process is killed meanwhile, the next start plays it again with other orders.
    pub(super) async fn play(self, caller: &Caller) -> Result<(), String> {
        tokio::try_join!(adas(caller), self.graces(caller), self.joans(caller))?;
        std::fs::write(&self.played, "").map_err(|e| format!("{}: {e}", self.played.display()))
    }

    async fn graces(&self, caller: &Caller) -> Result<(), String> {
        let grace = Customer { caller, user_id: "grace".into() };
        grace.arrive(10_000, 500).await?;
        let order = check_out(&grace).await?;
        holds_its_assets(&grace, &order).await?;
        let settings = Settings { order_timeout: GRACE / 2, lock_timeout: GRACE, ..self.settings.clone() };
        let impatient = Shop::open(self.store.clone(), settings).await.map_err(|e| e.to_string())?;
        let jobs = jobs(&impatient).map_err(|e| e.to_string())?;
        for _ in 0..LOOKS {
            tokio::time::sleep(LOOK).await;
            match jobs.run_now(REAPER).await.map_err(|e| e.to_string())? {
                RunNow::Ended(JobOutcome::Failed(why)) => return Err(why),
                _ if grace.show(&order).await?["status"] == "CANCELED" => return Ok(()),
                _ => {}
            }
        }
        Err("the reaper releases nothing".into())
    }

    async fn joans(&self, caller: &Caller) -> Result<(), String> {
        let joan = Customer { caller, user_id: "joan".into() };
        joan.arrive(10_000, 500).await?;
        let order = check_out(&joan).await?;
        joan.pay(&order, true, 1).await?;
        let lost = self.lose_the_payment(&order).await.map_err(|e| e.to_string());
        // Also after a failure: other orders need these lanes.
        for lane in PAYMENT_LANES {
            caller.post(&format!("/api/v1/consumers/{lane}/resume"), Value::Null).await?;
        }
        lost?;
        holds_its_assets(&joan, &order).await?;
        for _ in 0..LOOKS {
            // Refused while the job runs by its schedule: then the next poll finds its result.
            let _ = caller.post("/shop/jobs/consistency/run", Value::Null).await;
            if caller.get(&format!("/api/v1/events/order:{}:paid", order.id)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        Err("the consistency check restores nothing".into())
    }

    /// Deletes the event of a paid order, and that of its payment, which would have the same effect.
    async fn lose_the_payment(&self, order: &Order) -> Result<(), ShopError> {
        const DELIVERIES: &str = "DELETE FROM postrider_delivery WHERE event_seq IN (SELECT seq FROM postrider_event
            WHERE event_key = $1 AND topic IN ('order.paid', 'payment.success'))";
        const EVENTS: &str =
            "DELETE FROM postrider_event WHERE event_key = $1 AND topic IN ('order.paid', 'payment.success')";
        let mut tx = self.store.begin().await?;
        for sql in [DELIVERIES, EVENTS] {
            SqliteStore::execute(&mut tx, sql, &[(&order.id).into()]).await?;
        }
        Ok(self.store.commit(tx).await?)
    }
}

async fn adas(caller: &Caller) -> Result<(), String> {
    let ada = Customer { caller, user_id: BUYER.into() };
    ada.arrive(10_000, 500).await?;
    let order = check_out(&ada).await?;
    ada.pay(&order, true, 3).await?;
    ada.send(&order, &format!("parcel:{}", order.id), ISLAND).await?;
    match ada.send(&order, PARCEL, NOWHERE).await {
        // An earlier start was killed after it had published this.
        Err(why) if why.contains("idConflict") => Ok(()),
        sent => sent,
    }
}

/// An order that uses a coupon, the wallet and points.
async fn check_out(customer: &Customer<'_>) -> Result<Order, String> {
    let coupon = customer.coupon().await?;
    let items = json!([{ "productId": "lamp", "skuId": "red", "quantity": 1 }]);
    let wanted = json!({ "amountCents": 9_900, "couponId": coupon, "walletCents": 500, "points": 50, "items": items });
    customer.order(wanted).await
}

async fn holds_its_assets(customer: &Customer<'_>, order: &Order) -> Result<(), String> {
    for _ in 0..LOOKS {
        if customer.show(order).await?["locks"].as_array().is_some_and(|locks| locks.len() == 3) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(format!("order {} does not get its locks", order.id))
}
