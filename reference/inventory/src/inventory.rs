//! Stock in several databases, and the protocol that moves it.
//!
//! No transaction spans two databases, so a batch is processed in steps, each in its own transaction:
//!
//! 1. **begin**: inserts the key into the log, in the key's *home* shard, with a lease.
//! 2. **reserve** in each shard of the batch: moves stock to reserved, if there is enough.
//! 3. **decide**: the row in the log becomes SUCCESS or FAILED, if it still belongs to this attempt. This single
//!    statement deducts the batch in all shards or in none.
//! 4. **settle**: applies the decision of the log to each shard.
//!
//! A process that dies in between leaves a lease, which expires. Before the decision, the attempt then counts as
//! failed; after it, the remaining shards are updated. Both are done by [`settle`](Inventory::settle), called by
//! [`recovery`](crate::recovery) or by the next request with the key.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider::shard::shard_of;
use postrider::store::retry_lost;

use crate::batch::{Batch, Item};
use crate::database::{Database, Move, Reservation, Stock};
use crate::entry::{Entry, Fate, Opening, Status, fate, open};
use crate::error::Error;

/// The time limit of an attempt: far longer than it normally takes, and the same as a claim lease of Postrider.
pub const LEASE: Duration = Duration::from_secs(30);
/// How often a conflicting insert is retried. Each conflict means that another process made progress.
const LOOKS: usize = 10;

/// The stock of all shards.
#[derive(Debug, Clone)]
pub struct Inventory<S> {
    shards: Arc<[S]>,
    lease: Duration,
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// True if it had been done before.
    pub replayed: bool,
}

impl<S: Database> Inventory<S> {
    /// Opens the shards. They must always be the same databases in the same order. Creates missing tables, and refuses
    /// databases with another shard number or count, because their products would not be found.
    pub async fn open(shards: Vec<S>, lease: Duration) -> Result<Self, Error> {
        if shards.is_empty() {
            return Err(Error::invalid("store", "is required: one per shard"));
        }
        let places = shards.len() as i64;
        for (number, store) in (0_i64..).zip(&shards) {
            store.migrate().await?;
            let (was, of) = retry_lost(|| take_place(store, number, places)).await?;
            if (was, of) != (number, places) {
                let store = store.name();
                let message = format!(
                    "{store} is shard {was} of {of}, but was given as {number} of {places}: give all of them, in their \
                     order"
                );
                return Err(Error::invalid("store", message));
            }
        }
        Ok(Self { shards: shards.into(), lease })
    }

    /// The databases, in order.
    pub fn shards(&self) -> &[S] {
        &self.shards
    }

    /// The lease of an attempt.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// The shard of a product's stock or of a key's row. It never changes.
    fn number_of(&self, name: &str) -> usize {
        usize::from(shard_of(Some(name), "")) % self.shards.len()
    }

    fn shard(&self, name: &str) -> &S {
        &self.shards[self.number_of(name)]
    }

    /// Deducts a batch, once per key.
    pub async fn deduct(&self, key: &str, batch: &Batch) -> Result<Done, Error> {
        self.refuse_unknown(batch).await?;
        let Some(attempt) = self.begin(key, batch).await? else {
            return Ok(Done { replayed: true });
        };
        let reserved = self.reserve(key, attempt, batch).await;
        // In a new transaction, because the failed one is rolled back.
        let decided = match &reserved {
            Ok(()) => self.end(key, attempt, Status::Success, None).await,
            Err(error) => self.end(key, attempt, Status::Failed, Some(&error.to_string())).await,
        };
        if let Err(error) = &decided {
            // The decision may be committed although its answer was lost. If it is not, this lets the next try begin
            // without waiting for the lease.
            tracing::warn!(key, %error, "the log did not answer when the attempt was decided");
            self.end(key, attempt, Status::Failed, Some("the log did not answer")).await.ok();
        }
        self.settle_or_log(key).await;
        reserved?;
        if decided? { Ok(Done { replayed: false }) } else { Err(self.overtaken(key).await) }
    }

    /// Returns the stock of a canceled order, and blocks later deductions under its key.
    pub async fn release(&self, key: &str) -> Result<Done, Error> {
        let released = retry_lost(|| self.release_entry(key)).await?;
        self.settle_or_log(key).await;
        Ok(Done { replayed: !released })
    }

    /// Applies the log to every shard of a key. Can be repeated. Returns false if the key is unknown.
    pub async fn settle(&self, key: &str) -> Result<bool, Error> {
        let Some(entry) = self.find(key).await? else {
            return Ok(false);
        };
        let shards: BTreeSet<_> = entry.product_ids.iter().map(|product| self.number_of(product)).collect();
        for shard in shards {
            retry_lost(|| settle_in(&self.shards[shard], key, &entry)).await?;
        }
        if entry.status != Status::Processing {
            let (home, entry) = (self.shard(key), &entry);
            retry_lost(|| async move {
                let mut tx = home.begin().await?;
                if S::settle_entry(&mut tx, key, entry.attempt, entry.status).await? {
                    home.commit(tx).await?;
                }
                Ok::<_, Error>(())
            })
            .await?;
        }
        Ok(true)
    }

