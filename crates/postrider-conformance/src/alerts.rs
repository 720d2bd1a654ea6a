//! `alerts`, `begin_alert`, `end_alert`, `note_alert_sent`, and the loop over them: each alert is sent once when it begins and
//! once when it is over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider::Via;
use postrider::alert::{AlertKind, AlertRules, AlertState, Alerting, Notice, Notify};
use postrider::prelude::*;
use postrider::store::{Claim, DeadHead, History, NewAlert};
use tokio::sync::Semaphore;

use crate::Harness;
use crate::fold::{fold_all, report};
use crate::steps::*;

fn new<'a>(id: &'a str, subject: &'a str) -> NewAlert<'a> {
    NewAlert { alert_id: id, kind: AlertKind::Dead, subject: Some(subject), details: r#"{"figures":{}}"# }
}

/// G.10: it stays until its end was sent, whatever comes in between.
pub async fn an_alert_is_open_until_its_end_is_sent<H: Harness>(h: H) {
    let store = h.store();
    assert!(store.begin_alert(&new("1", LANE)).await.unwrap());
    let [open] = &store.alerts().await.unwrap()[..] else { panic!("one") };
    assert_eq!((open.alert_id.as_str(), open.kind, open.subject.as_deref()), ("1", AlertKind::Dead, Some(LANE)));
    assert_eq!((open.details.as_str(), open.sent, open.over_at), (r#"{"figures":{}}"#, false, None));
    assert!((store.now().await.unwrap() - open.since).unsigned_abs() < MINUTE, "{open:?}");
    store.note_alert_sent("1", AlertState::Over).await.unwrap();
    store.note_alert_sent("1", AlertState::Firing).await.unwrap();
    assert!(store.alerts().await.unwrap()[0].sent, "its end cannot be sent before it comes");
    assert!(store.end_alert("1").await.unwrap());
    assert!(!store.end_alert("1").await.unwrap(), "once");
    assert!(store.alerts().await.unwrap()[0].over_at.is_some());
    assert!(!store.begin_alert(&new("2", LANE)).await.unwrap(), "its end is still to be sent");
    store.note_alert_sent("1", AlertState::Over).await.unwrap();
    assert!(store.alerts().await.unwrap().is_empty());
    assert!(store.begin_alert(&new("2", LANE)).await.unwrap());
}

/// G.10: two instances that see the same begin one alert. Subjects are compared byte for byte.
pub async fn one_of_each_kind_and_subject_is_open<H: Harness>(h: H) {
    let begun = (0..8).map(|n| {
        let h = h.clone();
        async move { h.store().begin_alert(&new(&n.to_string(), LANE)).await.unwrap() }
    });
    assert_eq!(together(begun).await.into_iter().filter(|begun| *begun).count(), 1);
    assert!(h.store().begin_alert(&new("other", "Points")).await.unwrap());
    let stalled = NewAlert { kind: AlertKind::Stalled, ..new("stalled", LANE) };
    assert!(h.store().begin_alert(&stalled).await.unwrap());
    assert_eq!(h.store().alerts().await.unwrap().len(), 3);
}

/// Keeps what was sent, with its id. The first `fails` messages are refused.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<(String, Notice)>>>, Arc<tokio::sync::Notify>, Arc<AtomicUsize>);

#[async_trait]
impl Notify for Sent {
    async fn notify(&self, id: &str, notice: &Notice) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.lock().unwrap().push((id.into(), notice.clone()));
        self.1.notify_one();
        let is_refused = self.2.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if is_refused { Err("refused".into()) } else { Ok(()) }
    }
}

impl Sent {
    fn refusing(first: usize) -> Self {
        Self(Arc::default(), Arc::default(), Arc::new(AtomicUsize::new(first)))
    }

    fn all(&self) -> Vec<(String, Notice)> {
        self.0.lock().unwrap().clone()
    }

    /// Alerts until so many messages were sent in all, and what was sent is noted in the store.
    async fn run_until<H: Harness>(&self, h: &H, messages: usize) {
        let alerting =
            Alerting::new(h.store().clone()).rules(AlertRules::default()).environment("test").notify(self.clone());
        let noted = async {
            while self.all().len() < messages {
                self.1.notified().await;
            }
            // A look ends with the note of what it has sent; the next one finds nothing to do.
            while h.store().alerts().await.unwrap().iter().any(|one| !one.sent || one.over_at.is_some()) {
                tokio::task::yield_now().await;
            }
        };
        alerting.run(noted).await.unwrap();
    }
}

async fn bury_the_first(h: &impl Harness) {
    let lease = h.store().claim_keyed(&wanted(1), DeadHead::Hold).await.unwrap();
    h.store().bury(lease.token, &[buried(lease.ids()[0])], History::Keep).await.unwrap();
}

/// G.10: a dead delivery with what waits behind it, and the end when it is redriven.
pub async fn a_dead_delivery_is_sent_once_and_once_when_it_is_over<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_the_first(&h).await;
    let sent = Sent::default();
    sent.run_until(&h, 1).await;
    let (id, notice) = &sent.all()[0];
    assert_eq!(
        (notice.alert, notice.state, notice.environment.as_str()),
        (AlertKind::Dead, AlertState::Firing, "test")
    );
    let details = &notice.details;
    assert_eq!((details.consumer.as_deref(), details.event_id.as_deref()), (Some(LANE), Some("a1")));
    assert_eq!((details.code.as_deref(), details.key.as_deref(), details.held), (Some("E1"), Some("a"), Some(2)));
    assert_eq!(details.figures["dead"], 1);
    h.store().redrive("a1", LANE, None).await.unwrap();
    sent.run_until(&h, 2).await;
    let (end_id, end) = &sent.all()[1];
    assert_eq!((end.alert, end.state, end.since), (AlertKind::Dead, AlertState::Over, notice.since));
    assert_eq!(id.strip_suffix("-firing"), end_id.strip_suffix("-over"), "{id} and {end_id}");
    assert_eq!(sent.all().len(), 2);
}

/// G.10: the state is in the store, so that another process sends nothing again, and completes what is missing.
pub async fn a_restart_repeats_nothing<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, keyed("a", 1)).await;
    bury_the_first(&h).await;
    let sent = Sent::default();
    sent.run_until(&h, 1).await;
    let next = Sent::default();
    let other = Claim { lane: "other".into(), ..wanted(1) };
    let lease = h.store().claim_keyed(&other, DeadHead::Hold).await.unwrap();
    h.store().bury(lease.token, &[buried(lease.ids()[0])], History::Keep).await.unwrap();
    next.run_until(&h, 1).await;
    let subjects: Vec<_> = next.all().into_iter().map(|(_, one)| one.details.consumer.unwrap()).collect();
    assert_eq!(subjects, ["other"], "the alert of {LANE} is known");
}

