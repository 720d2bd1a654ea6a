//! Stock in several databases. A batch is deducted in all of them or in none, once per key, after any crash.
//!
//! ```text
//! POST /inventory/deductions ─▶ begin ─▶ reserve in shard 0, 1, 2 ─▶ decide ─▶ settle in shard 0, 1, 2
//!                               (log)                                (log)
//! ```
//!
//! Reading order: [`batch`] is the request; [`entry`] is the state machine of a key, as pure functions; [`inventory`]
//! runs the steps above; [`recovery`] completes them after a crash; [`audit`] checks the numbers and shares no code
//! with the rest. `http.rs` is the API, and [`database`] contains every statement.

pub mod audit;
pub mod batch;
pub mod config;
pub mod database;
pub mod entry;
mod error;
pub mod http;
pub mod inventory;
mod problem;
pub mod recovery;
pub mod service;

pub use batch::Batch;
pub use database::Database;
pub use error::Error;
pub use inventory::Inventory;
pub use service::Process;
