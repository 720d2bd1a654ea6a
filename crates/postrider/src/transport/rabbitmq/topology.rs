//! The exchange and the queues of Postrider on a broker, and their names. All are durable. Each process declares those that
//! it uses; declaring twice changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};

use super::link::{Away, is_objection};
use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::subscription::{EVERY_TOPIC, Subscription};
use crate::transport::Lane;

/// Where events are published, unless they name another.
pub const EXCHANGE: &str = "postrider.events";
/// AMQP's default exchange: the routing key is the name of a queue.
pub(super) const TO_QUEUE: &str = "";
/// Where remote consumers report.
pub const RECEIPTS: &str = "postrider.receipts";

/// After this many deliveries the broker itself gives a message up. It is far more than the limit of
/// [`Receiver`](super::Receiver), and applies only to messages that no receiver has counted.
const DELIVERY_LIMIT: i64 = 100;

/// The queue of a consumer.
pub fn queue(consumer: &str) -> String {
    format!("postrider.{consumer}")
}

/// Where its failed messages wait. One queue for each delay, since only the head of a queue expires.
pub fn retry_queue(consumer: &str, seconds: u64) -> String {
    format!("postrider.{consumer}.retry.{seconds}")
}

/// The queue of its messages that were given up.
pub fn dead_queue(consumer: &str) -> String {
    format!("postrider.{consumer}.dead")
}

/// Declares the queue of receipts, and the one of messages that are not receipts.
pub(super) async fn declare_receipts(channel: &Channel) -> Result<(), Undeclared> {
    let dead = format!("{RECEIPTS}.dead");
    declare_queue(channel, &dead, None, None).await?;
    declare_queue(channel, RECEIPTS, Some(&dead), None).await
}

/// Which messages a consumer's queue gets in addition to those of its topics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// An exchange that exists.
    pub exchange: String,
    /// The routing key, or a pattern of the exchange's.
    pub routing_key: String,
}

impl Binding {
    /// The binding to a topic, or to all with [`EVERY_TOPIC`].
    fn to_topic(topic: &str) -> Self {
        // Postrider's `*` is every topic, the broker's is one word.
        let routing_key = if topic == EVERY_TOPIC { "#" } else { topic };
        Self { exchange: EXCHANGE.into(), routing_key: routing_key.into() }
    }

    /// The binding that a subscription asks for.
    pub(super) fn of(subscription: &Subscription) -> Self {
        let usual = Self::to_topic(&subscription.topic);
        Self {
            exchange: subscription.exchange.clone().unwrap_or(usual.exchange),
            routing_key: subscription.routing_key.clone().unwrap_or(usual.routing_key),
        }
    }
}

/// Why something could not be declared.
pub(super) enum Undeclared {
    Away(Away),
    /// The broker has a queue or exchange of that name with other settings, or denies access.
    Refused(Error),
}

impl Undeclared {
    fn of(what: &str, error: lapin::Error) -> Self {
        if !is_objection(&error) {
            return Self::Away(error.into());
        }
        Self::Refused(Error::Unsupported(format!(
            "the broker refuses to declare {what} as Postrider needs it: {error}. If it exists with other settings, \
             empty and delete it, or give the consumer another name; if access is refused, grant it"
        )))
    }
}

impl From<Away> for Undeclared {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

/// The seconds that a lane's failed messages may wait: one queue each.
pub(super) fn delays(lane: &Lane) -> BTreeSet<u64> {
    delays_of(lane.options.retry_by_code.values().chain([&lane.options.retry]))
}

/// The seconds of the delays of these policies.
pub(super) fn delays_of<'a>(policies: impl IntoIterator<Item = &'a RetryPolicy>) -> BTreeSet<u64> {
    policies
        .into_iter()
        .flat_map(|policy| {
            // Without jitter: a queue has one delay.
            (1..policy.max_attempts).map(|failures| policy.delay(failures, 0.5)).map_while({
                let mut longest = None;
                // Once the waits have reached the cap, all further ones are the same.
                move |wait| (longest.replace(wait) != Some(wait) || wait < policy.cap).then_some(wait)
            })
        })
        .map(seconds)
        .collect()
}

/// A delay in whole seconds, at least one.
fn seconds(delay: Duration) -> u64 {
    (delay.as_secs_f64().ceil() as u64).max(1)
}

/// The delay of the queue to use: the shortest that is long enough, or the longest.
pub(super) fn delay_for(delays: &BTreeSet<u64>, wait: Duration) -> u64 {
    let wanted = seconds(wait);
    delays.range(wanted..).next().or(delays.last()).copied().unwrap_or(wanted)
}

pub(super) async fn declare_exchange(channel: &Channel) -> Result<(), Undeclared> {
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let declared = channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, FieldTable::default());
    declared.await.map_err(|error| Undeclared::of(EXCHANGE, error))
}

/// Declares the exchange, and the queues and bindings of a lane.
pub(super) async fn declare_lane(
    channel: &Channel,
    lane: &Lane,
    delays: &BTreeSet<u64>,
    bindings: &BTreeSet<Binding>,
) -> Result<(), Undeclared> {
    declare_exchange(channel).await?;
    declare_queues(channel, &lane.name, delays).await?;
    // A lane without topics gets every topic.
    let every_topic = lane.topics.is_empty().then_some(EVERY_TOPIC);
    let topics = lane.topics.iter().map(String::as_str).chain(every_topic).map(Binding::to_topic);
    for binding in topics.chain(bindings.iter().cloned()) {
        bind(channel, &lane.name, &binding).await?;
    }
    Ok(())
}

