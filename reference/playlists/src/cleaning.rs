//! The consumers of the playlists service. Each runs in a transaction that also writes the inbox row of the event, so a
//! repeated event has no second effect. The consumers need no check for duplicates.

use postrider::{Consumer, Failure, Inbox, Received, Store};

use crate::database::Database;
use crate::events::{SongDeleted, UserDeleted};

/// Adds the consumers of this service. They share one lane, which is one queue on a broker.
pub(crate) fn consumers<S: Database>(inbox: Inbox<S>) -> Inbox<S> {
    inbox.consumer(AfterUser).consumer(AfterSong)
}

/// Whether these consumers are subscribed in their own store, as they are without a broker. If a broker is configured
/// later, events are delivered both ways, and both must be served. The inbox removes the duplicates.
pub(crate) async fn is_subscribed_in(store: &impl Store) -> postrider::Result<bool> {
    let subscriptions = store.subscriptions(None).await?;
    Ok(subscriptions.iter().any(|stored| stored.subscription.consumer == NAME))
}

const NAME: &str = "playlists";

/// Removes the playlists of a deleted user.
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

/// Removes a deleted song from all playlists.
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
