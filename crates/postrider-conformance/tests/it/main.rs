//! Every store of ours, held to the suite.

#![allow(clippy::unwrap_used)]

mod memory;
// Off until those stores are there.
// mod postgres;
mod sqlite;
