//! The API as its callers meet it: over HTTP, on a store of its own for each test.
#![allow(missing_docs, clippy::unwrap_used)]

mod access;
mod console;
mod consumers;
mod desk;
mod document;
mod events;
mod limits;
mod lists;
mod mend;
mod operations;
mod problems;
mod reads;
mod sessions;
mod story;
mod subscriptions;