/// A message that is on its way until there are permits.
struct OnItsWay(Sent, Arc<Semaphore>);

#[async_trait]
impl Notify for OnItsWay {
    async fn notify(&self, id: &str, notice: &Notice) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.notify(id, notice).await?;
        let _permit = self.1.acquire().await?;
        Ok(())
    }
}

/// G.10: while one instance sends, another one sends nothing.
pub async fn one_of_two_instances_sends<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 1)).await;
    bury_the_first(&h).await;
    let (sent, permits) = (Sent::default(), Arc::new(Semaphore::new(0)));
    let first = Alerting::new(h.store().clone()).notify(OnItsWay(sent.clone(), Arc::clone(&permits)));
    let beside = async {
        sent.1.notified().await;
        let other = Alerting::new(h.store().clone()).notify(sent.clone());
        // It looks at once. That it sends nothing has no other signal than time.
        other.run(tokio::time::sleep(Duration::from_secs(1))).await.unwrap();
        permits.add_permits(1);
        while h.store().alerts().await.unwrap().iter().any(|one| !one.sent) {
            tokio::task::yield_now().await;
        }
    };
    first.run(beside).await.unwrap();
    assert_eq!(sent.all().len(), 1, "{:?}", sent.all());
    h.store().redrive("a1", LANE, None).await.unwrap();
    sent.run_until(&h, 2).await;
    assert_eq!(sent.all().len(), 2, "{:?}", sent.all());
}

/// G.10: a message that is refused is sent again under the same id, and the beginning is never left out.
pub async fn a_failed_message_is_sent_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 1)).await;
    bury_the_first(&h).await;
    let sent = Sent::refusing(1);
    sent.run_until(&h, 2).await;
    let all = sent.all();
    assert_eq!((all.len(), &all[0]), (2, &all[1]), "the same message");
}

/// G.10, A.5: what a remote consumer has given up is alerted like a dead delivery.
pub async fn a_consumer_that_reports_is_alerted_too<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "remote", Via::External).await;
    enqueue_one(&h, draft("e")).await;
    h.store().append_consumption(&report("e", "remote", false, false)).await.unwrap();
    fold_all(&h).await;
    let sent = Sent::default();
    sent.run_until(&h, 1).await;
    let details = sent.all()[0].1.details.clone();
    assert_eq!((details.consumer.as_deref(), details.event_id.as_deref()), (Some("remote"), Some("e")));
    h.store().append_consumption(&report("e", "remote", true, false)).await.unwrap();
    fold_all(&h).await;
    sent.run_until(&h, 2).await;
    assert_eq!(sent.all()[1].1.state, AlertState::Over);
}
