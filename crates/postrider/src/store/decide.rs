//! Decisions that every store makes the same way, as pure functions over typed rows: what a redrive writes, what the
//! roll-up writes, how a page of a list is found, and how a batch of a bulk operation is counted. A store reads the
//! rows, calls these functions, and writes the result.

pub(super) mod fold;
pub(super) mod page;
pub(super) mod redrive;

pub use fold::{Fold, FoldedStatus, Lookup, lookups};
pub use page::{Lead, RowFilter, Scan, list};
pub use redrive::{DueDelivery, ExpectedConsumer, Plan, Request, redrive_lane};
