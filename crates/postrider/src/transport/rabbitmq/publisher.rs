//! Publishing with confirms. An event is delivered if the broker has confirmed it *and* has not returned it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::time::{Instant, sleep, timeout};

use super::link::{Away, Link, is_objection};
use super::message;
use super::reconciler::Reconciler;
use super::topology::{self, Undeclared};
use crate::clock::{Clock, SystemClock};
use crate::consumer::Failure;
use crate::entry::StoppedKeys;
use crate::envelope::Envelope;
use crate::error::Result;
use crate::observe;
use crate::presence::BrokerState;
use crate::store::Store;
use crate::subscription::{EVERY_TOPIC, RABBITMQ, Subscription, Via};
use crate::transport::{Lane, LaneOptions, Outcome, Parcel, Transport};

/// Events that share a channel until all of them are confirmed. Few, so that a slow confirm delays few others. Half as many
/// on twice as many channels, which is the same window, were 10 to 20 % slower.
pub const TOGETHER: usize = 50;
/// The code of a failure because no queue is bound.
const UNROUTABLE: &str = "unroutable";
/// Channels at the same time by default: with [`TOGETHER`] a window of 400.
const CHANNELS: usize = 8;

/// The lane `rabbitmq`: publishes the events with a subscription through the broker, or with [`Publisher::every_topic`] every
/// event of its store.
///
/// Events are sent [`TOGETHER`] at a time, and [`LaneOptions::concurrency`] times as many are unconfirmed at most: that is
/// the window. An event with a key is sent once the one before it is confirmed.
pub struct Publisher {
    link: Arc<Link>,
    options: LaneOptions,
    every_topic: bool,
    reconciler: Option<Reconciler>,
    /// Idle channels, open and in confirm mode. A batch uses one alone, so that an error that closes it affects no other.
    channels: Mutex<Vec<Channel>>,
    blocked: AtomicBool,
}

/// A message to publish.
#[derive(Clone, Copy)]
pub(super) struct Letter<'a> {
    pub(super) exchange: &'a str,
    pub(super) routing_key: &'a str,
    pub(super) body: &'a [u8],
    pub(super) properties: Properties<'a>,
}

/// The properties of a message. The client library takes them by value for every send.
#[derive(Clone, Copy)]
pub(super) enum Properties<'a> {
    Of(&'a Envelope),
    Given(&'a BasicProperties),
}

impl Properties<'_> {
    fn make(self) -> BasicProperties {
        match self {
            Self::Of(envelope) => message::properties(envelope),
            Self::Given(properties) => properties.clone(),
        }
    }
}

