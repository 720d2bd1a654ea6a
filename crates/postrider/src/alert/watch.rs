//! The loop that watches for what needs a person: each alert is sent once when it begins and once when it is over.
//!
//! Any number of instances may run it. One works, under a lease. What fires is kept in the store with what was sent about
//! it, so a restart or another instance repeats nothing and forgets nothing. Only "the store is away" is kept in memory, by
//! each instance for itself.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::notice::{AlertDetails, AlertKind, AlertState, Notice};
use super::rules::{AlertRules, Condition, Dead, Facts, LaneFacts, Stalls, conditions, figures};
use crate::clock::{Clock, SystemClock};
use crate::consumer::Failure;
use crate::entry::DISCARDED;
use crate::error::{Error, Result};
use crate::observe;
use crate::presence;
use crate::retry;
use crate::status::{ConsumerState, EventStatus, Record};
use crate::store::{Filter, Holding, IntoStore, KeptLease, LIVE, LaneCounts, List, NewAlert, Store, StoredAlert};
use crate::subscription::Via;

/// The lease of the instance that works.
const LEASE_NAME: &str = "postrider.alerts";
/// How soon another instance continues after this one has died. Longer than a call of a webhook.
const LEASE: Duration = Duration::from_secs(15);
/// How often it looks, at most: counting takes as long as there is to count.
const LOOK: Duration = Duration::from_secs(2);
/// The pause after a look that took some time, as a multiple of that time.
const PACE: u32 = 20;
/// How long one look may take. A store that takes longer counts as away.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a store that is away is asked.
const WHILE_AWAY: Duration = Duration::from_secs(5);
/// Dead deliveries of a lane, and events that remote consumers have given up, that are read at most.
const DEAD: u32 = 100;

