//! A shop whose orders are paid with money, coupons, a wallet and points. The books balance after any crash.
//!
//! ```text
//!            checkout            paid           (merchant must accept)
//!  DRAFT ──────────▶ WAIT_PAY ─────────▶ PAID ─────────▶ WAIT_ACCEPT ─────────▶ ACCEPTED
//!    │                  │                  └───────┬──────────┼────────────────────┘
//!    └──── CANCELED ◀───┴────────── + refund ──────┼──────────┘
//!                                              REFUNDED
//! ```
//!
//! Each step changes the order and enqueues its event in one transaction. The event id is derived from the step, so a
//! repeated callback writes nothing. Consumers of these events move the assets, each under its own key, and append a
//! ledger entry for every movement.
//!
//! One rule prevents races: **a transaction that changes an order, or moves an asset for it, first locks the order's
//! row** ([`orders::lock`]). It then locks coupon, wallet and points, always in this order, which prevents deadlocks.
//!
//! Reading order: [`events`] connects the parts; [`orders`], [`payments`] and [`refunds`] are the state machines;
//! `ledger`, [`coupons`], [`wallet`] and [`points`] are the assets; [`consumers`] connects the two; [`jobs`] repairs
//! what no event did; [`audit`] checks everything and shares no code with it; [`http`] and [`service`] are the
//! interface; [`settings`] and [`config`] are the configuration.

pub mod accounts;
pub mod audit;
pub mod config;
pub mod consumers;
pub mod coupons;
pub mod database;
mod effects;
pub mod error;
pub mod events;
pub mod http;
pub mod jobs;
mod ledger;
pub mod orders;
pub mod payments;
pub mod points;
pub mod refunds;
pub mod service;
pub mod settings;
mod shop;
pub mod wallet;

pub use database::Database;
pub use error::ShopError;
pub use ledger::{Moved, Patience};
pub use settings::Settings;
pub use shop::{Caller, Shop};
