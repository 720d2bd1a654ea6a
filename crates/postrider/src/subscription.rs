//! Subscriptions: which consumer receives which topic. They change at run time, and a change applies to events
//! written after it.

use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::limits;
use crate::shard;

/// The topic of a subscription to everything. There are no other patterns.
pub const EVERY_TOPIC: &str = "*";
/// The lane, and the reserved consumer, of the RabbitMQ transport.
pub const RABBITMQ: &str = "rabbitmq";

/// The subscription of one consumer to one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// A topic, or [`EVERY_TOPIC`].
    pub topic: String,
    /// The consumer.
    pub consumer: String,
    /// Whether events are delivered.
    pub enabled: bool,
    /// The sort order in lists.
    pub sort_order: i32,
    /// A description, for people.
    pub description: Option<String>,
    /// How events reach the consumer.
    pub via: Via,
    /// The URL of a webhook.
    pub endpoint: Option<String>,
    /// The broker's exchange, if it is not the default one.
    pub exchange: Option<String>,
    /// The broker's routing key, if it is not the topic.
    pub routing_key: Option<String>,
    /// Maximum deliveries per second on each instance. The lane is the consumer's, so the smallest of its subscriptions
    /// counts.
    pub rate_per_second: Option<u32>,
    /// How many seconds one try may take, if not as long as the lane allows.
    pub timeout_seconds: Option<u32>,
    /// How often a delivery is tried, unless its event says so.
    pub max_attempts: Option<u32>,
}

/// How events reach a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Via {
    /// A consumer in code, called by a relay.
    Local,
    /// The consumer claims its events over the API.
    Pull,
    /// The consumer is called over HTTP.
    Webhook,
    /// The consumer reads a queue of the broker.
    RabbitMq,
    /// The consumer gets events by other means, and reports.
    External,
}

impl Via {
    /// Its name in SQL, API and console.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Pull => "pull",
            Self::Webhook => "webhook",
            Self::RabbitMq => "rabbitmq",
            Self::External => "external",
        }
    }

    /// Whether the consumer has its own lane. The others are reached through the broker, or not by this store.
    pub fn has_own_lane(self) -> bool {
        matches!(self, Self::Local | Self::Pull | Self::Webhook)
    }
}

impl std::str::FromStr for Via {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Local, Self::Pull, Self::Webhook, Self::RabbitMq, Self::External]
            .into_iter()
            .find(|via| via.as_str() == text)
            .ok_or_else(|| {
                Error::invalid("via", format!("must be local, pull, webhook, rabbitmq or external, is {text:?}"))
            })
    }
}

impl Subscription {
    /// An enabled subscription without options.
    pub fn new(topic: impl Into<String>, consumer: impl Into<String>, via: Via) -> Self {
        Self {
            topic: topic.into(),
            consumer: consumer.into(),
            enabled: true,
            sort_order: 0,
            description: None,
            via,
            endpoint: None,
            exchange: None,
            routing_key: None,
            rate_per_second: None,
            timeout_seconds: None,
            max_attempts: None,
        }
    }

    /// Checks names and limits.
    pub fn check(&self) -> Result<()> {
        if self.topic != EVERY_TOPIC {
            limits::name("topic", &self.topic)?;
        }
        match (self.consumer == RABBITMQ, self.via) {
            (true, Via::RabbitMq) => {}
            (true, _) => {
                return Err(Error::invalid("consumer", "`rabbitmq` is reserved for the broker".into()));
            }
            (false, _) => limits::consumer(&self.consumer)?,
        }
        if self.via == Via::Webhook && self.endpoint.is_none() {
            return Err(Error::invalid("endpoint", "is needed for a webhook".into()));
        }
        for (field, text) in [("description", &self.description), ("endpoint", &self.endpoint)] {
            if let Some(text) = text {
                limits::bytes(field, text, limits::METADATA_BYTES)?;
            }
        }
        for (field, text) in [("exchange", &self.exchange), ("routingKey", &self.routing_key)] {
            if let Some(text) = text {
                limits::bytes(field, text, limits::ROUTE_BYTES)?;
            }
        }
        self.check_limits()
    }

