//! The events of the services, which are the whole contract between them. The payload repeats the event's id and time,
//! so that a reader that only gets the payload can detect a duplicate.

use postrider::{Aggregate, Draft, Event};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

/// A user was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserDeleted {
    /// One id per deletion: a user who is created and deleted again gets another event.
    pub event_id: String,
    /// The time of the deletion.
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
    /// The user.
    pub username: String,
}

impl UserDeleted {
    /// A deletion that happens now.
    pub fn now(username: impl Into<String>) -> Self {
        Self { event_id: new_id(), occurred_at: OffsetDateTime::now_utc(), username: username.into() }
    }

    /// The draft for the outbox, with the time of the payload.
    pub(crate) fn draft(&self) -> postrider::Result<Draft> {
        Ok(Draft::of(self)?.occurred_at(self.occurred_at))
    }
}

impl Event for UserDeleted {
    const TOPIC: &'static str = "user.deleted";

    fn aggregate(&self) -> Option<Aggregate> {
        Some(Aggregate::new("USER", &self.username))
    }

    fn event_id(&self) -> Option<String> {
        Some(self.event_id.clone())
    }
}

/// A song was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SongDeleted {
    /// One id per deletion.
    pub event_id: String,
    /// The time of the deletion.
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
    /// The song.
    pub song_name: String,
}

impl SongDeleted {
    /// A deletion that happens now.
    pub fn now(song_name: impl Into<String>) -> Self {
        Self { event_id: new_id(), occurred_at: OffsetDateTime::now_utc(), song_name: song_name.into() }
    }

    /// The draft for the outbox, with the time of the payload.
    pub(crate) fn draft(&self) -> postrider::Result<Draft> {
        Ok(Draft::of(self)?.occurred_at(self.occurred_at))
    }
}

impl Event for SongDeleted {
    const TOPIC: &'static str = "song.deleted";

    fn aggregate(&self) -> Option<Aggregate> {
        Some(Aggregate::new("SONG", &self.song_name))
    }

    fn event_id(&self) -> Option<String> {
        Some(self.event_id.clone())
    }
}

fn new_id() -> String {
    Uuid::now_v7().to_string()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    /// E.3
    #[test]
    fn a_payload_has_the_fields_that_readers_elsewhere_rely_on() {
        let (event_id, occurred_at) = ("7".to_owned(), datetime!(2026-01-02 03:04:05 UTC));
        let user = UserDeleted { event_id: event_id.clone(), occurred_at, username: "ada".into() };
        let song = SongDeleted { event_id, occurred_at, song_name: "So What".into() };
        assert_eq!(
            serde_json::to_value(user).expect("JSON"),
            serde_json::json!({"eventId": "7", "occurredAt": "2026-01-02T03:04:05Z", "username": "ada"})
        );
        assert_eq!(
            serde_json::to_value(song).expect("JSON"),
            serde_json::json!({"eventId": "7", "occurredAt": "2026-01-02T03:04:05Z", "songName": "So What"})
        );
    }
}
