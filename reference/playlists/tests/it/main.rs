//! The services as processes, asked over HTTP, and judged by their logs and by SQL that shares nothing with them.
#![allow(missing_docs, clippy::unwrap_used)]

mod apart;
mod broker;
mod cleaning;
mod database;
mod http;
mod process;
