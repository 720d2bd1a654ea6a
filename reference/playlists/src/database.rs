//! The tables of the services and the statements on them. A service creates and uses only its own tables, also if one
//! process runs all three on one database.
//!
//! The SQL texts differ per database (`Statements`); another database needs another set.

use std::future::Future;

use postrider::Enlist;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;

use crate::service::Service;

/// A stored playlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Playlist {
    /// The owner.
    pub owner: String,
    /// Its songs, in order.
    pub songs: Vec<String>,
}

/// A store whose database also contains the tables of the services. Everything runs in the caller's transaction, so
/// that it commits together with an event or an inbox row.
pub trait Database: Enlist {
    /// Creates the missing tables of one service.
    fn make_tables(conn: &mut Self::Conn, service: Service) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Adds a user. An existing one is a unique violation.
    fn add_user(conn: &mut Self::Conn, username: &str) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Deletes a user. Returns false if there is none. Of two concurrent calls one returns false, because the other
    /// holds the row lock.
    fn delete_user(conn: &mut Self::Conn, username: &str) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Adds a song. An existing one is a unique violation.
    fn add_song(conn: &mut Self::Conn, name: &str) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Deletes a song. Returns false if there is none.
    fn delete_song(conn: &mut Self::Conn, name: &str) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Creates or replaces a playlist.
    fn put_playlist(
        conn: &mut Self::Conn,
        name: &str,
        playlist: &Playlist,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Returns `None` if there is no such playlist.
    fn find_playlist(conn: &mut Self::Conn, name: &str) -> impl Future<Output = sqlx::Result<Option<Playlist>>> + Send;

    /// Removes the playlists of an owner and returns their number.
    fn remove_playlists_of(conn: &mut Self::Conn, owner: &str) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Removes a song from every playlist and returns the number of places.
    fn remove_song(conn: &mut Self::Conn, song: &str) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Increments the count of cleanings for an event. A count of 1 proves that the event had one effect.
    fn count_cleaning(conn: &mut Self::Conn, event_id: &str) -> impl Future<Output = sqlx::Result<()>> + Send;
}

/// The SQL texts of one database.
struct Statements {
    users: &'static str,
    songs: &'static str,
    playlists: &'static str,
    add_user: &'static str,
    delete_user: &'static str,
    add_song: &'static str,
    delete_song: &'static str,
    put_playlist: &'static str,
    clear_playlist: &'static str,
    add_to_playlist: &'static str,
    find_owner: &'static str,
    find_songs: &'static str,
    remove_playlists_of: &'static str,
    remove_song: &'static str,
    count_cleaning: &'static str,
}

const SQLITE: Statements = Statements {
    users: "CREATE TABLE IF NOT EXISTS users (username TEXT NOT NULL PRIMARY KEY)",
    songs: "CREATE TABLE IF NOT EXISTS songs (name TEXT NOT NULL PRIMARY KEY)",
    playlists: "
        CREATE TABLE IF NOT EXISTS playlists (name TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL);
        CREATE INDEX IF NOT EXISTS playlists_by_owner ON playlists (owner);
        CREATE TABLE IF NOT EXISTS playlist_songs (
            playlist TEXT NOT NULL REFERENCES playlists (name) ON DELETE CASCADE,
            place    INTEGER NOT NULL,
            song     TEXT NOT NULL,
            PRIMARY KEY (playlist, place)
        );
        CREATE INDEX IF NOT EXISTS playlist_songs_by_song ON playlist_songs (song);
        CREATE TABLE IF NOT EXISTS cleanings (event_id TEXT NOT NULL PRIMARY KEY, n INTEGER NOT NULL)",
    add_user: "INSERT INTO users (username) VALUES (?)",
    delete_user: "DELETE FROM users WHERE username = ?",
    add_song: "INSERT INTO songs (name) VALUES (?)",
    delete_song: "DELETE FROM songs WHERE name = ?",
    put_playlist: "INSERT INTO playlists (name, owner) VALUES (?, ?)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner",
    clear_playlist: "DELETE FROM playlist_songs WHERE playlist = ?",
    add_to_playlist: "INSERT INTO playlist_songs (playlist, place, song) VALUES (?, ?, ?)",
    find_owner: "SELECT owner FROM playlists WHERE name = ?",
    find_songs: "SELECT song FROM playlist_songs WHERE playlist = ? ORDER BY place",
    remove_playlists_of: "DELETE FROM playlists WHERE owner = ?",
    remove_song: "DELETE FROM playlist_songs WHERE song = ?",
    count_cleaning: "INSERT INTO cleanings (event_id, n) VALUES (?, 1)
        ON CONFLICT (event_id) DO UPDATE SET n = cleanings.n + 1",
};

// Concurrent CREATE TABLE IF NOT EXISTS statements can fail in PostgreSQL, so an advisory lock serializes them.
const POSTGRES: Statements = Statements {
    users: "
        SELECT pg_advisory_xact_lock(7080);
        CREATE TABLE IF NOT EXISTS users (username text PRIMARY KEY)",
    songs: "
        SELECT pg_advisory_xact_lock(7080);
        CREATE TABLE IF NOT EXISTS songs (name text PRIMARY KEY)",
    playlists: "
        SELECT pg_advisory_xact_lock(7080);
        CREATE TABLE IF NOT EXISTS playlists (name text PRIMARY KEY, owner text NOT NULL);
        CREATE INDEX IF NOT EXISTS playlists_by_owner ON playlists (owner);
        CREATE TABLE IF NOT EXISTS playlist_songs (
            playlist text NOT NULL REFERENCES playlists (name) ON DELETE CASCADE,
            place    bigint NOT NULL,
            song     text NOT NULL,
            PRIMARY KEY (playlist, place)
        );
        CREATE INDEX IF NOT EXISTS playlist_songs_by_song ON playlist_songs (song);
        CREATE TABLE IF NOT EXISTS cleanings (event_id text PRIMARY KEY, n bigint NOT NULL)",
    add_user: "INSERT INTO users (username) VALUES ($1)",
    delete_user: "DELETE FROM users WHERE username = $1",
    add_song: "INSERT INTO songs (name) VALUES ($1)",
    delete_song: "DELETE FROM songs WHERE name = $1",
    put_playlist: "INSERT INTO playlists (name, owner) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner",
    clear_playlist: "DELETE FROM playlist_songs WHERE playlist = $1",
    add_to_playlist: "INSERT INTO playlist_songs (playlist, place, song) VALUES ($1, $2, $3)",
    find_owner: "SELECT owner FROM playlists WHERE name = $1",
    find_songs: "SELECT song FROM playlist_songs WHERE playlist = $1 ORDER BY place",
    remove_playlists_of: "DELETE FROM playlists WHERE owner = $1",
    remove_song: "DELETE FROM playlist_songs WHERE song = $1",
    count_cleaning: "INSERT INTO cleanings (event_id, n) VALUES ($1, 1)
        ON CONFLICT (event_id) DO UPDATE SET n = cleanings.n + 1",
};

// Names are compared byte for byte, including trailing spaces. That collation has different
// names on MySQL and on MariaDB; each server reads only its own conditional comment. A CREATE
// commits by itself, so every statement must be repeatable.
const MYSQL: Statements = Statements {
    users: "
        CREATE TABLE IF NOT EXISTS users (username VARCHAR(100) NOT NULL PRIMARY KEY)
        CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */",
    songs: "
        CREATE TABLE IF NOT EXISTS songs (name VARCHAR(100) NOT NULL PRIMARY KEY)
        CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */",
    playlists: "
        CREATE TABLE IF NOT EXISTS playlists (
            name  VARCHAR(100) NOT NULL PRIMARY KEY,
            owner VARCHAR(100) NOT NULL,
            KEY playlists_by_owner (owner)
        ) CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
        CREATE TABLE IF NOT EXISTS playlist_songs (
            playlist VARCHAR(100) NOT NULL,
            place    BIGINT NOT NULL,
            song     VARCHAR(100) NOT NULL,
            PRIMARY KEY (playlist, place),
            KEY playlist_songs_by_song (song),
            FOREIGN KEY (playlist) REFERENCES playlists (name) ON DELETE CASCADE
        ) CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;
        CREATE TABLE IF NOT EXISTS cleanings (event_id VARCHAR(64) NOT NULL PRIMARY KEY, n BIGINT NOT NULL)
        CHARACTER SET utf8mb4 /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */",
    put_playlist: "INSERT INTO playlists (name, owner) VALUES (?, ?) ON DUPLICATE KEY UPDATE owner = VALUES(owner)",
    count_cleaning: "INSERT INTO cleanings (event_id, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1",
    ..SQLITE
};

// A macro, because the drivers share no type that runs a statement with its values.
macro_rules! database {
    ($store:ty, $sql:expr) => {
        impl Database for $store {
            async fn make_tables(conn: &mut Self::Conn, service: Service) -> sqlx::Result<()> {
                for (part, tables) in
                    [(Service::Users, $sql.users), (Service::Songs, $sql.songs), (Service::Playlists, $sql.playlists)]
                {
                    if service.includes(part) {
                        sqlx::raw_sql(tables).execute(&mut *conn).await?;
                    }
                }
                Ok(())
            }

            async fn add_user(conn: &mut Self::Conn, username: &str) -> sqlx::Result<()> {
                sqlx::query($sql.add_user).bind(username).execute(conn).await?;
                Ok(())
            }

            async fn delete_user(conn: &mut Self::Conn, username: &str) -> sqlx::Result<bool> {
                Ok(sqlx::query($sql.delete_user).bind(username).execute(conn).await?.rows_affected() > 0)
            }

            async fn add_song(conn: &mut Self::Conn, name: &str) -> sqlx::Result<()> {
                sqlx::query($sql.add_song).bind(name).execute(conn).await?;
                Ok(())
            }

            async fn delete_song(conn: &mut Self::Conn, name: &str) -> sqlx::Result<bool> {
                Ok(sqlx::query($sql.delete_song).bind(name).execute(conn).await?.rows_affected() > 0)
            }

            async fn put_playlist(conn: &mut Self::Conn, name: &str, playlist: &Playlist) -> sqlx::Result<()> {
                // The row of the playlist first: its lock covers the songs.
                sqlx::query($sql.put_playlist).bind(name).bind(&playlist.owner).execute(&mut *conn).await?;
                sqlx::query($sql.clear_playlist).bind(name).execute(&mut *conn).await?;
                for (place, song) in (0_i64..).zip(&playlist.songs) {
                    let add = sqlx::query($sql.add_to_playlist).bind(name).bind(place).bind(song);
                    add.execute(&mut *conn).await?;
                }
                Ok(())
            }

            async fn find_playlist(conn: &mut Self::Conn, name: &str) -> sqlx::Result<Option<Playlist>> {
                let owner = sqlx::query_scalar($sql.find_owner).bind(name).fetch_optional(&mut *conn).await?;
                let Some(owner) = owner else {
                    return Ok(None);
                };
                let songs = sqlx::query_scalar($sql.find_songs).bind(name).fetch_all(conn).await?;
                Ok(Some(Playlist { owner, songs }))
            }

            async fn remove_playlists_of(conn: &mut Self::Conn, owner: &str) -> sqlx::Result<u64> {
                Ok(sqlx::query($sql.remove_playlists_of).bind(owner).execute(conn).await?.rows_affected())
            }

            async fn remove_song(conn: &mut Self::Conn, song: &str) -> sqlx::Result<u64> {
                Ok(sqlx::query($sql.remove_song).bind(song).execute(conn).await?.rows_affected())
            }

            async fn count_cleaning(conn: &mut Self::Conn, event_id: &str) -> sqlx::Result<()> {
                sqlx::query($sql.count_cleaning).bind(event_id).execute(conn).await?;
                Ok(())
            }
        }
    };
}

database!(SqliteStore, SQLITE);
database!(PostgresStore, POSTGRES);
database!(MySqlStore, MYSQL);
