//! Makes the broker agree with the subscriptions. What should be there is a pure function of the rows ([`Wanted`]); what may
//! be there too is what rows that are disabled or removed name. Declaring, binding and unbinding twice change nothing, so a
//! pass does all of it again, whatever the broker has.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::link::{Away, Link};
use super::topology::{self, Binding, EXCHANGE, Undeclared};
use crate::error::{Error, Result};
use crate::presence::BrokerState;
use crate::presence::SubscriptionProblem;
use crate::retry::RetryPolicy;
use crate::store::{IntoStore, KeptLease, Store};
use crate::subscription::{RABBITMQ, StoredSubscription, Subscription, Via};

/// The lease of the instance that works.
const LEASE_NAME: &str = "postrider.topology";
/// How soon another instance continues after this one has died. A pass over hundreds of consumers may take a while.
const LEASE: Duration = Duration::from_secs(60);
/// How often the subscriptions are read.
const LOOK: Duration = Duration::from_secs(1);
/// How often everything is declared again, because the broker may have been changed by hand.
const AGAIN: Duration = Duration::from_secs(60);
/// The same while something could not be bound.
const AGAIN_AFTER_A_PROBLEM: Duration = Duration::from_secs(5);
/// How long the broker may take for one consumer. A dozen queues are declared, and each is replicated.
const CONSUMER_TIMEOUT: Duration = Duration::from_secs(30);

/// Declares and binds the queues of every enabled subscription [via](Via) the broker, and unbinds the others. Clones share
/// what they know.
///
/// Any number of instances may run it. One works, under a lease. Only the publishers of each instance ask for more: they
/// declare everything once after each reconnect ([`Publisher::after`](super::Publisher::after)).
#[derive(Clone)]
pub struct Reconciler {
    stores: Vec<Arc<dyn Store>>,
    publishing: Arc<Link>,
    /// Its own connection: one that publishes is blocked while the broker is short of memory.
    link: Arc<Link>,
    delays: BTreeSet<u64>,
    owner: String,
    again: Duration,
    shared: Arc<ReconcilerShared>,
}

/// What is wrong with a subscription, by topic and consumer.
type Problems = BTreeMap<(String, String), String>;
/// The topics of each binding of each consumer.
type Wanted = BTreeMap<String, BTreeMap<Binding, BTreeSet<String>>>;
/// A consumer and a binding of its queue.
type Bound = (String, Binding);

#[derive(Default)]
struct ReconcilerShared {
    problems: Mutex<Problems>,
    /// One at a time declares everything for the publishers.
    readying: tokio::sync::Mutex<()>,
    /// The number of the publishing connection for which everything is declared.
    ready_for: AtomicU64,
}

impl Reconciler {
    pub(super) fn new(publishing: Arc<Link>, link: Arc<Link>, store: Arc<dyn Store>) -> Self {
        Self {
            stores: vec![store],
            publishing,
            link,
            delays: topology::delays_of([&RetryPolicy::default()]),
            owner: "reconciler".into(),
            again: AGAIN,
            shared: Arc::default(),
        }
    }

    /// Also reads the subscriptions of another store that publishes to the same broker. The first store has the lease.
    #[must_use]
    pub fn also(mut self, store: impl IntoStore) -> Self {
        self.stores.push(store.into_store());
        self
    }

    /// Declares a retry queue for each delay of this policy.
    #[must_use]
    pub fn retry(mut self, policy: &RetryPolicy) -> Self {
        self.delays = topology::delays_of([policy]);
        self
    }

