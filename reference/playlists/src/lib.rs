//! Users, songs and playlists: three services that share no database, only events.
//!
//! A user is deleted in one service, a song in another; the third takes the user's playlists away, and the song out of
//! everybody's, exactly once per deletion, however often the event arrives.
//!
//! ```text
//! DELETE /users/{username} ─▶ users     ─ user.deleted ─┐
//!                                                       ├─▶ playlists
//! DELETE /songs/{songName} ─▶ songs     ─ song.deleted ─┘
//! ```
//!
//! Read it in this order: [`events`] is all that the services know of each other; `users.rs` and `songs.rs` write an event
//! in the transaction that makes it true; `cleaning.rs` consumes them; [`service`] puts a process together, and is the only
//! place that knows whether there is a broker.

mod cleaning;
pub mod database;
pub mod events;
mod http;
mod playlists;
pub mod service;
mod songs;
mod users;

pub use database::Database;
pub use service::{Process, Service};
