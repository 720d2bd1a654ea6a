//! The auditor: adds up the ledger and compares it with every balance, lock, coupon and order. It shares no code with
//! the rest of the shop and implements the rules a second time.
//!
//! An order with undelivered events is not checked; it is counted as in flight. A dead event is a discrepancy.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::database::Database;
use crate::error::Result;
use crate::shop::Shop;

/// The result of an audit.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// True if there is no discrepancy.
    pub ok: bool,
    /// What was checked.
    pub checked: Checked,
    /// Orders that were not checked, because they have undelivered events.
    pub in_flight: usize,
    /// The discrepancies.
    pub discrepancies: Vec<Discrepancy>,
}

/// How much was checked.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Checked {
    /// Orders.
    pub orders: usize,
    /// Users with a wallet and points.
    pub accounts: usize,
    /// Coupons.
    pub coupons: usize,
}

/// A discrepancy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Discrepancy {
    /// The kind of object.
    pub what: &'static str,
    /// Its id.
    pub id: String,
    /// What is wrong.
    pub detail: String,
}

/// Sums of entries: available, frozen, debt.
type Sums = (i64, i64, i64);

struct Order {
    user_id: String,
    amount_cents: i64,
    coupon_id: Option<String>,
    wallet_cents: i64,
    points: i64,
    status: String,
    paid: bool,
}

struct Lock {
    amount: i64,
    status: String,
}

/// All rows of the shop, read in one snapshot.
#[derive(Default)]
struct Books {
    orders: BTreeMap<String, Order>,
    steps: BTreeMap<String, Vec<(String, String)>>,
    payments: BTreeMap<String, Vec<String>>,
    refunds: BTreeMap<String, Vec<(String, String)>>,
    wallets: BTreeMap<String, Sums>,
    points: BTreeMap<String, Sums>,
    /// Status and holder.
    coupons: BTreeMap<String, (String, Option<String>)>,
    /// By order and asset.
    locks: BTreeMap<(String, String), Lock>,
    /// The amounts that orders hold, by asset and account.
    held: BTreeMap<(String, String), i64>,
    by_account: BTreeMap<(String, String), Sums>,
    /// By order, asset, and whether the entry is an earning.
    by_order: BTreeMap<(String, String, bool), Sums>,
    in_flight: BTreeSet<String>,
    dead: Vec<String>,
}

/// Audits everything.
pub async fn audit<S: Database>(shop: &Shop<S>) -> Result<Audit> {
    let mut tx = shop.store.begin().await?;
    let books = Books::read::<S>(&mut tx).await?;
    drop(tx);
    let mut found = Vec::new();
    books.check_accounts(&mut found);
    books.check_coupons(&mut found);
    for (id, order) in &books.orders {
        books.check_steps(id, order, &mut found);
        books.check_money(id, order, &mut found);
        if !books.in_flight.contains(id) {
            books.check_assets(id, order, shop.settings.points_per_cents, &mut found);
        }
    }
    let dead = books.dead.iter().map(|id| discrepancy("event", id, "is dead: fix the cause and redrive it"));
    found.extend(dead);
    Ok(Audit {
        ok: found.is_empty(),
        checked: Checked { orders: books.orders.len(), accounts: books.wallets.len(), coupons: books.coupons.len() },
        in_flight: books.in_flight.len(),
        discrepancies: found,
    })
}

fn discrepancy(what: &'static str, id: &str, detail: impl Into<String>) -> Discrepancy {
    Discrepancy { what, id: id.to_owned(), detail: detail.into() }
}

fn add(sums: &mut Sums, (available, frozen, debt): Sums) {
    *sums = (sums.0 + available, sums.1 + frozen, sums.2 + debt);
}

