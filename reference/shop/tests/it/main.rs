//! The shop, judged by its auditor and by SQL that shares nothing with it: in one process where a race has to be met, and
//! as processes that are killed where that is the question.
#![allow(missing_docs, clippy::unwrap_used)]

mod acceptance;
mod auditor;
mod customer;
mod database;
mod fixture;
mod http;
mod killed;
mod metrics;
mod process;
mod races;
mod together;