    /// Ends an attempt whose lease has expired. Its later writes are refused by the log and its reservations returned.
    pub async fn expire(&self, key: &str) -> Result<(), Error> {
        if let Some(Entry { status: Status::Processing, lease_is_over: true, attempt, .. }) = self.find(key).await? {
            self.end(key, attempt, Status::Failed, Some("not finished within the lease")).await?;
        }
        Ok(())
    }

    /// Sets the stock that can be sold. Reservations stay.
    pub async fn put(&self, product_id: &str, sku_id: &str, stock: i64) -> Result<Stock, Error> {
        retry_lost(|| self.put_once(product_id, sku_id, stock)).await
    }

    async fn put_once(&self, product_id: &str, sku_id: &str, stock: i64) -> Result<Stock, Error> {
        let shard = self.shard(product_id);
        for _ in 0..LOOKS {
            let mut tx = shard.begin().await?;
            let known = match S::lock_stock(&mut tx, product_id, sku_id).await? {
                Some(known) => known,
                None => match S::add_product(&mut tx, product_id, sku_id).await.map_err(Error::from) {
                    Ok(()) => Stock { stock: 0, reserved: 0 },
                    Err(error) if error.is_taken() => continue,
                    Err(error) => return Err(error),
                },
            };
            // A change of zero is recorded as well: the product then counts as put in.
            if !S::put_in(&mut tx, product_id, sku_id, stock - known.stock).await? {
                return Err(Error::Corrupt(format!("product {product_id:?} is locked and gone")));
            }
            shard.commit(tx).await?;
            return Ok(Stock { stock, ..known });
        }
        Err(Error::InProgress)
    }

    /// The stock of a SKU. Returns `None` if it was never put in.
    pub async fn stock(&self, product_id: &str, sku_id: &str) -> Result<Option<Stock>, Error> {
        let mut reader = self.shard(product_id).read().await?;
        Ok(S::find_stock(&mut reader, product_id, sku_id).await?)
    }

    /// Checked before the key is used, so that an unknown product leaves nothing behind.
    async fn refuse_unknown(&self, batch: &Batch) -> Result<(), Error> {
        for (number, shard) in self.shards.iter().enumerate() {
            let mut items = self.items_in(number, batch).peekable();
            if items.peek().is_none() {
                continue;
            }
            let mut reader = shard.read().await?;
            for item in items {
                let Item { product_id, sku_id, .. } = item;
                if S::find_stock(&mut reader, product_id, sku_id).await?.is_none() {
                    let mut pairs = batch.product_ids.iter().zip(&batch.sku_ids);
                    let at = pairs.position(|pair| pair == (product_id, sku_id)).unwrap_or_default();
                    let (product_id, sku_id) = (product_id.clone(), sku_id.clone());
                    return Err(Error::UnknownProduct { field: format!("productIds[{at}]"), product_id, sku_id });
                }
            }
        }
        Ok(())
    }

    fn items_in<'a>(&'a self, shard: usize, batch: &'a Batch) -> impl Iterator<Item = &'a Item> {
        batch.items.iter().filter(move |item| self.number_of(&item.product_id) == shard)
    }

    /// Takes the key. Returns `None` if the deduction is already done.
    async fn begin(&self, key: &str, batch: &Batch) -> Result<Option<i64>, Error> {
        retry_lost(|| self.begin_once(key, batch)).await
    }

    async fn begin_once(&self, key: &str, batch: &Batch) -> Result<Option<i64>, Error> {
        let (home, fingerprint) = (self.shard(key), batch.fingerprint()?);
        for _ in 0..LOOKS {
            let mut tx = home.begin().await?;
            let attempt = match open(S::find_entry(&mut tx, key).await?.as_ref(), &fingerprint)? {
                Opening::Replay => return Ok(None),
                Opening::Begin => match S::begin_entry(&mut tx, key, batch, self.lease).await {
                    Ok(()) => 1,
                    Err(error) if error.is_taken() => continue,
                    Err(error) => return Err(error),
                },
                Opening::Retry { after } => {
                    if !S::retry_entry(&mut tx, key, after, self.lease).await? {
                        continue;
                    }
                    after + 1
                }
            };
            home.commit(tx).await?;
            return Ok(Some(attempt));
        }
        Err(Error::InProgress)
    }

    /// Reserves the whole batch, shard by shard.
    async fn reserve(&self, key: &str, attempt: i64, batch: &Batch) -> Result<(), Error> {
        if attempt > 1 {
            // Returns the reservations of earlier attempts first; otherwise that stock would be missing.
            self.settle(key).await?;
        }
        for (number, shard) in self.shards.iter().enumerate() {
            let items: &Vec<_> = &self.items_in(number, batch).collect();
            if items.is_empty() {
                continue;
            }
            retry_lost(|| reserve_in(shard, key, attempt, items)).await?;
        }
        Ok(())
    }

