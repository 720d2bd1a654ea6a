//! The inventory as processes, asked over HTTP, and judged by its auditor and by SQL that shares nothing with it.
#![allow(missing_docs, clippy::unwrap_used)]

mod crash;
mod deduct;
mod http;
mod process;
mod release;
mod shards;