    /// The name of this instance, for operators. A random suffix is added.
    #[must_use]
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = owner.into();
        self
    }

    /// How often the broker is brought to agree although no subscription has changed: a minute by default, and at most every
    /// second.
    #[must_use]
    pub fn again(mut self, again: Duration) -> Self {
        self.again = again;
        self
    }

    /// What is wrong with a subscription, as far as this instance knows: only the one with the lease does.
    pub fn problem(&self, topic: &str, consumer: &str) -> Option<String> {
        self.problems().get(&(topic.into(), consumer.into())).cloned()
    }

    /// The state of the connection for publishing.
    pub fn state(&self) -> BrokerState {
        self.publishing.state()
    }

    /// Declares what one subscription needs. Call it before the subscription is written, so that events written after it
    /// find the queue. Returns the problem if that was not possible; [`Reconciler::run`] tries again.
    pub async fn declare(&self, subscription: &Subscription) -> Result<(), String> {
        let problems = self.declare_all(&wanted([subscription])).await.map_err(|away| away.to_string())?;
        problems.into_values().next().map_or(Ok(()), Err)
    }

    /// Works until `shutdown` is ready, while no other instance holds the lease. An unreachable broker is waited for.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        for store in &self.stores {
            store.check_schema().await?;
        }
        let owner = format!("{}-{}", self.owner, &Uuid::new_v4().simple().to_string()[..8]);
        let mut work = Work { lease: KeptLease::new(LEASE_NAME, LEASE), ..Work::default() };
        let mut shutdown = pin!(shutdown);
        loop {
            let looking = async {
                if let Err(error) = self.look(&owner, &mut work).await {
                    tracing::warn!(%error, "the queues may differ from the subscriptions: tried again");
                }
                sleep(LOOK).await;
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = looking => {}
            }
        }
        work.lease.release(&*self.stores[0]).await;
        Ok(())
    }

    /// Reads the subscriptions, and changes the broker if it may differ.
    async fn look(&self, owner: &str, work: &mut Work) -> Result<()> {
        let (wanted, unwanted) = self.read(work).await?;
        if !work.lease.keep(&*self.stores[0], owner).await? {
            // The other instance knows better.
            self.problems().clear();
            self.publish_problems();
            work.done = None;
            return Ok(());
        }
        let unroutable = self.publishing.unroutable.swap(false, Ordering::Relaxed);
        let again = if self.problems().is_empty() { self.again } else { AGAIN_AFTER_A_PROBLEM };
        let agrees = work
            .done
            .as_ref()
            .is_some_and(|done| done.at.elapsed() < again && (&done.wanted, &done.unwanted) == (&wanted, &unwanted));
        if agrees && !unroutable && self.link.state() == BrokerState::Connected {
            return Ok(());
        }
        work.done = None;
        match self.declare_all(&wanted).await {
            Ok(problems) => {
                self.note(problems);
                self.publish_problems();
            }
            // The link logs it.
            Err(Away(_)) => return Ok(()),
        }
        // Read again, and the lease confirmed: what another has just subscribed must not be unbound.
        let (still, unwanted) = self.read(work).await?;
        if still != wanted || !work.lease.keep(&*self.stores[0], owner).await? {
            return Ok(());
        }
        for (consumer, binding) in &unwanted {
            match self.unbind(consumer, binding).await {
                Ok(waiting) => work.note_unbound(consumer, binding, waiting),
                Err(Away(_)) => return Ok(()),
            }
        }
        work.unbound.retain(|bound| unwanted.contains(bound));
        work.done = Some(Done { wanted, unwanted, at: Instant::now() });
        Ok(())
    }

    /// What should be bound, and what may be bound and should not.
    async fn read(&self, work: &mut Work) -> Result<(Wanted, BTreeSet<Bound>)> {
        let (mut rows, mut removed) = (Vec::new(), Vec::new());
        for store in &self.stores {
            rows.extend(store.subscriptions(None).await?);
            removed.extend(store.removed_subscriptions().await?);
        }
        let wanted = wanted(rows.iter().map(|row| &row.subscription));
        let bound = |row: &StoredSubscription| (row.subscription.consumer.clone(), Binding::of(&row.subscription));
        work.seen.extend(rows.iter().chain(&removed).filter(|row| has_queue(&row.subscription)).map(bound));
        let is_wanted =
            |(consumer, binding): &&Bound| wanted.get(consumer).is_some_and(|bindings| bindings.contains_key(binding));
        let unwanted = work.seen.iter().filter(|bound| !is_wanted(bound)).cloned().collect();
        Ok((wanted, unwanted))
    }

    async fn declare_all(&self, wanted: &Wanted) -> Result<Problems, Away> {
        let mut problems = Problems::new();
        for (consumer, bindings) in wanted {
            match timeout(CONSUMER_TIMEOUT, self.declare_consumer(consumer, bindings, &mut problems)).await {
                Ok(declared) => declared?,
                Err(_) => {
                    self.link.lost("it does not answer");
                    return Err(Away("it does not answer".into()));
                }
            }
        }
        Ok(problems)
    }

    async fn declare_consumer(
        &self,
        consumer: &str,
        bindings: &BTreeMap<Binding, BTreeSet<String>>,
        problems: &mut Problems,
    ) -> Result<(), Away> {
        let mut note = |topics: &BTreeSet<String>, error: &Error| {
            problems.extend(topics.iter().map(|topic| ((topic.clone(), consumer.into()), error.to_string())));
        };
        let queues = async {
            let channel = self.link.channel().await?;
            topology::declare_exchange(&channel).await?;
            topology::declare_queues(&channel, consumer, &self.delays).await
        };
        match queues.await {
            Ok(()) => {}
            Err(Undeclared::Away(away)) => return Err(away),
            Err(Undeclared::Refused(error)) => {
                bindings.values().for_each(|topics| note(topics, &error));
                return Ok(());
            }
        }
        for (binding, topics) in bindings {
            // On a channel of its own: the broker closes it if it refuses.
            let bound = async {
                let channel = self.link.channel().await?;
                if binding.exchange != EXCHANGE {
                    topology::check_exchange(&channel, &binding.exchange).await?;
                }
                topology::bind(&channel, consumer, binding).await
            };
            match bound.await {
                Ok(()) => {}
                Err(Undeclared::Away(away)) => return Err(away),
                Err(Undeclared::Refused(error)) => note(topics, &error),
            }
        }
        Ok(())
    }

    async fn unbind(&self, consumer: &str, binding: &Binding) -> Result<Option<u32>, Away> {
        topology::unbind(&self.link.channel().await?, consumer, binding).await
    }

    /// Whether everything is declared for the connection that publishes now.
    pub(super) fn is_ready(&self) -> bool {
        self.shared.ready_for.load(Ordering::Acquire) == self.publishing.opened()
    }

    /// Declares everything once for each connection that publishes.
    pub(super) async fn make_ready(&self) -> Result<(), Away> {
        self.publishing.connection().await?;
        if self.is_ready() {
            return Ok(());
        }
        let _one_at_a_time = self.shared.readying.lock().await;
        let opened = self.publishing.opened();
        if self.is_ready() {
            return Ok(());
        }
        let mut rows = Vec::new();
        for store in &self.stores {
            let read = store.subscriptions(None).await;
            rows.extend(read.map_err(|error| Away(format!("the subscriptions cannot be read: {error}")))?);
        }
        self.declare_all(&wanted(rows.iter().map(|row| &row.subscription))).await?;
        self.shared.ready_for.store(opened, Ordering::Release);
        Ok(())
    }

    fn problems(&self) -> MutexGuard<'_, Problems> {
        self.shared.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the problems to the other instances.
    fn publish_problems(&self) {
        let problem = |((topic, consumer), problem): (&(String, String), &String)| SubscriptionProblem {
            topic: topic.clone(),
            consumer: consumer.clone(),
            problem: problem.clone(),
        };
        let problems: Vec<_> = self.problems().iter().map(problem).collect();
        for store in &self.stores {
            store.wake().presence().set_problems(problems.clone());
        }
    }

    /// Keeps the problems, and logs what has changed.
    fn note(&self, problems: Problems) {
        let mut known = self.problems();
        for ((topic, consumer), problem) in &problems {
            if known.get(&(topic.clone(), consumer.clone())) != Some(problem) {
                tracing::error!(topic, consumer, problem, "a subscription cannot be bound");
            }
        }
        for (topic, consumer) in known.keys().filter(|key| !problems.contains_key(key)) {
            tracing::info!(topic, consumer, "the problem of a subscription is gone");
        }
        *known = problems;
    }
}

