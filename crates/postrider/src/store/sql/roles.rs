//! The roles that all SQL stores implement with the same code; see `../sql.rs`.

use super::*;

mod access;
pub(super) mod audit;
mod change;
mod events;
mod figures;
mod instances;
mod jobs;
mod key_order;
mod keys;
pub(super) mod large;
mod leases;
mod lists;
mod lost;
mod operations;
mod promises;
pub(super) mod records;
pub(super) mod redrives;
mod rename;
mod schema;
mod stories;
mod subscriptions;
#[cfg(feature = "testing")]
mod testing;
mod upkeep;
