//! The configuration of Postrider's programs, in one file: `postrider.toml`.
//!
//! A value comes from a flag, else from `POSTRIDER_*` in the environment, else from the file, else it is the default. Each
//! program reads the keys of its own tables ([`server`], [`shop`], [`inventory`]); a key of no table is refused, with the
//! nearest known one. Code names a key by a constant with the type of its value, so a misspelt key does not compile.
//!
//! The layers are ours, because config and figment keep no origin that names a flag or a variable, and guess the type of a
//! value from the environment; reading the file is toml's, and finding the nearest key strsim's.

mod key;
mod load;
mod reference;

pub mod inventory;
pub mod server;
pub mod shop;

pub use key::{Assignment, Key, Spec};
pub use load::{Config, ConfigError, Origin, Setting, Sources, without_password};
pub use reference::reference;

/// The keys of every program.
pub(crate) const TABLES: [&[Spec]; 3] = [server::ALL, shop::ALL, inventory::ALL];
