//! Tests that the conformance suite cannot run on every store: plans, locks and shells of one database; and the
//! examples.
#![allow(missing_docs)]

#[cfg(feature = "webhook")]
mod alert;
mod architecture;
mod examples;
mod fuzz;
mod migrations;
#[cfg(feature = "mysql")]
mod mysql;
mod observe;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod relay;
mod requirements;
mod service;
#[cfg(feature = "sqlite")]
mod sqlite;
mod supply_chain;
