//! The configuration of Postrider's programs, in one file: `postrider.toml`.
//!
//! A value comes from a flag, else from `POSTRIDER_*` in the environment, else from the file, else it is the default. Each
//! program reads the keys of its own tables ([`server`], [`shop`], [`inventory`]); a key of no table is refused, with the
//! nearest known one. Code names a key by a constant with the type of its value, so a misspelt key does not compile.
//!
//! The layers are ours: config gives flags and defaults no origin, figment guesses the type of a variable's value (a secret
//! of digits becomes a number), and neither knows a table of keys. What they would save is the merge of four maps.

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