/// Sends what is written about an alert to a person: by a webhook, a mail or a pager.
#[async_trait]
pub trait Notify: Send + Sync + 'static {
    /// Sends a message. It is sent again, with the same id, until this succeeds.
    async fn notify(
        &self,
        message_id: &str,
        notice: &Notice,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// Watches a store for what needs a person: dead deliveries, late and stalled lanes, a blocked broker, a store that does not
/// answer. Every alert is in the log; a [`Notify`] sends it elsewhere too.
pub struct Alerting {
    store: Arc<dyn Store>,
    rules: AlertRules,
    notify: Option<Arc<dyn Notify>>,
    environment: String,
    owner: String,
}

impl Alerting {
    /// Alerts to the log, by the default rules.
    pub fn new(store: impl IntoStore) -> Self {
        Self {
            store: store.into_store(),
            rules: AlertRules::default(),
            notify: None,
            environment: "local".into(),
            owner: "alerts".into(),
        }
    }

    /// Sets the rules.
    #[must_use]
    pub fn rules(mut self, rules: AlertRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sends alerts here, in addition to the log.
    #[must_use]
    pub fn notify(mut self, notify: impl Notify) -> Self {
        self.notify = Some(Arc::new(notify));
        self
    }

    /// The name of this installation, which every message has.
    #[must_use]
    pub fn environment(mut self, name: &str) -> Self {
        self.environment = name.into();
        self
    }

    /// The name of this instance, for operators. A random suffix is added.
    #[must_use]
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = owner.into();
        self
    }

    /// Works until `shutdown` is ready.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.store.check_schema().await?;
        let _running = self.store.wake().presence().run_loop(presence::ALERTS);
        let owner = format!("{}-{}", self.owner, &Uuid::new_v4().simple().to_string()[..8]);
        let mut work = Work { lease: KeptLease::new(LEASE_NAME, LEASE), ..Work::default() };
        let mut shutdown = pin!(shutdown);
        loop {
            let turn = async {
                let pause = self.turn(&owner, &mut work).await;
                tokio::time::sleep(pause).await;
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = turn => {}
            }
        }
        work.lease.release(&*self.store).await;
        Ok(())
    }

    /// Looks and sends. Returns the pause before the next turn.
    async fn turn(&self, owner: &str, work: &mut Work) -> Duration {
        let began = Instant::now();
        let looked = match timeout(PATIENCE, self.look(owner, work)).await {
            Ok(looked) => looked,
            Err(_) => Err(Error::Unavailable(format!("no answer within {PATIENCE:?}").into())),
        };
        let took = began.elapsed();
        let mut pause = LOOK.max(took * PACE);
        match looked {
            Ok(()) => self.store_answers(work),
            Err(Error::Unavailable(error)) => {
                self.store_is_away(work, &error.to_string());
                pause = WHILE_AWAY;
            }
            Err(error) => tracing::error!(error = %Failure::from(error), "alerts cannot be computed: tried again"),
        }
        self.send_kept(work).await;
        pause
    }

    /// Compares what is wrong with what is open, if this instance holds the lease, and sends what was not sent.
    async fn look(&self, owner: &str, work: &mut Work) -> Result<()> {
        if !work.lease.keep(&*self.store, owner).await? {
            work.stalls.clear();
            return Ok(());
        }
        let facts = self.read().await?;
        let found = conditions(&facts, &self.rules, &mut work.stalls);
        let open = self.store.alerts().await?;
        for condition in found.iter().filter(|one| one.begins && !open.iter().any(|alert| is_about(alert, one))) {
            self.begin(condition, facts.now).await?;
        }
        for alert in
            open.iter().filter(|alert| alert.over_at.is_none() && !found.iter().any(|one| is_about(alert, one)))
        {
            if self.store.end_alert(&alert.alert_id).await? {
                self.notice(alert, AlertState::Over).log();
            }
        }
        for alert in self.store.alerts().await? {
            if !self.send_stored(&alert, work).await? {
                break;
            }
        }
        Ok(())
    }

    async fn begin(&self, condition: &Condition, now: OffsetDateTime) -> Result<()> {
        let alert_id = Uuid::new_v4().to_string();
        let details = serde_json::to_string(&condition.details).map_err(Error::Encode)?;
        let new = NewAlert {
            alert_id: &alert_id,
            kind: condition.kind,
            subject: condition.subject.as_deref(),
            details: &details,
        };
        if self.store.begin_alert(&new).await? {
            self.message(condition.kind, AlertState::Firing, now, condition.details.clone()).log();
        }
        Ok(())
    }

    /// Sends the beginning of an alert, and its end. Returns false if that failed.
    async fn send_stored(&self, alert: &StoredAlert, work: &mut Work) -> Result<bool> {
        let states = [(!alert.sent).then_some(AlertState::Firing), alert.over_at.map(|_| AlertState::Over)];
        for state in states.into_iter().flatten() {
            let message_id = format!("{}-{state}", alert.alert_id);
            if !self.send(&message_id, &self.notice(alert, state), work).await {
                return Ok(false);
            }
            self.store.note_alert_sent(&alert.alert_id, state).await?;
        }
        Ok(true)
    }

    async fn send(&self, message_id: &str, notice: &Notice, work: &mut Work) -> bool {
        let Some(notify) = &self.notify else { return true };
        if work.rest_until.is_some_and(|until| until > Instant::now()) {
            return false;
        }
        match notify.notify(message_id, notice).await {
            Ok(()) => {
                (work.failures, work.rest_until) = (0, None);
                true
            }
            Err(error) => {
                work.failures += 1;
                let pause = retry::pause(work.failures);
                work.rest_until = Some(Instant::now() + pause);
                observe::alert_failed();
                tracing::error!(alert = notice.alert.as_str(), %error, ?pause, "an alert could not be sent: tried again");
                false
            }
        }
    }

    fn notice(&self, alert: &StoredAlert, state: AlertState) -> Notice {
        let mut details: AlertDetails = serde_json::from_str(&alert.details).unwrap_or_default();
        if let (AlertState::Over, Some(over_at)) = (state, alert.over_at) {
            details.figures.insert("lastedSeconds".into(), (over_at - alert.since).whole_seconds().into());
        }
        self.message(alert.kind, state, alert.since, details)
    }

    fn message(&self, alert: AlertKind, state: AlertState, since: OffsetDateTime, details: AlertDetails) -> Notice {
        Notice { alert, state, since, details, environment: self.environment.clone() }
    }

    // --- what is read

    async fn read(&self) -> Result<Facts> {
        let store = &*self.store;
        let counts = store.counts().await?;
        let lanes = lane_facts(store, &counts, &store.holdings().await?).await?;
        let mut dead = Vec::new();
        for (lane, _) in counts.iter().filter(|(_, of)| of.dead > 0) {
            dead.extend(store.dead_letters(lane, DEAD).await?.into_iter().map(|letter| Dead {
                consumer: letter.consumer,
                event_id: letter.event_id,
                code: letter.code,
                key: letter.key,
                died_at: letter.died_at,
                held: letter.held,
            }));
        }
        dead.extend(self.given_up().await?);
        let brokers = store.instances(LIVE).await?.into_iter();
        let brokers = brokers.filter_map(|one| Some((one.instance_id, one.running.broker?))).collect();
        Ok(Facts { now: store.now().await?, lanes, dead, brokers })
    }

    /// Events that remote consumers have given up. They have no delivery, so their statuses are read.
    async fn given_up(&self) -> Result<Vec<Dead>> {
        let subscriptions = self.store.subscriptions(None).await?.into_iter();
        let remote =
            subscriptions.map(|one| one.subscription).filter(|one| matches!(one.via, Via::RabbitMq | Via::External));
        let remote: Vec<_> = remote.map(|one| one.consumer).collect();
        let mut found = Vec::new();
        if remote.is_empty() {
            return Ok(found);
        }
        for status in [EventStatus::Failed, EventStatus::Partial] {
            let list = List::new(Filter { status: Some(status), ..Filter::default() }, DEAD);
            let events = self.store.list(&list).await?.events;
            found.extend(events.iter().flat_map(given_up_by).filter(|dead| remote.contains(&dead.consumer)));
        }
        Ok(found)
    }

    // --- a store that does not answer

    fn store_is_away(&self, work: &mut Work, error: &str) {
        let now = SystemClock.now();
        let away = work.away.get_or_insert_with(|| Away {
            alert_id: Uuid::new_v4().to_string(),
            since: now,
            began: Instant::now(),
            fires: false,
            error: error.into(),
        });
        if !away.fires && away.began.elapsed() >= self.rules.store_away {
            away.fires = true;
            let notice = self.store_notice(away, AlertState::Firing);
            notice.log();
            work.kept.push_back((format!("{}-firing", away.alert_id), notice));
        }
    }

    fn store_answers(&self, work: &mut Work) {
        let Some(away) = work.away.take().filter(|away| away.fires) else { return };
        let notice = self.store_notice(&away, AlertState::Over);
        notice.log();
        work.kept.push_back((format!("{}-over", away.alert_id), notice));
    }

    fn store_notice(&self, away: &Away, state: AlertState) -> Notice {
        let seconds = away.began.elapsed().as_secs();
        let details = AlertDetails {
            figures: figures(json!({ "store": self.store.name(), "seconds": seconds, "error": away.error })),
            ..AlertDetails::default()
        };
        self.message(AlertKind::StoreAway, state, away.since, details)
    }

    /// Sends what is only known here.
    async fn send_kept(&self, work: &mut Work) {
        while let Some((message_id, notice)) = work.kept.front().cloned() {
            if !self.send(&message_id, &notice, work).await {
                return;
            }
            work.kept.pop_front();
        }
    }
}

