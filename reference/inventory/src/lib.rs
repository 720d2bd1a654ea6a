//! Stock in several databases. A batch is deducted in all of them or in none, and once per key, whatever dies in between.
//!
//! ```text
//! POST /inventory/deductions ─▶ begin ─▶ reserve in shard 0, 1, 2 ─▶ decide ─▶ settle in shard 0, 1, 2
//!                               (log)                                (log)
//! ```
//!
//! Read it in this order: [`batch`] is what a caller may ask for; [`entry`] is the life of a key, as pure functions;
//! [`inventory`] takes the steps above; [`recovery`] takes the rest of them where somebody died; [`audit`] checks the books
//! and shares nothing with all of this. `http.rs` is how callers see it, [`database`] has every statement.

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
