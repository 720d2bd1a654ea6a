//! Every store of ours, held to the suite.

#![allow(clippy::unwrap_used)]

mod memory;
mod postgres;
// Off until that store is there.
// mod sqlite;
