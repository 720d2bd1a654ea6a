//! The routes of the playlists service. Owners and songs are in other services' databases: names are not checked, and
//! deletions arrive as events (`cleaning.rs`).

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::routing::put;
use axum::{Json, Router};
use postrider::store::Transactions as _;
use serde::{Deserialize, Serialize};

use crate::database::{Database, Playlist};
use crate::http::{App, Name, Problem, check_name};

/// The limit of songs per playlist, which is written and read as a whole.
const SONGS: usize = 500;

pub(crate) fn routes<S: Database>() -> Router<App<S>> {
    Router::new().route("/playlists/{name}", put(replace::<S>).get(show::<S>))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    owner: String,
    songs: Vec<String>,
}

#[derive(Serialize)]
struct Shown {
    name: String,
    owner: String,
    songs: Vec<String>,
}

impl Wanted {
    fn check(self) -> Result<Playlist, Problem> {
        check_name("owner", &self.owner)?;
        if self.songs.len() > SONGS {
            return Err(Problem::field("songs", format!("may be {SONGS} at most, are {}", self.songs.len())));
        }
        for (place, song) in self.songs.iter().enumerate() {
            check_name(&format!("songs[{place}]"), song)?;
        }
        Ok(Playlist { owner: self.owner, songs: self.songs })
    }
}

impl Shown {
    fn new(name: String, Playlist { owner, songs }: Playlist) -> Json<Self> {
        Json(Self { name, owner, songs })
    }
}

async fn replace<S: Database>(
    State(app): State<App<S>>,
    Name(name): Name,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<(StatusCode, Json<Shown>), Problem> {
    let Json(wanted) = wanted?;
    let playlist = wanted.check()?;
    let (path, new) = (&name, &playlist);
    let put = |mut tx: S::Tx| async move {
        let known = S::find_playlist(&mut tx, path).await?.is_some();
        S::put_playlist(&mut tx, path, new).await?;
        Ok::<_, Problem>((tx, known))
    };
    let known = app.store.transaction(put).await?;
    let status = if known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Shown::new(name, playlist)))
}

async fn show<S: Database>(State(app): State<App<S>>, Name(name): Name) -> Result<Json<Shown>, Problem> {
    let mut tx = app.store.begin().await?;
    match S::find_playlist(&mut tx, &name).await? {
        Some(playlist) => Ok(Shown::new(name, playlist)),
        None => Err(Problem::not_found("playlist", &name)),
    }
}
