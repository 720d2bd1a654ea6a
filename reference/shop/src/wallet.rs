//! Wallets: available cents, and cents that orders hold. Every operation
//! runs once per key and needs the order's row lock.

use serde::Serialize;

use crate::database::Database;
use crate::error::{Result, ShopError};
use crate::ledger::{self, Entry, Moved, Patience, append, once};
use crate::orders::Order;
use crate::shop::Shop;

const ASSET: &str = "WALLET";

/// The balance of a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Balance {
    /// What can be spent.
    #[serde(rename = "availableCents")]
    pub available: i64,
    /// What orders hold.
    #[serde(rename = "frozenCents")]
    pub frozen: i64,
}

/// Opens a wallet. An existing one is a unique violation.
pub(crate) async fn open<S: Database>(tx: &mut S::Conn, user_id: &str, cents: i64) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_wallet (user_id, available, frozen) VALUES ($1, $2, 0)";
    S::execute(tx, INSERT, &[user_id.into(), cents.into()]).await?;
    let key = format!("wallet:{user_id}:open");
    let entry = Entry { key: &key, asset: ASSET, account: user_id, operation: "open", ..Entry::default() };
    append::<S>(tx, &Entry { available: cents, ..entry }).await
}

/// Freezes the cents that the order takes from the wallet.
pub async fn freeze<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order, patience: Patience) -> Result<Moved> {
    if order.wallet_cents == 0 {
        return Ok(Moved::nothing("notUsed"));
    }
    let key = format!("wallet:{}:freeze", order.order_id);
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            if let Some(lock) = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await? {
                return Ok(Moved::nothing(&lock.status));
            }
            let amount = order.wallet_cents;
            let refusal = match hold::<S>(tx, &order.user_id).await? {
                Some(balance) if balance.available >= amount => {
                    ledger::put_lock::<S>(tx, &order, ASSET, (&order.user_id, amount, "FROZEN")).await?;
                    return change::<S>(tx, &order, &key, "freeze", balance, (-amount, amount)).await;
                }
                // Other orders may release their cents.
                Some(balance) if balance.available + balance.frozen >= amount && patience == Patience::TryAgain => {
                    return Err(ShopError::not_yet("insufficientBalance", "other orders hold what the wallet has"));
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

/// Spends the frozen cents.
pub async fn commit<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    end(shop, tx, order, format!("wallet:{}:commit", order.order_id), "commit").await
}

/// Releases the frozen cents. Before the freeze, this prevents a later one.
pub async fn release<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    end(shop, tx, order, format!("wallet:{}:release", order.order_id), "release").await
}

/// Returns spent or frozen cents.
pub async fn revert<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order, refund_id: &str) -> Result<Moved> {
    end(shop, tx, order, format!("wallet:{refund_id}:revert"), "revert").await
}

/// Ends a freeze.
async fn end<S: Database>(
    shop: &Shop<S>,
    tx: &mut S::Conn,
    order: &Order,
    key: String,
    operation: &'static str,
) -> Result<Moved> {
    if order.wallet_cents == 0 {
        return Ok(Moved::nothing("notUsed"));
    }
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            let lock = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await?;
            let Some(lock) = lock else {
                if operation == "commit" {
                    return Err(ShopError::not_yet("notLocked", "the order holds nothing of the wallet yet"));
                }
                ledger::put_lock::<S>(tx, &order, ASSET, (&order.user_id, 0, "RELEASED")).await?;
                return Ok(Moved::nothing("notLocked"));
            };
            let amount = lock.amount;
            let (status, moves) = match (operation, lock.status.as_str()) {
                ("commit", "FROZEN") => ("COMMITTED", (0, -amount)),
                ("release", "FROZEN") => ("RELEASED", (amount, -amount)),
                ("revert", "FROZEN") => ("REVERTED", (amount, -amount)),
                ("revert", "COMMITTED") => ("REVERTED", (amount, 0)),
                (_, other) => return Ok(Moved::nothing(other)),
            };
            let balance = hold::<S>(tx, &order.user_id).await?;
            let balance = balance.ok_or_else(|| ShopError::not_found("wallet", &order.user_id))?;
            ledger::set_lock::<S>(tx, &order, ASSET, status).await?;
            change::<S>(tx, &order, &key, operation, balance, moves).await
        })
    })
    .await
}

/// Locks the wallet's row and reads it.
async fn hold<S: Database>(tx: &mut S::Conn, user_id: &str) -> Result<Option<Balance>> {
    const HOLD: &str = "UPDATE shop_wallet SET frozen = frozen WHERE user_id = $1";
    S::execute(tx, HOLD, &[user_id.into()]).await?;
    find::<S>(tx, user_id).await
}

/// Reads a wallet.
pub(crate) async fn find<S: Database>(tx: &mut S::Conn, user_id: &str) -> Result<Option<Balance>> {
    const FIND: &str = "SELECT available, frozen FROM shop_wallet WHERE user_id = $1";
    let row = S::row(tx, FIND, &[user_id.into()]).await?;
    Ok(row.map(|mut row| Ok::<_, sqlx::Error>(Balance { available: row.int()?, frozen: row.int()? })).transpose()?)
}

/// Writes a balance whose row is locked, and its ledger entry.
async fn change<S: Database>(
    tx: &mut S::Conn,
    order: &Order,
    key: &str,
    operation: &str,
    balance: Balance,
    (available, frozen): (i64, i64),
) -> Result<Moved> {
    const UPDATE: &str = "UPDATE shop_wallet SET available = $1, frozen = $2 WHERE user_id = $3";
    let (account, order_id) = (&order.user_id, Some(order.order_id.as_str()));
    let values = [(balance.available + available).into(), (balance.frozen + frozen).into(), account.into()];
    S::execute(tx, UPDATE, &values).await?;
    append::<S>(tx, &Entry { key, asset: ASSET, account, order_id, operation, available, frozen, debt: 0 }).await?;
    Ok(Moved::Done { amount: available.abs().max(frozen.abs()) })
}