impl Publisher {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            options: Self::default_options(),
            every_topic: false,
            reconciler: None,
            channels: Mutex::default(),
            blocked: AtomicBool::new(false),
        }
    }

    /// The options of the lane where none are set: more channels and larger batches than a consumer's.
    pub fn default_options() -> LaneOptions {
        LaneOptions { concurrency: CHANNELS, batch: 400, ..LaneOptions::default() }
    }

    /// Sets the options of the lane.
    #[must_use]
    pub fn options(mut self, options: LaneOptions) -> Self {
        self.options = options;
        self
    }

    /// Subscribes the broker itself to every topic: for a service that does not know its consumers. Without it, an event
    /// whose topic has no enabled subscription is skipped.
    #[must_use]
    pub fn every_topic(mut self) -> Self {
        self.every_topic = true;
        self
    }

    /// Publishes on a connection only once the queues of all subscriptions are declared and bound: a broker keeps a message
    /// for the queues that are bound when it arrives, and for no other.
    #[must_use]
    pub fn after(mut self, reconciler: Reconciler) -> Self {
        self.reconciler = Some(reconciler);
        self
    }

    /// A channel in confirm mode: an idle one, or a new one, for which the exchange is declared.
    async fn channel(&self) -> Result<Channel, Undeclared> {
        loop {
            let idle = self.channels.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok(channel),
                Some(_) => {}
                None => break,
            }
        }
        let channel = self.link.channel().await?;
        topology::declare_exchange(&channel).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(Away::from)?;
        Ok(channel)
    }

    fn give_back(&self, channel: Channel) {
        if channel.status().connected() {
            self.channels.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
        }
    }

    /// Whether the broker is short of memory or disk, and takes nothing.
    fn is_blocked(&self) -> bool {
        let blocked = self.link.state() == BrokerState::Blocked;
        if self.blocked.swap(blocked, Ordering::Relaxed) != blocked {
            observe::broker_blocked(blocked);
            if blocked {
                tracing::warn!("the broker is blocked (memory or disk): events wait in their store");
            } else {
                tracing::info!("the broker takes events again");
            }
        }
        blocked
    }

    /// Publishes, and waits for the confirms. One outcome per message.
    pub(super) async fn publish(&self, letters: Vec<Letter<'_>>) -> Vec<Outcome> {
        let began = Instant::now();
        let (answers, objected) = self.publish_together(&letters).await;
        if !objected || letters.len() == 1 {
            return answers;
        }
        // The broker closed the channel because of one of them, and does not tell which. Sent one at a time, the bad one is
        // found and the others are confirmed.
        let mut alone = Vec::with_capacity(letters.len());
        for (letter, answer) in letters.into_iter().zip(answers) {
            alone.push(match answer {
                Outcome::NotTried if began.elapsed() < self.link.options.confirm_timeout => {
                    self.publish_together(&[letter]).await.0.pop().unwrap_or(Outcome::NotTried)
                }
                answer => answer,
            });
        }
        alone
    }

    /// Publishes on one channel. Returns true if the broker refused one of the messages, and has closed the channel.
    async fn publish_together(&self, letters: &[Letter<'_>]) -> (Vec<Outcome>, bool) {
        let nothing = vec![Outcome::NotTried; letters.len()];
        if self.is_blocked() {
            return (nothing, false);
        }
        let channel = match timeout(self.link.options.confirm_timeout, self.channel()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(Undeclared::Away(away))) => {
                tracing::debug!(error = %away, "nothing is published");
                return (nothing, false);
            }
            Ok(Err(Undeclared::Refused(error))) => {
                tracing::error!(%error, "nothing can be published");
                return (nothing, false);
            }
            Err(_) => {
                self.link.lost("it does not answer");
                return (nothing, false);
            }
        };
        if self.reconciler.as_ref().is_some_and(|reconciler| !reconciler.is_ready()) {
            // The connection was opened again just now.
            self.give_back(channel);
            return (nothing, false);
        }
        let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
        let sending = letters.iter().map(|letter| {
            // The first await ends when the message is written, the second when it is confirmed.
            let mut confirmed = Box::pin(async {
                let (exchange, routing_key) = (letter.exchange.into(), letter.routing_key.into());
                let properties = letter.properties.make();
                channel.basic_publish(exchange, routing_key, mandatory, letter.body, properties).await?.await
            });
            // The first poll queues the message.
            let at_once = (&mut confirmed).now_or_never();
            (confirmed, at_once)
        });
        let sending: Vec<_> = sending.collect();
        let mut deadline = std::pin::pin!(sleep(self.link.options.confirm_timeout));
        let mut answers = nothing;
        let (mut objected, mut unanswered) = (false, 0);
        // Awaited one after the other, the last one first: one confirm covers many messages, nearly in order, and a wake-up
        // for each of them took longer than sending it.
        for ((letter, (confirmed, at_once)), answered) in letters.iter().zip(sending).zip(&mut answers).rev() {
            let confirmed = match at_once {
                Some(refused) => refused,
                None => tokio::select! {
                    // After the deadline this still finds messages that were confirmed although an earlier one was not.
                    biased;
                    confirmed = confirmed => confirmed,
                    () = &mut deadline => {
                        unanswered += 1;
                        continue;
                    }
                },
            };
            *answered = match confirmed {
                Ok(confirmation) => {
                    let outcome = answer(letter, confirmation);
                    if is_unroutable(&outcome) {
                        self.link.unroutable.store(true, Ordering::Relaxed);
                    }
                    outcome
                }
                Err(error) if is_objection(&error) => {
                    objected = true;
                    match letters.len() {
                        1 => Outcome::Failed(Failure::retry(format!("the broker refuses it: {error}")).code("refused")),
                        _ => Outcome::NotTried,
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "unconfirmed: it will be sent again");
                    Outcome::NotTried
                }
            };
        }
        if answers.iter().any(|answer| *answer != Outcome::NotTried) {
            self.link.worked();
        }
        match unanswered {
            0 => self.give_back(channel),
            // A blocked broker answers later. Any other one will not answer on this connection.
            _ if self.is_blocked() => {}
            _ => {
                let wait = self.link.options.confirm_timeout;
                tracing::warn!(unanswered, ?wait, "the broker has not confirmed: a new connection is made");
                self.link.lost("it did not confirm in time");
            }
        }
        (answers, objected)
    }
}

