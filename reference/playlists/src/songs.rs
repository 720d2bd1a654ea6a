//! The songs service: adds songs, and publishes their deletions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use postrider::store::Transactions as _;
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
    let name = &song_name;
    let add = |mut tx: S::Tx| async move {
        S::add_song(&mut tx, name).await.map_err(|e| Problem::taken(e, "song", name))?;
        Ok::<_, Problem>((tx, ()))
    };
    app.store.transaction(add).await?;
    Ok((StatusCode::CREATED, Json(Song { song_name, event_id: None })))
}

/// Deletes the row and enqueues the event in one transaction.
async fn delete<S: Database>(State(app): State<App<S>>, Name(song_name): Name) -> Result<Json<Song>, Problem> {
    let (name, outbox) = (&song_name, &app.outbox);
    let delete = |mut tx: S::Tx| async move {
        if !S::delete_song(&mut tx, name).await? {
            return Err(Problem::not_found("song", name));
        }
        let deleted = SongDeleted::now(name);
        outbox.enqueue(&mut tx, deleted.draft()?).await?;
        Ok((tx, deleted))
    };
    let deleted = app.store.transaction(delete).await?;
    Ok(Json(Song { song_name, event_id: Some(deleted.event_id) }))
}
