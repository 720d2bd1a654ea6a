//! Decisions that every store makes the same way, as pure functions over typed rows: what a redrive writes, what the
//! roll-up writes, whether a consumer may be renamed, what becomes of deliveries when a subscription changes, how a page of a
//! list is found, which events a text names, and what a bulk operation does next. A store reads the rows, calls these functions, and writes the result.

mod change;
pub(super) mod fold;
mod operation;
pub(super) mod page;
pub(super) mod redrive;
mod rename;
pub(super) mod search;

pub(crate) use change::{Moves, Shift, check_version, decide_change, decide_secrets, registered_as, was_external};
pub(crate) use fold::{Fold, FoldedStatus, Lookup, lookups};
pub(crate) use operation::{LOOKED_AT, Watched, request, stairs};
pub(crate) use page::{Lead, RowFilter, Scan, count_events, list};
pub(crate) use redrive::{DueDelivery, ExpectedConsumer, Plan, Request, redrive_lane};
pub(crate) use rename::{NameUse, Renaming, decide_rename};
pub(crate) use search::search;
