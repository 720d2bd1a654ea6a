//! Who holds a request open: streams and long polls, by the token that they were opened with. They end when the token is revoked
//! or expires, and one token cannot take every stream.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::App;

/// How often tokens are looked up: another instance, or the command line, may have revoked one.
const LOOK: Duration = Duration::from_secs(1);
/// Streams of one token: the pages of the people who share it.
pub(crate) const STREAMS_PER_TOKEN: usize = 20;

/// The open requests of each token.
#[derive(Default)]
pub(crate) struct Holders(Arc<Mutex<HashMap<String, Open>>>);

#[derive(Default)]
struct Open {
    requests: usize,
    streams: usize,
    end: CancellationToken,
}

/// One open request. Dropping it gives its place back.
pub(crate) struct Place {
    holders: Arc<Mutex<HashMap<String, Open>>>,
    token_id: String,
    is_stream: bool,
    end: CancellationToken,
}

impl Holders {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a long poll.
    pub(crate) fn poll(&self, token_id: &str) -> Place {
        self.enter(self.open().entry(token_id.into()).or_default(), token_id, false)
    }

    /// Opens a stream. Returns `None` if the token has too many.
    pub(crate) fn stream(&self, token_id: &str) -> Option<Place> {
        let mut all = self.open();
        let open = all.entry(token_id.into()).or_default();
        (open.streams < STREAMS_PER_TOKEN).then(|| self.enter(open, token_id, true))
    }

    fn enter(&self, open: &mut Open, token_id: &str, is_stream: bool) -> Place {
        open.requests += 1;
        open.streams += usize::from(is_stream);
        Place { holders: Arc::clone(&self.0), token_id: token_id.into(), is_stream, end: open.end.clone() }
    }

    /// Ends everything that a token holds open.
    pub(crate) fn end(&self, token_id: &str) {
        // What is opened with the same id from now on is not ended: its token was found after this.
        if let Some(open) = self.open().get_mut(token_id) {
            std::mem::take(&mut open.end).cancel();
        }
    }
}

impl Place {
    /// Ready when the token is revoked or has expired.
    pub(crate) fn ended(&self) -> WaitForCancellationFutureOwned {
        self.end.clone().cancelled_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.get_mut(&self.token_id) {
            open.requests -= 1;
            open.streams -= usize::from(self.is_stream);
            if open.requests == 0 {
                all.remove(&self.token_id);
            }
        }
    }
}

/// Ends what revoked and expired tokens hold open, until the server stops.
pub(crate) async fn watch(app: App) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let held: Vec<String> = app.holders.open().keys().cloned().collect();
        if held.is_empty() {
            continue;
        }
        match live(&app).await {
            Ok(live) => held.iter().filter(|id| !live.contains(*id)).for_each(|id| app.holders.end(id)),
            Err(error) => tracing::warn!(%error, "open streams of revoked tokens go on: the store is away"),
        }
    }
}

/// The ids of all tokens that work.
async fn live(app: &App) -> postrider::Result<HashSet<String>> {
    let (tokens, now) = (app.store.tokens().await?, app.store.now().await?);
    Ok(tokens.into_iter().filter(|token| token.is_live(now)).map(|token| token.token_id).collect())
}
