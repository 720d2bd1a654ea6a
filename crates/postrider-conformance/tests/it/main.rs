//! Every store of ours, held to the suite.

#![allow(clippy::unwrap_used)]

mod memory;
mod mysql;
mod postgres;
mod sqlite;
mod transport;
mod upgrade;