/// Declares the queues of a consumer.
pub(super) async fn declare_queues(
    channel: &Channel,
    consumer: &str,
    delays: &BTreeSet<u64>,
) -> Result<(), Undeclared> {
    let (main, dead) = (queue(consumer), dead_queue(consumer));
    declare_queue(channel, &dead, None, None).await?;
    declare_queue(channel, &main, Some(&dead), None).await?;
    for seconds in delays {
        declare_queue(channel, &retry_queue(consumer, *seconds), Some(&main), Some(*seconds)).await?;
    }
    Ok(())
}

/// Binds the queue of a consumer.
pub(super) async fn bind(channel: &Channel, consumer: &str, binding: &Binding) -> Result<(), Undeclared> {
    let (queue, Binding { exchange, routing_key }) = (queue(consumer), binding);
    let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
    let bound = channel.queue_bind(
        queue.as_str().into(),
        exchange.as_str().into(),
        routing_key.as_str().into(),
        options,
        arguments,
    );
    bound.await.map_err(|error| Undeclared::of(&format!("{queue} bound to {exchange} by {routing_key}"), error))
}

/// Checks that an exchange of another system exists. The broker closes the channel if it does not.
pub(super) async fn check_exchange(channel: &Channel, exchange: &str) -> Result<(), Undeclared> {
    let passive = ExchangeDeclareOptions { passive: true, ..Default::default() };
    // The broker ignores the kind of a passive declaration.
    let checked = channel.exchange_declare(exchange.into(), ExchangeKind::Topic, passive, FieldTable::default()).await;
    checked.map_err(|error| {
        if is_objection(&error) {
            let why = format!("the exchange {exchange:?} cannot be used: {error}. Declare it, or name another");
            Undeclared::Refused(Error::Unsupported(why))
        } else {
            Undeclared::Away(error.into())
        }
    })
}

/// Unbinds the queue of a consumer. Returns how many messages are in it, or `None` if there is no such queue.
pub(super) async fn unbind(channel: &Channel, consumer: &str, binding: &Binding) -> Result<Option<u32>, Away> {
    let queue = queue(consumer);
    let passive = QueueDeclareOptions { passive: true, durable: true, ..Default::default() };
    let waiting = match channel.queue_declare(queue.as_str().into(), passive, FieldTable::default()).await {
        Ok(declared) => declared.message_count(),
        Err(error) if is_objection(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (exchange, routing_key) = (binding.exchange.as_str(), binding.routing_key.as_str());
    let unbound =
        channel.queue_unbind(queue.as_str().into(), exchange.into(), routing_key.into(), FieldTable::default()).await;
    match unbound {
        Ok(()) => Ok(Some(waiting)),
        // The exchange is gone, and its bindings with it.
        Err(error) if is_objection(&error) => Ok(Some(waiting)),
        Err(error) => Err(error.into()),
    }
}

/// Declares a replicated queue. A message leaves it for `next` only once that has confirmed it.
async fn declare_queue(
    channel: &Channel,
    name: &str,
    next: Option<&str>,
    after_seconds: Option<u64>,
) -> Result<(), Undeclared> {
    let mut arguments = FieldTable::default();
    let mut set = |name: &str, value: AMQPValue| {
        arguments.insert(name.into(), value);
    };
    let text = |text: &str| AMQPValue::LongString(text.into());
    set("x-queue-type", text("quorum"));
    if let Some(next) = next {
        set("x-dead-letter-exchange", text(TO_QUEUE));
        set("x-dead-letter-routing-key", text(next));
        // This strategy requires the overflow policy, which has no effect without a maximum length.
        set("x-dead-letter-strategy", text("at-least-once"));
        set("x-overflow", text("reject-publish"));
        match after_seconds {
            Some(seconds) => {
                set("x-message-ttl", AMQPValue::LongLongInt(i64::try_from(seconds * 1_000).unwrap_or(i64::MAX)))
            }
            None => set("x-delivery-limit", AMQPValue::LongLongInt(DELIVERY_LIMIT)),
        }
    }
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    let declared = channel.queue_declare(name.into(), durable, arguments).await;
    declared.map(drop).map_err(|error| Undeclared::of(name, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::LaneOptions;

    fn lane(retry: RetryPolicy) -> Lane {
        Lane {
            name: "mail".into(),
            topics: Vec::new(),
            at_once: 1,
            options: LaneOptions { retry, ..Default::default() },
        }
    }

    #[test]
    fn there_is_a_queue_for_each_step_of_the_policy() {
        let usual = delays(&lane(RetryPolicy::default()));
        assert_eq!(usual, BTreeSet::from([2, 4, 8, 16, 32, 64, 128, 256, 512]));
        let long = RetryPolicy { max_attempts: 10_000, ..RetryPolicy::default() };
        assert_eq!(delays(&lane(long)).last(), Some(&3600));
        let constant =
            RetryPolicy { factor: 1.0, base: Duration::from_millis(10), max_attempts: 500, ..RetryPolicy::default() };
        assert_eq!(delays(&lane(constant)), BTreeSet::from([1]));
    }

    #[test]
    fn a_wait_takes_the_next_longer_queue() {
        let delays = BTreeSet::from([2, 4, 8]);
        let of = |millis| delay_for(&delays, Duration::from_millis(millis));
        assert_eq!([of(0), of(2_000), of(2_200), of(8_000), of(60_000)], [2, 2, 4, 8, 8]);
    }
}
