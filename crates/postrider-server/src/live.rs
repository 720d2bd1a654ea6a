//! What has changed since the last look. One task looks for all who watch, and for nobody while nobody does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::status::EventStatus;
use postrider::store::{Filter, Found, List};
use serde::Serialize;

use crate::App;
use crate::routes::live::{Stats, consumers, operations, stats};
use crate::view::EventSummary;

/// How often to look, while somebody watches.
const LOOK: Duration = Duration::from_secs(1);
/// The newest events that are looked at.
const NEWEST: u32 = 200;
/// Events of each status that is not final, the newest.
const OPEN: u32 = 100;
/// Events that are looked for one by one, because they have left their list.
const GONE: usize = 100;
/// Operations that are looked at.
const OPERATIONS: u32 = 20;
/// Minutes of figures in each message: the last whole one and the current.
const MINUTES: i64 = 2;
/// Messages that a slow reader may be behind.
pub(crate) const BEHIND: usize = 1_000;

/// One message.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) kind: &'static str,
    pub(crate) json: Arc<str>,
}

/// What was seen at the last look.
#[derive(Default)]
struct Seen {
    /// How each event stood. None: there was no look yet, and nothing is news.
    events: Option<HashMap<String, Stand>>,
    newest: i64,
    consumers: HashMap<String, Arc<str>>,
    operations: HashMap<String, Arc<str>>,
}

/// What of an event is news when it changes: status, redrives, consumed and failed consumers.
type Stand = (EventStatus, u32, u32, u32);

/// Looks until the server stops.
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
        if let Err(error) = seen.look(&app).await {
            tracing::warn!(%error, "nobody can be told what happens: the store is away");
        }
    }
}

impl Seen {
    async fn look(&mut self, app: &App) -> Result<()> {
        self.look_at_events(app).await?;
        for one in consumers(app).await? {
            let (id, json) = (one.consumer_id.clone(), json(&one));
            told(app, "consumer", &mut self.consumers, id, json);
        }
        for one in operations(app, OPERATIONS).await? {
            let (id, json) = (one.operation_id.clone(), json(&one));
            told(app, "operation", &mut self.operations, id, json);
        }
        let stats: Stats = stats(app, MINUTES).await?;
        tell(app, "stats", json(&stats));
        Ok(())
    }

    async fn look_at_events(&mut self, app: &App) -> Result<()> {
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
                Some(before) if *before != stand => tell(app, "status", json(&EventSummary::from(record))),
                None if record.sequence > self.newest => tell(app, "event", json(&EventSummary::from(record))),
                _ => {}
            }
            now.insert(id, stand);
        }
        self.newest = records.iter().map(|record| record.sequence).fold(self.newest, i64::max);
        self.events = Some(now);
        Ok(())
    }
}

fn stand(record: &Found) -> (String, Stand) {
    let standing = record.standing();
    let stand = (standing.status, standing.redrives, standing.consumed, standing.failed);
    (record.envelope.event_id.to_string(), stand)
}

fn json(thing: &impl Serialize) -> Arc<str> {
    serde_json::to_string(thing).unwrap_or_default().into()
}

/// Tells what is not as it was.
fn told(app: &App, kind: &'static str, seen: &mut HashMap<String, Arc<str>>, id: String, json: Arc<str>) {
    if seen.get(&id) != Some(&json) {
        tell(app, kind, Arc::clone(&json));
        seen.insert(id, json);
    }
}

fn tell(app: &App, kind: &'static str, json: Arc<str>) {
    // Nobody may be left to hear it.
    let _ = app.live.send(Told { kind, json });
}
