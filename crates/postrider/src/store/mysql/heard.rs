//! Who hears what. Read by a plain `SELECT` and decided here: read inside the statement that writes deliveries, MySQL would
//! lock the subscriptions until the producer commits, and whoever changes one would wait for every producer.

use std::collections::BTreeSet;

use sqlx::mysql::MySqlConnection;

use crate::subscription::{EVERY_TOPIC, RABBITMQ};

/// Enabled subscriptions, as they were a moment ago.
pub(super) struct Heard(Vec<(String, String, String)>);

impl Heard {
    /// Those of one topic.
    pub(super) async fn of(conn: &mut MySqlConnection, topic: &str) -> sqlx::Result<Self> {
        sqlx::query_as(sql!("heard")).bind(topic).fetch_all(conn).await.map(Self)
    }

    /// All of them.
    pub(super) async fn all(conn: &mut MySqlConnection) -> sqlx::Result<Self> {
        sqlx::query_as(sql!("heard_all")).fetch_all(conn).await.map(Self)
    }

    fn to<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let to = self.0.iter().filter(move |(heard, ..)| heard == topic || heard == EVERY_TOPIC);
        to.map(|(_, consumer, via)| (consumer.as_str(), via.as_str()))
    }

    /// Whether anybody hears a topic.
    pub(super) fn is_heard(&self, topic: &str) -> bool {
        self.to(topic).next().is_some()
    }

    /// The lanes that get a delivery. A consumer may hear both this topic and every topic, and all consumers of the
    /// broker share its lane.
    pub(super) fn lanes<'a>(&'a self, topic: &'a str) -> BTreeSet<&'a str> {
        let lanes = self.to(topic).filter(|(_, via)| *via != "external");
        lanes.map(|(consumer, via)| if via == RABBITMQ { RABBITMQ } else { consumer }).collect()
    }

    /// The consumers that report from elsewhere.
    pub(super) fn remote<'a>(&'a self, topic: &'a str) -> BTreeSet<&'a str> {
        let remote =
            self.to(topic).filter(|(consumer, via)| matches!(*via, "rabbitmq" | "external") && *consumer != RABBITMQ);
        remote.map(|(consumer, _)| consumer).collect()
    }

    /// Topics that somebody hears by name, and whether somebody hears them all.
    pub(super) fn topics(&self) -> (BTreeSet<&str>, bool) {
        let mut topics: BTreeSet<_> = self.0.iter().map(|(topic, ..)| topic.as_str()).collect();
        let every = topics.remove(EVERY_TOPIC);
        (topics, every)
    }
}
