//! Changes since the last poll, for all open streams. One task polls the store, and only while a stream is open.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postrider::status::EventStatus;
use postrider::store::{Filter, List, Record};
use postrider::{Result, Scope};
use serde::Serialize;

use crate::App;
use crate::routes::live::{ConsumerView, OperationView, Stats, consumers, operations, stats};
use crate::view::EventSummary;

/// The poll interval while a stream is open.
const LOOK: Duration = Duration::from_secs(1);
/// The newest events that are compared.
const NEWEST: u32 = 200;
/// The newest events of each status that is not final.
const OPEN: u32 = 100;
/// Events that are read one by one, because they have left their list.
const GONE: usize = 100;
/// Operations that are compared.
const OPERATIONS: u32 = 20;
/// Minutes of figures in each message: the last whole minute and the current one.
const MINUTES: i64 = 2;
/// Messages that are buffered for a slow reader.
pub(crate) const BEHIND: usize = 1_000;

/// One message.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) kind: &'static str,
    json: Arc<str>,
    about: About,
}

/// What a message is about, for tokens with a scope.
#[derive(Clone)]
enum About {
    Event(Arc<Record>),
    Consumer(Arc<ConsumerView>),
    Operation(Arc<OperationView>),
    /// Figures of all consumers.
    Whole,
}

impl Message {
    /// Its JSON as a token with this scope sees it; `None` if it is about something outside.
    pub(crate) fn within(&self, scope: &Scope) -> Option<Arc<str>> {
        if scope.is_everything() {
            return Some(Arc::clone(&self.json));
        }
        match &self.about {
            About::Event(found) if scope.has_event(found) => {
                let mut found = Record::clone(found);
                scope.cut(&mut found);
                Some(json(&EventSummary::from(&found)))
            }
            About::Consumer(one) => ConsumerView::clone(one).within(scope).map(|one| json(&one)),
            About::Operation(one) if one.is_within(scope) => Some(Arc::clone(&self.json)),
            About::Event(_) | About::Operation(_) | About::Whole => None,
        }
    }
}

/// The state at the last poll.
#[derive(Default)]
struct Seen {
    /// The state of each event; `None` before the first poll, which reports nothing.
    events: Option<HashMap<String, Stand>>,
    newest: i64,
    consumers: HashMap<String, Arc<str>>,
    operations: HashMap<String, Arc<str>>,
}

/// The part of an event whose change is reported: status, redrives, consumed and failed consumers.
type Stand = (EventStatus, u32, u32, u32);

/// Polls until the server stops.
pub(crate) async fn watch(app: App) {
    let mut seen = Seen::default();
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.look.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        if app.live.receiver_count() == 0 {
            seen = Seen::default();
            continue;
        }
        if let Err(error) = seen.poll(&app).await {
            tracing::warn!(%error, "open streams get no changes: the store is away");
        }
    }
}

impl Seen {
    async fn poll(&mut self, app: &App) -> Result<()> {
        self.poll_events(app).await?;
        for one in consumers(app).await? {
            let (id, json) = (one.consumer_id.clone(), json(&one));
            send_changed(app, "consumer", &mut self.consumers, id, json, About::Consumer(Arc::new(one)));
        }
        for one in operations(app, OPERATIONS).await? {
            let (id, json) = (one.operation_id.clone(), json(&one));
            send_changed(app, "operation", &mut self.operations, id, json, About::Operation(Arc::new(one)));
        }
        let stats: Stats = stats(app, MINUTES).await?;
        send(app, "stats", json(&stats), About::Whole);
        Ok(())
    }

    async fn poll_events(&mut self, app: &App) -> Result<()> {
        let list = async |status, limit| {
            let filter = Filter { status, ..Filter::default() };
            app.store.list(&List::new(filter, limit)).await.map(|page| page.events)
        };
        let mut records = list(None, NEWEST).await?;
        for status in [EventStatus::Sent, EventStatus::Retrying, EventStatus::Partial, EventStatus::Failed] {
            records.extend(list(Some(status), OPEN).await?);
        }
        let Some(known) = self.events.take() else {
            self.newest = records.iter().map(|record| record.sequence).max().unwrap_or_default();
            self.events = Some(records.iter().map(stand).collect());
            return Ok(());
        };
        let found: HashSet<&str> = records.iter().map(|record| record.envelope.event_id.as_str()).collect();
        let gone = known.iter().filter(|(id, (status, ..))| !status.is_final() && !found.contains(id.as_str()));
        let gone: Vec<String> = gone.map(|(id, _)| id.clone()).take(GONE).collect();
        for id in &gone {
            records.extend(app.store.find(id).await?);
        }
        let mut now = HashMap::with_capacity(records.len());
        for record in &records {
            let (id, stand) = stand(record);
            match known.get(&id) {
                _ if now.contains_key(&id) => continue,
                Some(before) if *before != stand => send_event(app, "status", record),
                None if record.sequence > self.newest => send_event(app, "event", record),
                _ => {}
            }
            now.insert(id, stand);
        }
        self.newest = records.iter().map(|record| record.sequence).fold(self.newest, i64::max);
        self.events = Some(now);
        Ok(())
    }
}

fn stand(record: &Record) -> (String, Stand) {
    let standing = record.standing();
    let stand = (standing.status, standing.redrives, standing.consumed, standing.failed);
    (record.envelope.event_id.to_string(), stand)
}

fn json(thing: &impl Serialize) -> Arc<str> {
    serde_json::to_string(thing).unwrap_or_default().into()
}

/// Sends what has changed.
fn send_changed(
    app: &App,
    kind: &'static str,
    seen: &mut HashMap<String, Arc<str>>,
    id: String,
    json: Arc<str>,
    about: About,
) {
    if seen.get(&id) != Some(&json) {
        send(app, kind, Arc::clone(&json), about);
        seen.insert(id, json);
    }
}

fn send_event(app: &App, kind: &'static str, record: &Record) {
    send(app, kind, json(&EventSummary::from(record)), About::Event(Arc::new(record.clone())));
}

fn send(app: &App, kind: &'static str, json: Arc<str>, about: About) {
    // Fails if the last stream has just been closed.
    let _ = app.live.send(Message { kind, json, about });
}