impl Books {
    async fn read<S: Database>(tx: &mut S::Conn) -> Result<Self> {
        let mut books = Self::default();
        S::snapshot(tx).await?;
        let sql =
            "SELECT order_id, user_id, amount_cents, coupon_id, wallet_cents, points, status, paid_at FROM shop_order";
        for mut row in S::rows(tx, sql, &[]).await? {
            let id = row.text()?;
            let order = Order {
                user_id: row.text()?,
                amount_cents: row.int()?,
                coupon_id: row.maybe_text()?,
                wallet_cents: row.int()?,
                points: row.int()?,
                status: row.text()?,
                paid: row.maybe_int()?.is_some(),
            };
            books.orders.insert(id, order);
        }
        let sql = "SELECT order_id, from_status, to_status FROM shop_order_step ORDER BY order_id, step";
        for mut row in S::rows(tx, sql, &[]).await? {
            books.steps.entry(row.text()?).or_default().push((row.text()?, row.text()?));
        }
        for mut row in S::rows(tx, "SELECT order_id, status FROM shop_payment", &[]).await? {
            books.payments.entry(row.text()?).or_default().push(row.text()?);
        }
        for mut row in S::rows(tx, "SELECT order_id, status, reason FROM shop_refund", &[]).await? {
            books.refunds.entry(row.text()?).or_default().push((row.text()?, row.text()?));
        }
        books.read_assets::<S>(tx).await?;
        // Lanes that do not move assets do not matter here.
        let sql = "SELECT DISTINCT event_key FROM postrider_delivery WHERE event_key IS NOT NULL
            AND lane IN ('coupon', 'wallet', 'points', 'payment', 'refund')";
        for mut row in S::rows(tx, sql, &[]).await? {
            books.in_flight.insert(row.text()?);
        }
        // Restricted to events with deliveries, because listing the view by status is slow. A dead delivery of a
        // consumer outside the shop is not the shop's discrepancy.
        let sql = "SELECT event_id FROM postrider_outbox WHERE status = 'DEAD' AND event_id IN
            (SELECT e.event_id FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq
            JOIN postrider_consumption c ON c.event_seq = d.event_seq AND c.consumer = d.lane
            WHERE NOT c.success AND NOT c.will_retry AND d.lane IN ('coupon', 'wallet', 'points', 'payment', 'refund',
            'inventory', 'member-service', 'message-service', 'activity'))";
        for mut row in S::rows(tx, sql, &[]).await? {
            books.dead.push(row.text()?);
        }
        Ok(books)
    }

    async fn read_assets<S: Database>(&mut self, tx: &mut S::Conn) -> Result<()> {
        for mut row in S::rows(tx, "SELECT user_id, available, frozen FROM shop_wallet", &[]).await? {
            self.wallets.insert(row.text()?, (row.int()?, row.int()?, 0));
        }
        for mut row in S::rows(tx, "SELECT user_id, available, frozen, debt FROM shop_points", &[]).await? {
            self.points.insert(row.text()?, (row.int()?, row.int()?, row.int()?));
        }
        for mut row in S::rows(tx, "SELECT coupon_id, status, order_id FROM shop_coupon", &[]).await? {
            self.coupons.insert(row.text()?, (row.text()?, row.maybe_text()?));
        }
        for mut row in S::rows(tx, "SELECT order_id, asset, account, amount, status FROM shop_lock", &[]).await? {
            let (order_id, asset, account, amount, status) =
                (row.text()?, row.text()?, row.text()?, row.int()?, row.text()?);
            if status == "LOCKED" || status == "FROZEN" {
                *self.held.entry((asset.clone(), account)).or_default() += amount;
            }
            self.locks.insert((order_id, asset), Lock { amount, status });
        }
        let sql = "SELECT asset, account, order_id, operation, available, frozen, debt FROM shop_entry";
        for mut row in S::rows(tx, sql, &[]).await? {
            let (asset, account, order_id, operation) = (row.text()?, row.text()?, row.maybe_text()?, row.text()?);
            let moved = (row.int()?, row.int()?, row.int()?);
            add(self.by_account.entry((asset.clone(), account)).or_default(), moved);
            if let Some(order_id) = order_id {
                add(self.by_order.entry((order_id, asset, operation == "earn")).or_default(), moved);
            }
        }
        Ok(())
    }

