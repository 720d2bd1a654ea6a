//! The auditor of the stock. It shares no statement and no decision with the operations, so that it finds their bugs.
//!
//! For every SKU: stock, reserved and deducted (by the log) add up to everything that was put in. Log and stock are in
//! different databases and are read at different times. The log is therefore read before and after the stock, and SKUs
//! of keys that are in progress are counted as in flight and not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use serde::Serialize;

use crate::database::Read;
use crate::error::Error;

/// The result of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// True if no discrepancy was found.
    pub ok: bool,
    /// How much was checked.
    pub checked: Checked,
    /// Keys in progress or waiting for recovery. Their SKUs were not checked.
    pub in_flight: usize,
    /// The discrepancies.
    pub discrepancies: Vec<Discrepancy>,
}

/// How much was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// SKUs that were checked.
    pub products: usize,
    /// Keys in the log.
    pub deductions: usize,
}

/// A SKU whose numbers do not add up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Discrepancy {
    /// The product.
    pub product_id: String,
    /// Its variant.
    pub sku_id: String,
    /// Everything that was put in.
    pub put_in: i64,
    /// Stock that can be sold.
    pub stock: i64,
    /// Stock that is reserved.
    pub reserved: i64,
    /// Deducted stock, by the log.
    pub deducted: i64,
    /// Surplus of pieces; negative if pieces are missing.
    pub difference: i64,
}

/// Key, status, whether it has a lease, and the three lists.
type LogRow = (String, String, bool, Option<String>, Option<String>, Option<String>);
/// Product, SKU, stock, reserved, put in.
type StockRow = (String, String, i64, i64, i64);
/// A product's variant.
type Sku = (String, String);

/// The auditor's two queries.
pub trait Books: Read {
    /// Every key of the log.
    fn log(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<Vec<LogRow>>> + Send;

    /// Every SKU, in one statement, so that its numbers are consistent.
    fn stock(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<Vec<StockRow>>> + Send;
}

const LOG: &str = "SELECT idempotency_key, status, lease_until IS NOT NULL, product_ids, sku_ids, quantities
    FROM inventory_deduction_idempotency";
// The union also finds a product that was put in and whose stock row is missing.
macro_rules! stock {
    ($integer:literal) => {
        concat!(
            "SELECT product_id, sku_id, CAST(sum(stock) AS ",
            $integer,
            "), CAST(sum(reserved) AS ",
            $integer,
            "), CAST(sum(put_in) AS ",
            $integer,
            ") FROM (SELECT product_id, sku_id, stock, reserved, 0 AS put_in FROM inventory_stock
                UNION ALL SELECT product_id, sku_id, 0, 0, quantity FROM inventory_intake) books
            GROUP BY product_id, sku_id"
        )
    };
}

macro_rules! books {
    ($store:ty, $integer:literal) => {
        impl Books for $store {
            async fn log(conn: &mut Self::Conn) -> sqlx::Result<Vec<LogRow>> {
                sqlx::query_as(LOG).fetch_all(conn).await
            }

            async fn stock(conn: &mut Self::Conn) -> sqlx::Result<Vec<StockRow>> {
                sqlx::query_as(stock!($integer)).fetch_all(conn).await
            }
        }
    };
}

books!(SqliteStore, "bigint");
books!(PostgresStore, "bigint");
books!(MySqlStore, "signed");

/// Checks all shards of an inventory.
pub async fn audit<S: Books>(shards: &[S]) -> Result<Report, Error> {
    let before = read_log(shards).await?;
    let mut stock = Vec::new();
    for shard in shards {
        stock.extend(S::stock(&mut *shard.read().await?).await?);
    }
    let after = read_log(shards).await?;
    Ok(check(&before, &stock, &after))
}

/// A key of the log, as the auditor reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Logged {
    is_deducted: bool,
    in_flight: bool,
    items: Vec<(Sku, i64)>,
}

type Log = BTreeMap<String, Logged>;

