//! Common to all assets: an operation runs once per key, a lock records what an order holds, and every movement appends
//! an entry. `coupons`, `wallet` and `points` write the balances; the auditor adds up the entries.

use postrider::idempotency::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::database::Database;
use crate::error::Result;
use crate::orders::Order;
use crate::shop::Shop;

/// The result of an operation on an asset. A repeat with the same key returns the first result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "camelCase")]
pub enum Moved {
    /// The amount was moved.
    Done {
        /// Cents, points, or one coupon.
        amount: i64,
    },
    /// Nothing was moved.
    Nothing {
        /// The reason.
        why: String,
    },
    /// The asset can never be locked.
    Refused {
        /// A code for programs.
        code: String,
    },
}

impl Moved {
    pub(crate) fn nothing(why: &str) -> Self {
        Self::Nothing { why: why.to_owned() }
    }

    pub(crate) fn refused(code: &str) -> Self {
        Self::Refused { code: code.to_owned() }
    }
}

/// Whether to retry when an asset may be available later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Retry later.
    TryAgain,
    /// Refuse: the asset was tried often enough.
    GiveUp,
}

/// Runs an operation once. The caller must hold the order's row lock. A repeated key returns the first result.
pub(crate) async fn once<S, F>(shop: &Shop<S>, tx: &mut S::Conn, key: &str, order: &Order, work: F) -> Result<Moved>
where
    S: Database,
    F: for<'c> FnOnce(&'c mut S::Conn, Order, String) -> BoxFuture<'c, Result<Moved>> + Send,
{
    let (owned, owned_key) = (order.clone(), key.to_owned());
    let request = serde_json::json!({ "orderId": order.order_id, "userId": order.user_id });
    let outcome = shop.keys.run_in(tx, key, &request, |tx| work(tx, owned, owned_key)).await?;
    let replayed = outcome.is_replayed();
    let moved = outcome.into_inner();
    tracing::info!(idempotency_key = key, result = ?moved, replayed, order_id = %order.order_id, "Asset operation");
    Ok(moved)
}

/// What an order holds of one asset.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lock {
    pub(crate) asset: String,
    pub(crate) status: String,
    #[serde(skip)]
    pub(crate) amount: i64,
    #[serde(skip)]
    pub(crate) created_at: i64,
}

pub(crate) async fn locks<S: Database>(tx: &mut S::Conn, order_id: &str) -> Result<Vec<Lock>> {
    const LOCKS: &str = "SELECT asset, status, amount, created_at FROM shop_lock WHERE order_id = $1 ORDER BY asset";
    let lock = |mut row: crate::database::Row| {
        Ok(Lock { asset: row.text()?, status: row.text()?, amount: row.int()?, created_at: row.int()? })
    };
    Ok(S::rows(tx, LOCKS, &[order_id.into()]).await?.into_iter().map(lock).collect::<sqlx::Result<_>>()?)
}

pub(crate) async fn find_lock<S: Database>(tx: &mut S::Conn, order_id: &str, asset: &str) -> Result<Option<Lock>> {
    Ok(locks::<S>(tx, order_id).await?.into_iter().find(|lock| lock.asset == asset))
}

/// Inserts the lock of an order. A RELEASED lock with the amount 0 prevents a late lock.
pub(crate) async fn put_lock<S: Database>(
    tx: &mut S::Conn,
    order: &Order,
    asset: &str,
    (account, amount, status): (&str, i64, &str),
) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_lock (order_id, asset, account, amount, status, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let now = S::clock(tx).await?;
    let id = &order.order_id;
    let values = [id.into(), asset.into(), account.into(), amount.into(), status.into(), now.into(), now.into()];
    S::execute(tx, INSERT, &values).await?;
    Ok(())
}

pub(crate) async fn set_lock<S: Database>(tx: &mut S::Conn, order: &Order, asset: &str, status: &str) -> Result<()> {
    const UPDATE: &str = "UPDATE shop_lock SET status = $1, updated_at = $2 WHERE order_id = $3 AND asset = $4";
    let now = S::clock(tx).await?;
    S::execute(tx, UPDATE, &[status.into(), now.into(), (&order.order_id).into(), asset.into()]).await?;
    Ok(())
}

/// A movement.
#[derive(Debug, Default)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    pub(crate) asset: &'a str,
    /// A user id or a coupon id.
    pub(crate) account: &'a str,
    pub(crate) order_id: Option<&'a str>,
    pub(crate) operation: &'a str,
    pub(crate) available: i64,
    pub(crate) frozen: i64,
    pub(crate) debt: i64,
}

pub(crate) async fn append<S: Database>(tx: &mut S::Conn, entry: &Entry<'_>) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_entry
        (idempotency_key, asset, account, order_id, operation, available, frozen, debt, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let now = S::clock(tx).await?;
    let values = [
        entry.key.into(),
        entry.asset.into(),
        entry.account.into(),
        entry.order_id.into(),
        entry.operation.into(),
        entry.available.into(),
        entry.frozen.into(),
        entry.debt.into(),
        now.into(),
    ];
    S::execute(tx, INSERT, &values).await?;
    Ok(())
}