    /// A balance is the sum of its entries, and its frozen part is what orders hold.
    fn check_accounts(&self, found: &mut Vec<Discrepancy>) {
        for (what, asset, balances) in [("wallet", "WALLET", &self.wallets), ("points", "POINTS", &self.points)] {
            for (id, balance) in balances {
                let account = (asset.to_owned(), id.clone());
                let sums = self.by_account.get(&account).copied().unwrap_or_default();
                if *balance != sums {
                    let detail = format!("has (available, frozen, debt) {balance:?}, its entries add up to {sums:?}");
                    found.push(discrepancy(what, id, detail));
                }
                let held = self.held.get(&account).copied().unwrap_or_default();
                if balance.1 != held {
                    found.push(discrepancy(what, id, format!("has {} frozen, orders hold {held}", balance.1)));
                }
                if balance.0 < 0 || balance.1 < 0 || balance.2 < 0 {
                    found.push(discrepancy(what, id, "is negative"));
                }
            }
        }
    }

    fn check_coupons(&self, found: &mut Vec<Discrepancy>) {
        for (id, (status, holder)) in &self.coupons {
            let sums = self.by_account.get(&("COUPON".to_owned(), id.clone())).copied().unwrap_or_default();
            let by_ledger = match sums {
                (1, 0, 0) => "AVAILABLE",
                (0, 1, 0) => "LOCKED",
                (0, 0, 0) => "USED",
                _ => "IMPOSSIBLE",
            };
            if status != by_ledger {
                found.push(discrepancy("coupon", id, format!("is {status}, by its entries it is {by_ledger}")));
            }
            let lock = holder.as_ref().and_then(|order| self.locks.get(&(order.clone(), "COUPON".to_owned())));
            let fits = match (status.as_str(), lock.map(|lock| lock.status.as_str())) {
                ("AVAILABLE", None) => holder.is_none(),
                ("LOCKED", Some("LOCKED")) | ("USED", Some("COMMITTED")) => true,
                _ => false,
            };
            if !fits {
                found.push(discrepancy("coupon", id, format!("is {status}, its holder {holder:?} does not match")));
            }
        }
    }

    /// Every step is legal, and the last one leads to the current status.
    fn check_steps(&self, id: &str, order: &Order, found: &mut Vec<Discrepancy>) {
        let mut at = "DRAFT";
        for (from, to) in self.steps.get(id).map(Vec::as_slice).unwrap_or_default() {
            let legal = matches!(
                (from.as_str(), to.as_str()),
                ("DRAFT", "WAIT_PAY" | "CANCELED")
                    | ("WAIT_PAY", "PAID" | "CANCELED")
                    | ("PAID", "WAIT_ACCEPT" | "REFUNDED")
                    | ("WAIT_ACCEPT", "ACCEPTED" | "CANCELED" | "REFUNDED")
                    | ("ACCEPTED", "REFUNDED")
            );
            if !legal || from != at {
                found.push(discrepancy("order", id, format!("went from {from} to {to} when it was {at}")));
            }
            at = to;
        }
        if at != order.status {
            found.push(discrepancy("order", id, format!("is {}, its steps end at {at}", order.status)));
        }
    }

    /// The order, its payment and its refunds are consistent.
    fn check_money(&self, id: &str, order: &Order, found: &mut Vec<Discrepancy>) {
        let payments = self.payments.get(id).map(Vec::as_slice).unwrap_or_default();
        let paid = payments.iter().filter(|status| *status == "SUCCESS").count();
        let refunds = self.refunds.get(id).map(Vec::as_slice).unwrap_or_default();
        let count = |wanted: &str| refunds.iter().filter(|(status, _)| status == wanted).count();
        let (processing, refunded, failed) = (count("PROCESSING"), count("SUCCESS"), count("FAILED"));
        let mut report = |detail: String| found.push(discrepancy("order", id, detail));
        let status = order.status.as_str();
        let was_paid = matches!(status, "PAID" | "WAIT_ACCEPT" | "ACCEPTED" | "REFUNDED");
        if was_paid && (paid != 1 || !order.paid) {
            report(format!("is {status} with {paid} payments"));
        }
        if matches!(status, "DRAFT" | "WAIT_PAY") && (paid > 0 || order.paid || !refunds.is_empty()) {
            report(format!("is {status} with {paid} payments and {} refunds", refunds.len()));
        }
        if status == "WAIT_PAY" && payments.iter().any(|status| status == "FAILED") {
            report("is WAIT_PAY with a failed payment".into());
        }
        if processing + refunded > 1 {
            report(format!("has {processing} refunds in progress and {refunded} that succeeded"));
        }
        if refunded > 0 && !matches!(status, "REFUNDED" | "CANCELED") || status == "REFUNDED" && refunded != 1 {
            report(format!("is {status} with {refunded} refunds that succeeded"));
        }
        if status == "CANCELED" && paid > 0 && processing + refunded + failed == 0 {
            report("is canceled and paid, without a refund".into());
        }
        if paid == 0 && !refunds.is_empty() {
            report("has a refund without a payment".into());
        }
    }