async fn read_log<S: Books>(shards: &[S]) -> Result<Log, Error> {
    let mut log = Log::new();
    for shard in shards {
        for (key, status, in_flight, products, skus, quantities) in S::log(&mut *shard.read().await?).await? {
            let products: Vec<String> = list(&key, products)?;
            let skus: Vec<String> = list(&key, skus)?;
            let quantities: Vec<i64> = list(&key, quantities)?;
            let items = products.into_iter().zip(skus).zip(quantities).collect();
            let logged = Logged { is_deducted: status == "SUCCESS", in_flight, items };
            if log.insert(key.clone(), logged).is_some() {
                return Err(Error::Corrupt(format!("key {key:?} is in the log of two shards")));
            }
        }
    }
    Ok(log)
}

fn list<T: serde::de::DeserializeOwned>(key: &str, text: Option<String>) -> Result<Vec<T>, Error> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    serde_json::from_str(&text).map_err(|e| Error::Corrupt(format!("the log of key {key:?} holds no list: {e}")))
}

fn check(before: &Log, stock: &[StockRow], after: &Log) -> Report {
    let is_moving = |key: &&String| {
        let (then, now) = (before.get(*key), after.get(*key));
        then != now || now.is_some_and(|logged| logged.in_flight)
    };
    let moving: BTreeSet<&String> = before.keys().chain(after.keys()).filter(is_moving).collect();
    let touched = |key: &&String| [before.get(*key), after.get(*key)].into_iter().flatten().flat_map(|l| &l.items);
    let touched: BTreeSet<&Sku> = moving.iter().flat_map(touched).map(|(sku, _)| sku).collect();

    let mut deducted: BTreeMap<&Sku, i64> = BTreeMap::new();
    for (sku, quantity) in after.values().filter(|logged| logged.is_deducted).flat_map(|logged| &logged.items) {
        *deducted.entry(sku).or_default() += quantity;
    }
    let mut rows: BTreeMap<Sku, (i64, i64, i64)> = BTreeMap::new();
    for (product, sku, stock, reserved, put_in) in stock {
        rows.insert((product.clone(), sku.clone()), (*stock, *reserved, *put_in));
    }
    // A SKU that was deducted but never put in needs a row as well.
    for sku in deducted.keys() {
        rows.entry((*sku).clone()).or_default();
    }
    rows.retain(|sku, _| !touched.contains(sku));
    let products = rows.len();
    let discrepancies: Vec<_> = rows
        .into_iter()
        .map(|(sku, (stock, reserved, put_in))| {
            let deducted = deducted.get(&sku).copied().unwrap_or_default();
            let (product_id, sku_id) = sku;
            let difference = stock + reserved + deducted - put_in;
            Discrepancy { product_id, sku_id, put_in, stock, reserved, deducted, difference }
        })
        .filter(|found| found.difference != 0)
        .collect();
    let checked = Checked { products, deductions: after.len() };
    Report { ok: discrepancies.is_empty(), checked, in_flight: moving.len(), discrepancies }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(is_deducted: bool, in_flight: bool) -> Log {
        let items = vec![(("p".to_owned(), "s".to_owned()), 3)];
        Log::from([("k".to_owned(), Logged { is_deducted, in_flight, items })])
    }

    fn stock(stock: i64, reserved: i64) -> Vec<StockRow> {
        vec![("p".into(), "s".into(), stock, reserved, 10)]
    }

    /// C.3
    #[test]
    fn books_that_add_up_are_ok_and_others_are_listed() {
        assert!(check(&log(true, false), &stock(7, 0), &log(true, false)).ok);
        assert!(check(&log(false, false), &stock(8, 2), &log(false, false)).ok);
        let twice = check(&log(true, false), &stock(4, 0), &log(true, false));
        assert_eq!(twice.discrepancies[0].difference, -3);
        assert!(!check(&log(true, false), &[], &log(true, false)).ok, "deducted, and never put in");
    }

    /// C.6
    #[test]
    fn a_key_in_progress_is_not_checked() {
        let moving = check(&log(false, true), &stock(7, 0), &log(true, true));
        assert_eq!((moving.ok, moving.in_flight, moving.checked.products), (true, 1, 0));
        let began = check(&Log::new(), &stock(7, 0), &log(true, false));
        assert_eq!((began.ok, began.in_flight), (true, 1));
    }
}
