//! Points: spent like the wallet's cents, and earned for paid amounts. A refund takes earned points back. If they were
//! spent in the meantime, they become a debt, which later earnings pay first.

use serde::Serialize;

use crate::database::Database;
use crate::error::{Result, ShopError};
use crate::ledger::{self, Entry, Moved, Patience, append, once};
use crate::orders::Order;
use crate::refunds;
use crate::shop::Shop;

const ASSET: &str = "POINTS";

/// The points of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Balance {
    /// What can be spent.
    pub available: i64,
    /// What orders hold.
    pub frozen: i64,
    /// Earned points that were spent and then taken back.
    pub debt: i64,
}

/// The changes of a balance.
#[derive(Debug, Clone, Copy, Default)]
struct Moves {
    available: i64,
    frozen: i64,
    debt: i64,
}

/// Opens an account. An existing one is a unique violation.
pub(crate) async fn open<S: Database>(tx: &mut S::Conn, user_id: &str, points: i64) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_points (user_id, available, frozen, debt) VALUES ($1, $2, 0, 0)";
    S::execute(tx, INSERT, &[user_id.into(), points.into()]).await?;
    let key = format!("points:{user_id}:open");
    let entry = Entry { key: &key, asset: ASSET, account: user_id, operation: "open", ..Entry::default() };
    append::<S>(tx, &Entry { available: points, ..entry }).await
}

/// Freezes the points that the order spends.
pub async fn freeze<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order, patience: Patience) -> Result<Moved> {
    if order.points == 0 {
        return Ok(Moved::nothing("notUsed"));
    }
    let key = format!("points:{}:freeze", order.order_id);
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            if let Some(lock) = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await? {
                return Ok(Moved::nothing(&lock.status));
            }
            let amount = order.points;
            let refusal = match hold::<S>(tx, &order.user_id).await? {
                Some(balance) if balance.available >= amount => {
                    ledger::put_lock::<S>(tx, &order, ASSET, (&order.user_id, amount, "FROZEN")).await?;
                    let moves = Moves { available: -amount, frozen: amount, debt: 0 };
                    return change::<S>(tx, &order, &key, "freeze", balance, moves, amount).await;
                }
                // Other orders may release their points.
                Some(balance) if balance.available + balance.frozen >= amount && patience == Patience::TryAgain => {
                    return Err(ShopError::not_yet(
                        "insufficientBalance",
                        "other orders hold the points that are there",
                    ));
                }
                Some(_) => "insufficientBalance",
                None => "unknownAccount",
            };
            ledger::put_lock::<S>(tx, &order, ASSET, (&order.user_id, 0, "RELEASED")).await?;
            Ok(Moved::refused(refusal))
        })
    })
    .await
}

/// Spends the frozen points.
pub async fn commit<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    if order.points == 0 {
        return Ok(Moved::nothing("notUsed"));
    }
    let key = format!("points:{}:commit", order.order_id);
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            let Some(lock) = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await? else {
                return Err(ShopError::not_yet("notLocked", "the order holds no points yet"));
            };
            if lock.status != "FROZEN" {
                return Ok(Moved::nothing(&lock.status));
            }
            let balance = held::<S>(tx, &order.user_id).await?;
            ledger::set_lock::<S>(tx, &order, ASSET, "COMMITTED").await?;
            let moves = Moves { frozen: -lock.amount, ..Moves::default() };
            change::<S>(tx, &order, &key, "commit", balance, moves, lock.amount).await
        })
    })
    .await
}

/// Releases the frozen points. Before the freeze, this prevents a later one.
pub async fn release<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    if order.points == 0 {
        return Ok(Moved::nothing("notUsed"));
    }
    let key = format!("points:{}:release", order.order_id);
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            let Some(lock) = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await? else {
                ledger::put_lock::<S>(tx, &order, ASSET, (&order.user_id, 0, "RELEASED")).await?;
                return Ok(Moved::nothing("notLocked"));
            };
            if lock.status != "FROZEN" {
                return Ok(Moved::nothing(&lock.status));
            }
            let balance = held::<S>(tx, &order.user_id).await?;
            ledger::set_lock::<S>(tx, &order, ASSET, "RELEASED").await?;
            let moves = Moves { available: lock.amount, frozen: -lock.amount, debt: 0 };
            change::<S>(tx, &order, &key, "release", balance, moves, lock.amount).await
        })
    })
    .await
}

