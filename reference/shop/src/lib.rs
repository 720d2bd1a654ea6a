//! A shop: orders are paid with money, coupons, a wallet and points, and whatever dies in between, the books balance.
//!
//! ```text
//!            checkout            paid           (merchant must accept)
//!  DRAFT ──────────▶ WAIT_PAY ─────────▶ PAID ─────────▶ WAIT_ACCEPT ─────────▶ ACCEPTED
//!    │                  │                  └───────┬──────────┼────────────────────┘
//!    └──── CANCELED ◀───┴────────── + refund ──────┼──────────┘
//!                                              REFUNDED
//! ```
//!
//! Each step changes the order and writes the event that tells of it in one transaction, under an id that follows from the
//! step: a callback that comes again writes nothing. Consumers of those events move the assets, each under a key of its
//! own, and write an entry into the ledger for whatever they move.
//!
//! One rule keeps the races away: **whoever changes an order, or moves an asset for it, holds the order's row**
//! ([`orders::lock`]). Then coupon, wallet, points, always in this order, so that nobody waits in a circle.
//!
//! Read it in this order: [`events`] is what the parts know of each other; [`orders`], [`payments`] and [`refunds`] are the
//! state machines; `ledger`, [`coupons`], [`wallet`] and [`points`] are the assets; [`consumers`] joins the two; [`jobs`]
//! mends what no event did; [`audit`] judges all of it and shares nothing with it; [`http`] and [`service`] are the way in;
//! [`settings`] and [`config`] are what may be chosen, and where.

pub mod accounts;
pub mod audit;
pub mod config;
pub mod consumers;
pub mod coupons;
pub mod database;
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
