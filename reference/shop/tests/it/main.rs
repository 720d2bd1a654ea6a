//! Tests of the shop, checked by its auditor and by independent SQL: in one process for races, and with killed
//! processes for crashes.
#![allow(missing_docs, clippy::unwrap_used)]

mod acceptance;
mod auditor;
mod customer;
mod database;
mod effects;
mod fixture;
mod http;
mod killed;
mod metrics;
mod process;
mod races;
mod scenes;
mod story;
mod together;
