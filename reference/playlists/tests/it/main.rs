//! Tests of the services as processes over HTTP, checked by their logs and by independent SQL.
#![allow(missing_docs, clippy::unwrap_used)]

mod apart;
mod broker;
mod cleaning;
mod compose;
mod database;
mod http;
mod process;
