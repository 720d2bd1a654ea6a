//! Users, songs and playlists: three services that share events but no database.
//!
//! A user is deleted in one service, a song in another. The third removes the user's playlists, or the song from all
//! playlists, exactly once per deletion, however often the event arrives.
//!
//! ```text
//! DELETE /users/{username} ─▶ users     ─ user.deleted ─┐
//!                                                       ├─▶ playlists
//! DELETE /songs/{songName} ─▶ songs     ─ song.deleted ─┘
//! ```
//!
//! Reading order: [`events`] is the contract between the services; `users.rs` and `songs.rs` enqueue an event in the
//! transaction of the deletion; `cleaning.rs` consumes the events; [`service`] assembles a process, and is the only
//! file that knows whether there is a broker.

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
