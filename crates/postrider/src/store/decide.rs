//! What every store decides the same way, as pure functions over typed rows: what a redrive writes, what the roll-up
//! writes, how a page of a list is found, and what became of a batch of a bulk operation. A store reads the rows, asks
//! here, and writes the answer.

pub(super) mod fold;
pub(super) mod page;
pub(super) mod redrive;

pub use fold::{Fold, FoldedStatus, Lookup, lookups};
pub use page::{Lead, RowFilter, Scan, list};
pub use redrive::{DueDelivery, ExpectedConsumer, Plan, Request, redrive_lane};