    /// Writes the end of an attempt to the log. Returns false if another process has ended it.
    async fn end(&self, key: &str, attempt: i64, status: Status, error: Option<&str>) -> Result<bool, Error> {
        let home = self.shard(key);
        retry_lost(|| async move {
            let mut tx = home.begin().await?;
            let ended = S::end_entry(&mut tx, key, attempt, status, error).await?;
            home.commit(tx).await?;
            Ok(ended)
        })
        .await
    }

    /// Returns false if the key was already released.
    async fn release_entry(&self, key: &str) -> Result<bool, Error> {
        let home = self.shard(key);
        for _ in 0..LOOKS {
            let mut tx = home.begin().await?;
            let released = match S::find_entry(&mut tx, key).await? {
                Some(_) => S::release_entry(&mut tx, key, self.lease).await?,
                None => match S::block_entry(&mut tx, key).await.map_err(Error::from) {
                    Ok(()) => true,
                    Err(error) if error.is_taken() => continue,
                    Err(error) => return Err(error),
                },
            };
            home.commit(tx).await?;
            return Ok(released);
        }
        Err(Error::InProgress)
    }

    async fn find(&self, key: &str) -> Result<Option<Entry>, Error> {
        let mut reader = self.shard(key).read().await?;
        S::find_entry(&mut reader, key).await
    }

    /// An error is only logged: the decision stands, and recovery applies it later.
    async fn settle_or_log(&self, key: &str) {
        if let Err(error) = self.settle(key).await {
            tracing::warn!(key, %error, "a shard was not settled: recovery will do it");
        }
    }

    /// The reason why an attempt no longer owns its key.
    async fn overtaken(&self, key: &str) -> Error {
        match self.find(key).await {
            Ok(Some(Entry { status: Status::Released, .. })) => Error::Released,
            Ok(_) => Error::InProgress,
            Err(error) => error,
        }
    }
}

/// Reads the shard number of a database, or stores the given one. Of two concurrent writers, one succeeds.
async fn take_place<S: Database>(store: &S, number: i64, places: i64) -> Result<(i64, i64), Error> {
    for _ in 0..LOOKS {
        let mut tx = store.begin().await?;
        S::make_tables(&mut tx).await?;
        let place = match S::find_place(&mut tx).await? {
            Some(place) => place,
            None => match S::take_place(&mut tx, number, places).await.map_err(Error::from) {
                Ok(()) => (number, places),
                Err(error) if error.is_taken() => continue,
                Err(error) => return Err(error),
            },
        };
        store.commit(tx).await?;
        return Ok(place);
    }
    Err(Error::InProgress)
}

/// Reserves the items of one shard in one transaction.
async fn reserve_in<S: Database>(shard: &S, key: &str, attempt: i64, items: &[&Item]) -> Result<(), Error> {
    let mut tx = shard.begin().await?;
    for item in items {
        S::add_reservation(&mut tx, key, attempt, item).await?;
        if !S::move_stock(&mut tx, item, Move::Hold).await? {
            let (product_id, sku_id) = (item.product_id.clone(), item.sku_id.clone());
            return Err(Error::OutOfStock { product_id, sku_id });
        }
    }
    Ok(shard.commit(tx).await?)
}

/// Applies the log to one shard in one transaction.
async fn settle_in<S: Database>(shard: &S, key: &str, entry: &Entry) -> Result<(), Error> {
    let mut tx = shard.begin().await?;
    let mut reservations = S::lock_reservations(&mut tx, key).await?;
    // Sorted here, in the common lock order, because the collations of databases differ.
    reservations.sort_by(|a, b| {
        (&a.item.product_id, &a.item.sku_id, a.attempt).cmp(&(&b.item.product_id, &b.item.sku_id, b.attempt))
    });
    let mut changed = false;
    for reservation in reservations {
        let fate = fate(entry, reservation.attempt, reservation.is_deducted);
        changed |= fate != Fate::Keep;
        if !carry_out::<S>(&mut tx, key, &reservation, fate).await? {
            let Item { product_id, sku_id, .. } = reservation.item;
            let message = format!("product {product_id:?} with SKU {sku_id:?} has less reserved than its reservations");
            return Err(Error::Corrupt(message));
        }
    }
    if changed {
        shard.commit(tx).await?;
    }
    Ok(())
}

/// Returns false if the stock does not match the reservation.
async fn carry_out<S: Database>(
    tx: &mut S::Conn,
    key: &str,
    reservation: &Reservation,
    fate: Fate,
) -> sqlx::Result<bool> {
    let item = &reservation.item;
    match fate {
        Fate::Keep => Ok(true),
        Fate::Deduct => {
            Ok(S::deduct_reservation(tx, key, reservation).await? && S::move_stock(tx, item, Move::Deduct).await?)
        }
        Fate::GiveBack => {
            let movement = if reservation.is_deducted { Move::Return } else { Move::LetGo };
            Ok(S::remove_reservation(tx, key, reservation).await? && S::move_stock(tx, item, movement).await?)
        }
    }
}
