//! What a token reaches: which consumers, topics and tenants. What lies outside does not exist for it.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits;
use crate::status::Record;
use crate::subscription::{EVERY_TOPIC, Subscription};

/// Names in one list: enough for every consumer of a service, and short enough to compare for each event.
const NAMES: usize = 100;
/// A topic that ends so stands for all topics that begin like it.
const ANY_BELOW: &str = ".*";

/// Consumers, topics and tenants. An empty list is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Scope {
    /// Names of consumers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<String>,
    /// Topics. `order.*` is every topic that begins with `order.`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Tenants. Events without a tenant are outside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
}

impl Scope {
    /// Whether nothing lies outside.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Checks names and limits.
    pub fn check(&self) -> Result<()> {
        for (field, names) in [("consumers", &self.consumers), ("topics", &self.topics), ("tenants", &self.tenants)] {
            if names.len() > NAMES {
                return Err(Error::invalid(field, format!("may be {NAMES} at most, are {}", names.len())));
            }
        }
        self.consumers.iter().try_for_each(|name| limits::name("consumers", name))?;
        let exact = |topic: &str| limits::name("topics", topic.strip_suffix(ANY_BELOW).unwrap_or(topic));
        self.topics.iter().try_for_each(|topic| exact(topic))?;
        self.tenants.iter().try_for_each(|tenant| limits::text("tenants", tenant, limits::LABEL_CHARS))
    }

    /// Whether a consumer is inside.
    pub fn has_consumer(&self, consumer: &str) -> bool {
        is_in(&self.consumers, consumer)
    }

    /// Whether a topic is inside.
    pub fn has_topic(&self, topic: &str) -> bool {
        self.topics.is_empty() || self.topics.iter().any(|one| covers(one, topic))
    }

    /// Whether a tenant is inside.
    pub fn has_tenant(&self, tenant: Option<&str>) -> bool {
        self.tenants.is_empty() || tenant.is_some_and(|tenant| is_in(&self.tenants, tenant))
    }

    /// Whether an event is inside: its topic, its tenant, and one of its expected consumers.
    pub fn has_event(&self, record: &Record) -> bool {
        self.has_topic(&record.envelope.topic)
            && self.has_tenant(record.envelope.tenant_id.as_deref())
            && (self.consumers.is_empty() || record.consumers().into_keys().any(|one| self.has_consumer(one)))
    }

    /// Whether an event of this topic and tenant may be published. An event belongs to all of its consumers, so a scope of
    /// consumers publishes nothing.
    pub fn may_publish(&self, topic: &str, tenant: Option<&str>) -> bool {
        self.consumers.is_empty() && self.has_topic(topic) && self.has_tenant(tenant)
    }

    /// Whether a subscription is seen: its consumer is inside, and it delivers events of a topic that is.
    pub fn has_subscription(&self, subscription: &Subscription) -> bool {
        let topic = &subscription.topic;
        self.has_consumer(&subscription.consumer) && (topic == EVERY_TOPIC || self.has_topic(topic))
    }

    /// Whether everything that a consumer with these topics gets is inside. Its lane has the events of all tenants.
    pub fn owns_consumer<'a>(&self, consumer: &str, topics: impl IntoIterator<Item = &'a str>) -> bool {
        let owns_topic = |topic: &str| self.topics.is_empty() || (topic != EVERY_TOPIC && self.has_topic(topic));
        self.has_consumer(consumer) && self.tenants.is_empty() && topics.into_iter().all(owns_topic)
    }

    /// Whether everything inside `other` is inside this scope.
    pub fn contains(&self, other: &Self) -> bool {
        let within = |outer: &[String], inner: &[String], covers: fn(&str, &str) -> bool| {
            let is_covered = |one: &String| outer.iter().any(|outer| covers(outer, one));
            outer.is_empty() || (!inner.is_empty() && inner.iter().all(is_covered))
        };
        within(&self.consumers, &other.consumers, |outer, inner| outer == inner)
            && within(&self.topics, &other.topics, covers)
            && within(&self.tenants, &other.tenants, |outer, inner| outer == inner)
    }

    /// Leaves of an event only what happened to consumers inside.
    pub fn cut(&self, record: &mut Record) {
        if !self.consumers.is_empty() {
            record.consumptions.retain(|one| self.has_consumer(&one.consumer));
            record.deliveries.retain(|one| one.consumer().is_some_and(|consumer| self.has_consumer(consumer)));
        }
    }

    /// The only consumer, if there is one.
    pub fn only_consumer(&self) -> Option<&str> {
        only(&self.consumers)
    }

    /// The only topic, if there is one and it is exact.
    pub(crate) fn only_topic(&self) -> Option<&str> {
        only(&self.topics).filter(|topic| !topic.ends_with(ANY_BELOW))
    }

    /// The only tenant, if there is one.
    pub fn only_tenant(&self) -> Option<&str> {
        only(&self.tenants)
    }
}

fn only(names: &[String]) -> Option<&str> {
    match names {
        [one] => Some(one),
        _ => None,
    }
}

fn is_in(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|one| one == name)
}

/// Whether a topic, or a pattern of topics, is covered by another.
fn covers(outer: &str, inner: &str) -> bool {
    match outer.strip_suffix('*') {
        // `order.*` covers `order.paid` and `order.eu.*`: both begin with `order.`.
        Some(beginning) if outer.ends_with(ANY_BELOW) => inner.starts_with(beginning),
        _ => outer == inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(topics: &[&str]) -> Scope {
        Scope { topics: topics.iter().map(ToString::to_string).collect(), ..Scope::default() }
    }

    /// S5 G.14: a topic is exact, or begins like a pattern.
    #[test]
    fn a_pattern_covers_what_is_below_it() {
        let scope = topics(&["order.*", "user.created"]);
        for inside in ["order.paid", "order.eu.paid", "user.created"] {
            assert!(scope.has_topic(inside), "{inside}");
        }
        for outside in ["order", "orders.paid", "user.created.twice", "user", "Order.paid", "*", ""] {
            assert!(!scope.has_topic(outside), "{outside}");
        }
        assert!(scope.contains(&topics(&["order.eu.*", "order.paid"])));
        assert!(!scope.contains(&topics(&["order.paid", "user.*"])));
        assert!(!scope.contains(&Scope::default()), "everything is more");
        assert!(Scope::default().contains(&scope));
    }

    /// S5: an event without a tenant belongs to none.
    #[test]
    fn an_event_without_a_tenant_is_outside_of_every_tenant() {
        let scope = Scope { tenants: vec!["7".into()], ..Scope::default() };
        assert!(scope.may_publish("order.paid", Some("7")));
        assert!(!scope.may_publish("order.paid", Some("8")));
        assert!(!scope.may_publish("order.paid", None));
        assert!(!scope.owns_consumer("points", ["order.paid"]), "its lane has the events of all tenants");
    }

    #[test]
    fn names_in_a_scope_are_checked() {
        for wrong in ["*", ".*", "order*", "a b", "", "order.*.*"] {
            assert!(topics(&[wrong]).check().is_err(), "{wrong:?}");
        }
        assert!(topics(&["order.*", "order.paid"]).check().is_ok());
        let many = Scope { tenants: vec!["7".into(); NAMES + 1], ..Scope::default() };
        assert!(many.check().is_err());
    }
}
