//! The songs service: adds songs, and publishes their deletions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Serialize;

use crate::database::Database;
use crate::events::SongDeleted;
use crate::http::{App, Name, Problem};

pub(crate) fn routes<S: Database>() -> Router<App<S>> {
    Router::new().route("/songs/{songName}", post(add::<S>).delete(delete::<S>))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Song {
    song_name: String,
    /// The id of the deletion event, for tracing.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
}

async fn add<S: Database>(
    State(app): State<App<S>>,
    Name(song_name): Name,
) -> Result<(StatusCode, Json<Song>), Problem> {
    let mut tx = app.store.begin().await?;
    S::add_song(&mut tx, &song_name).await.map_err(|e| Problem::taken(e, "song", &song_name))?;
    app.store.commit(tx).await?;
    Ok((StatusCode::CREATED, Json(Song { song_name, event_id: None })))
}

/// Deletes the row and enqueues the event in one transaction.
async fn delete<S: Database>(State(app): State<App<S>>, Name(song_name): Name) -> Result<Json<Song>, Problem> {
    let mut tx = app.store.begin().await?;
    if !S::delete_song(&mut tx, &song_name).await? {
        return Err(Problem::not_found("song", &song_name));
    }
    let deleted = SongDeleted::now(&song_name);
    app.outbox.enqueue(&mut tx, deleted.draft()?).await?;
    app.store.commit(tx).await?;
    Ok(Json(Song { song_name, event_id: Some(deleted.event_id) }))
}
