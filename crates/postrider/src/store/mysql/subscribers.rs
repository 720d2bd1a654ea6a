//! Subscribers of topics, read by a plain `SELECT` and matched here. Inside the statement that writes deliveries,
//! MySQL would lock the subscriptions until the producer commits, and a change of a subscription would wait for every
//! producer.

use std::collections::BTreeSet;

use serde::Serialize;
use sqlx::mysql::MySqlConnection;

use crate::subscription::{EVERY_TOPIC, RABBITMQ};

/// Enabled subscriptions, as of a moment ago.
pub(super) struct Subscribers(Vec<(String, String, String)>);

impl Subscribers {
    /// Those of one topic.
    pub(super) async fn of(conn: &mut MySqlConnection, topic: &str) -> sqlx::Result<Self> {
        sqlx::query_as(sql!("events/subscribers")).bind(topic).fetch_all(conn).await.map(Self)
    }

    /// All of them.
    pub(super) async fn all(conn: &mut MySqlConnection) -> sqlx::Result<Self> {
        sqlx::query_as(sql!("events/all_subscribers")).fetch_all(conn).await.map(Self)
    }

    fn to<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let to = self.0.iter().filter(move |(subscribed, ..)| subscribed == topic || subscribed == EVERY_TOPIC);
        to.map(|(_, consumer, via)| (consumer.as_str(), via.as_str()))
    }

    /// Whether a topic has a subscriber.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.to(topic).next().is_some()
    }

    /// Adds the deliveries of an event, one per lane, and the remote consumers that are expected to report. A
    /// consumer may subscribe to both this topic and `*`, and all consumers behind the broker share its lane.
    pub(super) fn route<'a>(&'a self, seq: i64, topic: &'a str, shard: u8, routes: &mut Routes<'a>) {
        let lanes = self.to(topic).filter(|(_, via)| *via != "external");
        let lanes: BTreeSet<_> =
            lanes.map(|(consumer, via)| if via == RABBITMQ { RABBITMQ } else { consumer }).collect();
        routes.deliveries.extend(lanes.into_iter().map(|lane| NewDelivery { seq, lane, shard }));
        let remote = self.to(topic).filter(|(_, via)| matches!(*via, "rabbitmq" | "external"));
        let remote: BTreeSet<_> = remote.map(|(consumer, _)| consumer).filter(|name| *name != RABBITMQ).collect();
        routes.expected.extend(remote.into_iter().map(|consumer| Expected { seq, consumer }));
    }

    /// Topics with a subscriber by name, and whether there is a subscriber to `*`.
    pub(super) fn topics(&self) -> (BTreeSet<&str>, bool) {
        let mut topics: BTreeSet<_> = self.0.iter().map(|(topic, ..)| topic.as_str()).collect();
        let every = topics.remove(EVERY_TOPIC);
        (topics, every)
    }
}

/// The rows to write for events: the parameters of `deliver_many.sql` and `expect.sql`.
#[derive(Default)]
pub(super) struct Routes<'a> {
    pub(super) deliveries: Vec<NewDelivery<'a>>,
    pub(super) expected: Vec<Expected<'a>>,
}

#[derive(Serialize)]
pub(super) struct NewDelivery<'a> {
    pub(super) seq: i64,
    pub(super) lane: &'a str,
    pub(super) shard: u8,
}

#[derive(Serialize)]
pub(super) struct Expected<'a> {
    seq: i64,
    consumer: &'a str,
}
