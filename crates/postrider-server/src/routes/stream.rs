//! The stream of changes, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::broadcast::error::RecvError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::auth::Caller;
use crate::holders::STREAMS_PER_TOKEN;
use crate::problem::Problem;

/// Open streams per server, as each holds a connection.
const STREAMS: usize = 200;
/// How long one stream lasts. A browser reconnects by itself, and its session is checked again.
const LASTS: Duration = Duration::from_secs(10 * 60);
/// The keep-alive interval of a silent stream: shorter than the idle timeout of proxies.
const ALIVE: Duration = Duration::from_secs(15);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(follow))
}

/// What happens, as server-sent events
///
/// `event`: a new event (a summary). `status`: an event stands elsewhere (a summary). `consumer`: what waits for a consumer has
/// changed. `operation`: a bulk operation came further. `stats`: the figures of the last minutes, every second. A stream ends
/// after ten minutes; a reader that connects again asks for what it has missed.
#[utoipa::path(get, path = "/api/v1/stream", tag = "operations",
    responses((status = 200, description = "Server-sent events, until one side ends it.", body = String, content_type = "text/event-stream")))]
async fn follow(
    State(app): State<App>,
    caller: Caller,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, Problem> {
    if app.live.receiver_count() >= STREAMS {
        let detail = format!("{STREAMS} streams are open: close one, or ask for /stats now and then");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "tooManyStreams", detail));
    }
    let Some(place) = app.holders.stream(&caller.token_id) else {
        let detail = format!("this token has {STREAMS_PER_TOKEN} streams open: close one, or use another token");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "tooManyStreams", detail));
    };
    let receiver = app.live.subscribe();
    app.look.notify_one();
    let revoked = place.ended();
    // The stream owns the place, which is free again when the stream ends.
    let messages = stream::unfold((receiver, place, caller.scope), async |(mut receiver, place, scope)| {
        loop {
            match receiver.recv().await {
                Ok(message) => {
                    if let Some(json) = message.within(&scope) {
                        return Some((Ok(Event::default().event(message.kind).data(&*json)), (receiver, place, scope)));
                    }
                }
                // A slow reader misses messages; the next figures are complete again.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    let stop = app.stop.clone();
    let end = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = revoked => {}
            () = tokio::time::sleep(LASTS) => {}
        }
    };
    let messages = Box::pin(messages).take_until(Box::pin(end));
    Ok(Sse::new(messages).keep_alive(KeepAlive::new().interval(ALIVE)))
}
