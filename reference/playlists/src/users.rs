//! The users service: adds users, and publishes their deletions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use postrider::store::Transactions as _;
use serde::Serialize;

use crate::database::Database;
use crate::events::UserDeleted;
use crate::http::{App, Name, Problem};

pub(crate) fn routes<S: Database>() -> Router<App<S>> {
    Router::new().route("/users/{username}", post(add::<S>).delete(delete::<S>))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User {
    username: String,
    /// The id of the deletion event, for tracing.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
}

async fn add<S: Database>(
    State(app): State<App<S>>,
    Name(username): Name,
) -> Result<(StatusCode, Json<User>), Problem> {
    let name = &username;
    let add = |mut tx: S::Tx| async move {
        S::add_user(&mut tx, name).await.map_err(|e| Problem::taken(e, "user", name))?;
        Ok::<_, Problem>((tx, ()))
    };
    app.store.transaction(add).await?;
    Ok((StatusCode::CREATED, Json(User { username, event_id: None })))
}

/// Deletes the row and enqueues the event in one transaction.
async fn delete<S: Database>(State(app): State<App<S>>, Name(username): Name) -> Result<Json<User>, Problem> {
    let (name, outbox) = (&username, &app.outbox);
    let delete = |mut tx: S::Tx| async move {
        if !S::delete_user(&mut tx, name).await? {
            return Err(Problem::not_found("user", name));
        }
        let deleted = UserDeleted::now(name);
        outbox.enqueue(&mut tx, deleted.draft()?).await?;
        Ok((tx, deleted))
    };
    let deleted = app.store.transaction(delete).await?;
    Ok(Json(User { username, event_id: Some(deleted.event_id) }))
}