/// What is known about each lane that has deliveries.
pub(crate) async fn lane_facts(
    store: &dyn Store,
    counts: &BTreeMap<String, LaneCounts>,
    holdings: &[Holding],
) -> Result<BTreeMap<String, LaneFacts>> {
    let paused = store.paused().await?;
    let names: Vec<_> = counts.keys().map(String::as_str).collect();
    let oldest = store.oldest_due(&names).await?;
    let facts = |(lane, of): (&String, &LaneCounts), oldest| {
        let facts = LaneFacts {
            waiting: of.new + of.processing + of.failed,
            oldest,
            leased: holdings.iter().any(|one| one.kind == "lane" && one.name == *lane),
            paused: paused.contains(lane),
        };
        (lane.clone(), facts)
    };
    Ok(counts.iter().zip(oldest).map(|(of, oldest)| facts(of, oldest)).collect())
}

fn is_about(alert: &StoredAlert, condition: &Condition) -> bool {
    (alert.kind, &alert.subject) == (condition.kind, &condition.subject)
}

/// The consumers that have given up an event and have no delivery of it.
fn given_up_by(record: &Record) -> Vec<Dead> {
    let states = record.consumers().into_iter().filter(|(_, state)| *state == ConsumerState::Failed);
    let dead = states.filter_map(|(consumer, _)| {
        let attempts = record.consumptions.iter().filter(|one| one.consumer == consumer);
        let last = attempts.max_by_key(|one| one.attempt)?;
        let is_discarded = last.code.as_deref() == Some(DISCARDED);
        let has_delivery = record.deliveries.iter().any(|one| one.consumer() == Some(consumer));
        (!is_discarded && !has_delivery).then(|| Dead {
            consumer: consumer.into(),
            event_id: record.envelope.event_id.to_string(),
            code: last.code.clone(),
            key: record.envelope.key.clone(),
            died_at: last.created_at,
            held: 0,
        })
    });
    dead.collect()
}

/// What one call of [`Alerting::run`] remembers.
#[derive(Default)]
struct Work {
    lease: KeptLease,
    stalls: Stalls,
    /// Messages in a row that could not be sent, and when the next one is tried.
    failures: u32,
    rest_until: Option<Instant>,
    away: Option<Away>,
    /// Messages about the store, with their ids.
    kept: VecDeque<(String, Notice)>,
}

/// A store that does not answer.
struct Away {
    alert_id: String,
    since: OffsetDateTime,
    began: Instant,
    /// Whether it has been away for long enough.
    fires: bool,
    error: String,
}