    /// The movements of an order match its status.
    fn check_assets(&self, id: &str, order: &Order, per_cents: i64, found: &mut Vec<Discrepancy>) {
        let refunds = self.refunds.get(id).map(Vec::as_slice).unwrap_or_default();
        let given_back = refunds.iter().any(|(status, _)| status == "SUCCESS");
        let coupon = i64::from(order.coupon_id.is_some());
        for (asset, wanted) in [("COUPON", coupon), ("WALLET", order.wallet_cents), ("POINTS", order.points)] {
            let lock = self.locks.get(&(id.to_owned(), asset.to_owned()));
            // The asset was refused: the order was ended for that, or had ended before.
            let refused = lock.is_some_and(|lock| lock.amount == 0 && lock.status == "RELEASED");
            let (expected, lock_status) = match order.status.as_str() {
                _ if wanted == 0 => ((0, 0, 0), &[][..]),
                "WAIT_PAY" => ((-wanted, wanted, 0), &["LOCKED", "FROZEN"][..]),
                _ if given_back => ((0, 0, 0), &["REVERTED", "RELEASED"][..]),
                _ if order.paid && refused && !refunds.is_empty() => ((0, 0, 0), &["RELEASED"][..]),
                _ if order.paid => ((-wanted, 0, 0), &["COMMITTED"][..]),
                "DRAFT" => ((0, 0, 0), &[][..]),
                _ => ((0, 0, 0), &["RELEASED"][..]),
            };
            let sums = |earned| self.by_order.get(&(id.to_owned(), asset.to_owned(), earned)).copied();
            let (mut moved, earned) = (sums(false).unwrap_or_default(), sums(true));
            if asset == "POINTS" {
                self.check_earned(id, order, per_cents, given_back, earned, &mut moved, found);
            }
            if moved != expected {
                let detail = format!("is {}: has moved {moved:?} of {asset}, should have {expected:?}", order.status);
                found.push(discrepancy("order", id, detail));
            }
            let status = lock.map(|lock| lock.status.as_str());
            if status.is_none() == lock_status.is_empty() && status.is_none_or(|status| lock_status.contains(&status)) {
                continue;
            }
            let detail = format!("is {}: its lock of {asset} is {status:?}, should be {lock_status:?}", order.status);
            found.push(discrepancy("order", id, detail));
        }
    }

    /// The earned points match the paid amount. After a refund they are taken from the balance or added to the debt.
    #[allow(clippy::too_many_arguments)]
    fn check_earned(
        &self,
        id: &str,
        order: &Order,
        per_cents: i64,
        given_back: bool,
        earned: Option<Sums>,
        moved: &mut Sums,
        found: &mut Vec<Discrepancy>,
    ) {
        let expected =
            if order.paid && self.points.contains_key(&order.user_id) { order.amount_cents / per_cents } else { 0 };
        let earned = earned.map_or(0, |(available, _, debt)| available - debt);
        if given_back {
            // Net of debt, the revert returned what was spent and took what was earned.
            *moved = (moved.0 - moved.2 + earned, moved.1, 0);
        }
        if earned != expected && !(given_back && earned == 0) {
            found.push(discrepancy("order", id, format!("has earned {earned} points, should have {expected}")));
        }
    }
}