/// Adds points for the paid amount. An order that was already refunded earns nothing. One that has earned earns nothing
/// more, also after its key was pruned.
pub async fn earn<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    let earned = order.amount_cents / shop.settings.points_per_cents;
    if earned == 0 {
        return Ok(Moved::nothing("tooLittle"));
    }
    once(shop, tx, &earn_key(order), order, move |tx, order, key| {
        Box::pin(async move {
            let refund = refunds::active::<S>(tx, &order.order_id).await?;
            if refund.is_some_and(|refund| refund.status == "SUCCESS") {
                return Ok(Moved::nothing("refunded"));
            }
            if self::earned::<S>(tx, &order).await? > 0 {
                return Ok(Moved::nothing("earned"));
            }
            let Some(balance) = hold::<S>(tx, &order.user_id).await? else {
                return Ok(Moved::nothing("unknownAccount"));
            };
            let paid_off = earned.min(balance.debt);
            let moves = Moves { available: earned - paid_off, frozen: 0, debt: -paid_off };
            change::<S>(tx, &order, &key, "earn", balance, moves, earned).await
        })
    })
    .await
}

/// Returns spent or frozen points and takes earned points back: one operation under one key.
pub async fn revert<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order, refund_id: &str) -> Result<Moved> {
    let key = format!("points:{refund_id}:revert");
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            let lock = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await?;
            if lock.is_none() && order.points > 0 {
                ledger::put_lock::<S>(tx, &order, ASSET, (&order.user_id, 0, "RELEASED")).await?;
            }
            let (spent, frozen) = match &lock {
                Some(lock) if lock.status == "COMMITTED" => (lock.amount, 0),
                Some(lock) if lock.status == "FROZEN" => (lock.amount, -lock.amount),
                _ => (0, 0),
            };
            let earned = earned::<S>(tx, &order).await?;
            if spent == 0 && earned == 0 {
                return Ok(Moved::nothing(lock.map_or("notLocked", |_| "RELEASED")));
            }
            if spent > 0 {
                ledger::set_lock::<S>(tx, &order, ASSET, "REVERTED").await?;
            }
            let balance = held::<S>(tx, &order.user_id).await?;
            let taken = earned.min(balance.available + spent);
            let moves = Moves { available: spent - taken, frozen, debt: earned - taken };
            change::<S>(tx, &order, &key, "revert", balance, moves, spent - earned).await
        })
    })
    .await
}

fn earn_key(order: &Order) -> String {
    format!("points:{}:earn", order.order_id)
}

/// The points that an order earned, from its entry: the rate may have changed since.
async fn earned<S: Database>(tx: &mut S::Conn, order: &Order) -> Result<i64> {
    const EARNED: &str = "SELECT available, debt FROM shop_entry WHERE idempotency_key = $1";
    let key = earn_key(order);
    match S::row(tx, EARNED, &[(&key).into()]).await? {
        Some(mut row) => Ok(row.int()? - row.int()?),
        None => Ok(0),
    }
}

async fn held<S: Database>(tx: &mut S::Conn, user_id: &str) -> Result<Balance> {
    hold::<S>(tx, user_id).await?.ok_or_else(|| ShopError::not_found("points of user", user_id))
}

/// Locks the row of a user's points and reads it.
async fn hold<S: Database>(tx: &mut S::Conn, user_id: &str) -> Result<Option<Balance>> {
    const HOLD: &str = "UPDATE shop_points SET frozen = frozen WHERE user_id = $1";
    S::execute(tx, HOLD, &[user_id.into()]).await?;
    find::<S>(tx, user_id).await
}

/// Reads a user's points.
pub(crate) async fn find<S: Database>(tx: &mut S::Conn, user_id: &str) -> Result<Option<Balance>> {
    const FIND: &str = "SELECT available, frozen, debt FROM shop_points WHERE user_id = $1";
    let Some(mut row) = S::row(tx, FIND, &[user_id.into()]).await? else { return Ok(None) };
    Ok(Some(Balance { available: row.int()?, frozen: row.int()?, debt: row.int()? }))
}

/// Writes a balance whose row is locked, and its ledger entry.
async fn change<S: Database>(
    tx: &mut S::Conn,
    order: &Order,
    key: &str,
    operation: &str,
    balance: Balance,
    Moves { available, frozen, debt }: Moves,
    amount: i64,
) -> Result<Moved> {
    const UPDATE: &str = "UPDATE shop_points SET available = $1, frozen = $2, debt = $3 WHERE user_id = $4";
    let (account, order_id) = (&order.user_id, Some(order.order_id.as_str()));
    let values = [
        (balance.available + available).into(),
        (balance.frozen + frozen).into(),
        (balance.debt + debt).into(),
        account.into(),
    ];
    S::execute(tx, UPDATE, &values).await?;
    append::<S>(tx, &Entry { key, asset: ASSET, account, order_id, operation, available, frozen, debt }).await?;
    Ok(Moved::Done { amount })
}
