//! What the playlists service does when it hears of a deletion. Each consumer gets a transaction that also remembers the
//! event: however often that arrives, there is one cleaning. Nothing here has to think of duplicates.

use postrider::{Consumer, Failure, Inbox, Received, Store};

use crate::database::Database;
use crate::events::{SongDeleted, UserDeleted};

/// The consumers of this service; they share one lane, which on a broker is one queue.
pub(crate) fn consumers<S: Database>(inbox: Inbox<S>) -> Inbox<S> {
    inbox.consumer(AfterUser).consumer(AfterSong)
}

/// Whether these consumers hear events from their own store, as they do in one process without a broker. Where one is
/// configured later, events go both ways from then on, so both have to be served; the inbox makes one cleaning of two.
pub(crate) async fn is_heard_in(store: &impl Store) -> postrider::Result<bool> {
    let subscriptions = store.subscriptions(None).await?;
    Ok(subscriptions.iter().any(|stored| stored.subscription.consumer == NAME))
}

const NAME: &str = "playlists";

/// Removes what a deleted user owned.
struct AfterUser;

impl<S: Database> Consumer<S> for AfterUser {
    const NAME: &'static str = NAME;
    type Event = UserDeleted;

    async fn handle(&self, tx: &mut S::Conn, deleted: Received<UserDeleted>) -> Result<(), Failure> {
        let playlists = S::remove_playlists_of(tx, &deleted.username).await?;
        S::count_cleaning(tx, &deleted.event_id).await?;
        tracing::info!(playlists, "Removing the playlists of a deleted user");
        Ok(())
    }
}

/// Takes a deleted song out of all playlists.
struct AfterSong;

impl<S: Database> Consumer<S> for AfterSong {
    const NAME: &'static str = NAME;
    type Event = SongDeleted;

    async fn handle(&self, tx: &mut S::Conn, deleted: Received<SongDeleted>) -> Result<(), Failure> {
        let places = S::remove_song(tx, &deleted.song_name).await?;
        S::count_cleaning(tx, &deleted.event_id).await?;
        tracing::info!(places, "Removing a deleted song from playlists");
        Ok(())
    }
}
