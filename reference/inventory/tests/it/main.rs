//! Tests of the inventory as processes over HTTP, checked by its auditor and by independent SQL.
#![allow(missing_docs, clippy::unwrap_used)]

mod crash;
mod deduct;
mod http;
mod process;
mod release;
mod shards;