/// What one call of [`Reconciler::run`] remembers.
#[derive(Default)]
struct Work {
    lease: KeptLease,
    /// Every binding that a row has named: a row that names another one now does not tell its old one.
    seen: BTreeSet<Bound>,
    /// The unbound ones that the log has.
    unbound: BTreeSet<Bound>,
    /// The last whole pass.
    done: Option<Done>,
}

struct Done {
    wanted: Wanted,
    unwanted: BTreeSet<Bound>,
    at: Instant,
}

impl Work {
    fn note_unbound(&mut self, consumer: &str, binding: &Binding, messages: Option<u32>) {
        let is_new = self.unbound.insert((consumer.into(), binding.clone()));
        if let (true, Some(messages)) = (is_new, messages) {
            let (exchange, routing_key) = (&binding.exchange, &binding.routing_key);
            let queue = topology::queue(consumer);
            tracing::info!(queue, exchange, routing_key, messages, "unbound: what is in the queue stays");
        }
    }
}

/// Whether the consumer has a queue. The broker itself, which gets every topic, has none.
fn has_queue(subscription: &Subscription) -> bool {
    subscription.via == Via::RabbitMq && subscription.consumer != RABBITMQ
}

fn wanted<'a>(subscriptions: impl IntoIterator<Item = &'a Subscription>) -> Wanted {
    let mut wanted = Wanted::new();
    for one in subscriptions.into_iter().filter(|one| one.enabled && has_queue(one)) {
        let bindings = wanted.entry(one.consumer.clone()).or_default();
        bindings.entry(Binding::of(one)).or_default().insert(one.topic.clone());
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D.2, D.11: a subscription is bound to its topic, or to what it names.
    #[test]
    fn subscriptions_decide_what_is_bound() {
        let of = |topic: &str, consumer: &str| Subscription::new(topic, consumer, Via::RabbitMq);
        let rows = [
            of("order.paid", "mail"),
            Subscription { routing_key: Some("eu.#".into()), ..of("order.sent", "mail") },
            Subscription { exchange: Some("billing".into()), ..of("order.paid", "books") },
            of("*", "audit"),
            Subscription { enabled: false, ..of("order.paid", "off") },
            Subscription::new("order.paid", "pulls", Via::Pull),
            of("*", RABBITMQ),
        ];
        let wanted: Vec<_> = wanted(&rows)
            .into_iter()
            .flat_map(|(consumer, bindings)| bindings.into_keys().map(move |binding| (consumer.clone(), binding)))
            .map(|(consumer, Binding { exchange, routing_key })| format!("{consumer} {exchange} {routing_key}"))
            .collect();
        let expected = [
            "audit postrider.events #",
            "books billing order.paid",
            "mail postrider.events eu.#",
            "mail postrider.events order.paid",
        ];
        assert_eq!(wanted, expected);
    }
}