/// The outcome of a confirm.
fn answer(letter: &Letter<'_>, confirmation: Confirmation) -> Outcome {
    match confirmation {
        Confirmation::Ack(None) => Outcome::Done,
        // An unroutable message is confirmed and returned.
        Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => Outcome::Failed(
            Failure::retry(format!(
                "no queue is bound to exchange {:?} for routing key {:?} ({}): subscribe a consumer or bind a queue",
                letter.exchange, letter.routing_key, returned.reply_text
            ))
            .code(UNROUTABLE),
        ),
        Confirmation::Nack(None) => Outcome::Failed(Failure::retry("the broker could not take it (nack)").code("nack")),
        Confirmation::NotRequested => {
            Outcome::Failed(Failure::retry("the broker was not asked to confirm").code("nack"))
        }
    }
}

fn is_unroutable(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.cause().code.as_deref() == Some(UNROUTABLE))
}

#[async_trait]
impl Transport for Publisher {
    fn lanes(&self) -> Vec<Lane> {
        vec![Lane { name: RABBITMQ.into(), topics: Vec::new(), at_once: TOGETHER, options: self.options.clone() }]
    }

    /// Subscribes the broker if it is to get every topic, and declares the exchange. The relay starts although the broker is unreachable.
    async fn prepare(&self, store: &dyn Store) -> Result<()> {
        if self.every_topic {
            store.register(&Subscription::new(EVERY_TOPIC, RABBITMQ, Via::RabbitMq)).await?;
        }
        store.wake().presence().watch_broker(Arc::clone(&self.link) as _);
        match self.channel().await {
            Ok(channel) => {
                self.give_back(channel);
                Ok(())
            }
            Err(Undeclared::Refused(error)) => Err(error),
            Err(Undeclared::Away(away)) => {
                tracing::warn!(error = %away, "the broker is unreachable: events wait until it is back");
                Ok(())
            }
        }
    }

    async fn deliver(&self, _lane: &Lane, parcels: &[Parcel]) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::NotTried; parcels.len()];
        if let Some(reconciler) = &self.reconciler
            && let Err(away) = reconciler.make_ready().await
        {
            tracing::debug!(error = %away, "nothing is published");
            return outcomes;
        }
        // Rounds: the first event of each key and all without a key, then the second of each key, and so on.
        let mut rounds: Vec<Vec<usize>> = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (n, parcel) in parcels.iter().enumerate() {
            let round = parcel.envelope.key.as_deref().map_or(0, |key| {
                let next = seen.entry(key).or_default();
                std::mem::replace(next, *next + 1)
            });
            if rounds.len() <= round {
                rounds.resize_with(round + 1, Vec::new);
            }
            rounds[round].push(n);
        }
        let mut stopped = StoppedKeys::default();
        let sent_at = SystemClock.now();
        for mut round in rounds {
            round.retain(|n| match stopped.instead_of_try(parcels[*n].envelope.key.as_deref()) {
                Some(outcome) => {
                    outcomes[*n] = outcome;
                    false
                }
                None => true,
            });
            let answers = self.publish_parcels(parcels, &round, sent_at).await;
            for (n, outcome) in round.into_iter().zip(answers) {
                outcomes[n] = stopped.record(parcels[n].envelope.key.as_deref(), outcome);
            }
        }
        outcomes
    }
}

impl Publisher {
    async fn publish_parcels(
        &self,
        parcels: &[Parcel],
        round: &[usize],
        sent_at: time::OffsetDateTime,
    ) -> Vec<Outcome> {
        let addressed: Result<Vec<_>> = round
            .iter()
            .map(|n| {
                let (envelope, target) = (&parcels[*n].envelope, parcels[*n].target.as_deref());
                Ok((envelope.message(sent_at)?, address(envelope, target), &**envelope))
            })
            .collect();
        match addressed {
            Ok(addressed) => {
                let letters = addressed.iter().map(|(body, (exchange, routing_key), envelope)| Letter {
                    exchange,
                    routing_key,
                    body,
                    properties: Properties::Of(envelope),
                });
                self.publish(letters.collect()).await
            }
            // Does not happen: everything that a store holds can be written as JSON.
            Err(error) => vec![Outcome::Failed(Failure::from(error).code("encode")); round.len()],
        }
    }
}

/// Exchange and routing key: those of the event, or the defaults. A target is the queue of one consumer.
fn address<'a>(envelope: &'a Envelope, target: Option<&str>) -> (&'a str, Cow<'a, str>) {
    match target {
        None => (
            envelope.exchange.as_deref().unwrap_or(topology::EXCHANGE),
            envelope.routing_key.as_deref().unwrap_or(&envelope.topic).into(),
        ),
        Some(consumer) => (topology::TO_QUEUE, topology::queue(consumer).into()),
    }
}