    /// A limit is refused where no part of Postrider could obey it.
    fn check_limits(&self) -> Result<()> {
        let own_lane = self.via.has_own_lane();
        for (field, value, most, obeyed, instead) in [
            ("ratePerSecond", self.rate_per_second, limits::RATE_PER_SECOND_CEILING, own_lane, "limit it there"),
            ("maxAttempts", self.max_attempts, limits::MAX_ATTEMPTS_CEILING, own_lane, "limit them there"),
            (
                "timeoutSeconds",
                self.timeout_seconds,
                limits::TIMEOUT_SECONDS_CEILING,
                matches!(self.via, Via::Local | Via::Webhook),
                "a consumer via `pull` asks for `leaseSeconds` with each claim",
            ),
        ] {
            let Some(value) = value else { continue };
            if !obeyed {
                let via = self.via.as_str();
                let message = format!("cannot be kept for a consumer via `{via}`, which works elsewhere: {instead}");
                return Err(Error::invalid(field, message));
            }
            if !(1..=most).contains(&value) {
                return Err(Error::invalid(field, format!("must be 1 to {most}, is {value}")));
            }
        }
        Ok(())
    }

    /// What identifies its present content: another version means that something was changed.
    pub fn version(&self) -> String {
        let text = |text: &Option<String>| text.as_ref().map_or_else(|| "-".into(), |text| format!("+{text}"));
        let number = |number: Option<u32>| number.map_or_else(|| "-".into(), |number| number.to_string());
        let fields = [
            self.topic.clone(),
            self.consumer.clone(),
            self.enabled.to_string(),
            self.sort_order.to_string(),
            text(&self.description),
            self.via.as_str().into(),
            text(&self.endpoint),
            text(&self.exchange),
            text(&self.routing_key),
            number(self.rate_per_second),
            number(self.timeout_seconds),
            number(self.max_attempts),
        ];
        format!("{:016x}", shard::hash(&fields.each_ref().map(String::as_str)))
    }

    /// The same subscription by another `via`, without the limits that are not kept there.
    pub(crate) fn by(&self, via: Via, endpoint: Option<String>) -> Self {
        let kept = |limit: Option<u32>| limit.filter(|_| via.has_own_lane());
        Self {
            via,
            endpoint,
            rate_per_second: kept(self.rate_per_second),
            max_attempts: kept(self.max_attempts),
            timeout_seconds: self.timeout_seconds.filter(|_| matches!(via, Via::Local | Via::Webhook)),
            ..self.clone()
        }
    }

    /// The lane of its deliveries. Returns `None` if no lane of this store delivers to it.
    pub fn lane(&self) -> Option<&str> {
        match self.via {
            Via::External => None,
            Via::RabbitMq => Some(RABBITMQ),
            Via::Local | Via::Pull | Via::Webhook => Some(&self.consumer),
        }
    }

    /// Whether its consumer is remote and expected to report, so that attempt 0 is appended. The broker itself is not
    /// a consumer.
    pub fn is_expected_remotely(&self) -> bool {
        !self.via.has_own_lane() && self.consumer != RABBITMQ
    }

    /// Whether it applies to `topic`.
    pub fn hears(&self, topic: &str) -> bool {
        self.enabled && (self.topic == topic || self.topic == EVERY_TOPIC)
    }
}

/// A stored subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSubscription {
    /// The subscription.
    pub subscription: Subscription,
    /// Removed by an operator: kept so that a restart of the consumer does not bring it back.
    pub removed: bool,
    /// When it was first written.
    pub created_at: OffsetDateTime,
    /// When it was last changed.
    pub updated_at: OffsetDateTime,
}
