//! The audit: what was done, by whom, and a chain of hashes that shows a missing or changed record.
//!
//! A record is written in the transaction of its change. A chain that each of them continued would let only one change commit at a
//! time, so a sealer gives the records their places afterwards. The hash of a record covers its content, its place and the hash
//! before it. The end of the chain is stored apart, so that the removal of the last records shows too. Pruning leaves an anchor:
//! the place and the hash of the last record that was removed.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::access::Role;
use super::{NewOperation, OperationState, Renamed};
use crate::error::Result;
use crate::limits;
use crate::status::Record;
use crate::subscription::Subscription;

/// Records that the check reads at once.
const CHECKED: u32 = 500;
/// Characters of a state before or after a change: a long description is cut.
const STATE_CHARS: usize = 8_000;

/// The audit log of a server. Object safe, and part of every [`Store`](super::Store).
#[async_trait]
pub trait AuditLog: Send + Sync + 'static {
    /// Appends a record. Its content is never changed.
    async fn append_audit(&self, record: &NewAudit<'_>) -> Result<()>;

    /// The records that a query matches, newest first.
    async fn find_audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>>;

    /// Up to `limit` records, newest first: those before the record with the number `before`, or the newest.
    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditRecord>> {
        self.find_audit(&AuditQuery { before, limit, ..AuditQuery::default() }).await
    }

    /// Gives up to `limit` records that have no place in the chain yet the next places, in the order of their numbers. A lock on the
    /// end of the chain lets one sealer work at a time. Returns how many there were.
    async fn seal_audit(&self, limit: u32) -> Result<u64>;

    /// The anchor and the end of the chain.
    async fn audit_ends(&self) -> Result<AuditEnds>;

    /// Up to `limit` sealed records after a place, in the order of their places.
    async fn audit_chain(&self, after: i64, limit: u32) -> Result<Vec<Sealed>>;

    /// Removes up to `limit` of the first records of the chain that are older, and moves the anchor to the last of them. Returns how
    /// many there were.
    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64>;
}

/// An action, or an attempt at one, to be recorded.
#[derive(Debug, Clone, Default)]
pub struct NewAudit<'a> {
    /// The actor: the name of a token or of a program.
    pub actor: &'a str,
    /// The token that was used.
    pub token_id: Option<&'a str>,
    /// Its role.
    pub role: Option<Role>,
    /// The action.
    pub action: &'a str,
    /// The target of the action.
    pub target: Option<&'a str>,
    /// The outcome.
    pub outcome: &'a str,
    /// Why it was done.
    pub reason: Option<&'a str>,
    /// The request that it belongs to.
    pub request_id: Option<&'a str>,
    /// Other details.
    pub detail: Option<&'a str>,
}

/// A record of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its number. Later records have larger numbers.
    pub number: i64,
    /// When it happened.
    pub at: OffsetDateTime,
    /// The actor.
    pub actor: String,
    /// The token that was used.
    pub token_id: Option<String>,
    /// The role of the token.
    pub role: Option<String>,
    /// The action.
    pub action: String,
    /// The target of the action.
    pub target: Option<String>,
    /// The outcome.
    pub outcome: String,
    /// Why it was done.
    pub reason: Option<String>,
    /// The request that it belongs to.
    pub request_id: Option<String>,
    /// Other details.
    pub detail: Option<String>,
    /// What was there before the change, as JSON.
    pub before: Option<String>,
    /// What was there after the change, as JSON.
    pub after: Option<String>,
}

/// Which records to read. An empty field matches everything.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Those before the record with this number.
    pub before: Option<i64>,
    /// Records at most.
    pub limit: u32,
    /// The actor.
    pub actor: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// The target.
    pub target: Option<String>,
    /// At this time or later.
    pub from: Option<OffsetDateTime>,
    /// Before this time.
    pub to: Option<OffsetDateTime>,
}

/// A place in the chain and its hash. Place 0 is before the first record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// The first record has place 1.
    pub place: i64,
    /// The hash at this place.
    pub hash: String,
}

/// Where the chain begins and ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditEnds {
    /// The last record that was pruned.
    pub anchor: Link,
    /// The last record that was sealed.
    pub head: Link,
}

/// A record with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Its place and hash.
    pub link: Link,
    /// The record.
    pub record: AuditRecord,
}

/// What a check of the chain has found wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFault {
    /// The record at this place is missing.
    Missing(i64),
    /// The record at this place, or a hash, was changed.
    Changed(i64),
}

impl std::fmt::Display for AuditFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(place) => write!(f, "the record at place {place} of the audit is missing"),
            Self::Changed(place) => write!(f, "the record at place {place} of the audit was changed"),
        }
    }
}

impl Link {
    /// The link of the next record.
    pub(super) fn next(&self, record: &AuditRecord) -> Self {
        let place = self.place + 1;
        let content = json!([
            place,
            self.hash,
            record.number,
            record.at.unix_timestamp_nanos().to_string(),
            record.actor,
            record.token_id,
            record.role,
            record.action,
            record.target,
            record.outcome,
            record.reason,
            record.request_id,
            record.detail,
            record.before,
            record.after,
        ]);
        Self { place, hash: hex::encode(Sha256::digest(content.to_string())) }
    }
}

/// What a check of the chain has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditCheck {
    /// So many records are sealed, and none is missing or changed.
    Whole(u64),
    /// The first fault.
    Broken(AuditFault),
}

/// Checks the whole chain.
pub async fn verify_audit(store: &(impl AuditLog + ?Sized)) -> Result<AuditCheck> {
    loop {
        let ends = store.audit_ends().await?;
        let found = check_chain(store, &ends).await?;
        // Records that were pruned during the check are not missing.
        if matches!(found, AuditCheck::Whole(_)) || store.audit_ends().await?.anchor == ends.anchor {
            return Ok(found);
        }
    }
}

async fn check_chain(store: &(impl AuditLog + ?Sized), ends: &AuditEnds) -> Result<AuditCheck> {
    let broken = |fault| Ok(AuditCheck::Broken(fault));
    let mut last = ends.anchor.clone();
    while last.place < ends.head.place {
        let page = store.audit_chain(last.place, CHECKED).await?;
        if page.is_empty() {
            return broken(AuditFault::Missing(last.place + 1));
        }
        for sealed in page.iter().take_while(|sealed| sealed.link.place <= ends.head.place) {
            let expected = last.next(&sealed.record);
            if sealed.link.place != expected.place {
                return broken(AuditFault::Missing(expected.place));
            }
            if sealed.link != expected {
                return broken(AuditFault::Changed(expected.place));
            }
            last = expected;
        }
    }
    if last != ends.head {
        return broken(AuditFault::Changed(last.place));
    }
    Ok(AuditCheck::Whole((ends.head.place - ends.anchor.place).unsigned_abs()))
}

tokio::task_local! {
    static PENDING: Pending;
}

/// The record of a change that has not happened yet.
#[derive(Clone)]
struct Pending {
    record: Arc<Mutex<AuditText>>,
    written: Arc<AtomicBool>,
}

/// Work that has been done, and what became of its record.
#[derive(Debug, Clone)]
pub struct Audited<T> {
    /// What the work returned.
    pub done: T,
    /// Whether the record was committed with a change; otherwise the caller appends one of the attempt.
    pub written: bool,
    /// Why it was done, as given to [`explain`].
    pub reason: Option<String>,
    /// Other details, as given to [`explain`].
    pub detail: Option<String>,
}

/// Runs `work`. The first change of a store in it commits together with the record.
pub async fn audited<T>(record: &NewAudit<'_>, work: impl Future<Output = T>) -> Audited<T> {
    let written = Arc::new(AtomicBool::new(false));
    let record = Arc::new(Mutex::new(AuditText::from(record)));
    let pending = Pending { record: Arc::clone(&record), written: Arc::clone(&written) };
    let done = PENDING.scope(pending, work).await;
    let record = record.lock().unwrap_or_else(PoisonError::into_inner);
    Audited {
        done,
        written: written.load(Ordering::Relaxed),
        reason: record.reason.clone(),
        detail: record.detail.clone(),
    }
}

/// Adds to the record of the running call why it is done, and other details. Without such a record nothing happens.
pub fn explain(reason: Option<&str>, detail: Option<&str>) {
    let _ = PENDING.try_with(|pending| {
        let more = AuditText::from(&NewAudit { reason, detail, ..NewAudit::default() });
        let mut record = pending.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.reason = more.reason.or(record.reason.take());
        record.detail = more.detail.or(record.detail.take());
    });
}

/// What a change has done.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

impl Change {
    pub(super) fn new(before: impl Into<Option<Value>>, after: impl Into<Option<Value>>) -> Self {
        Self { before: before.into(), after: after.into() }
    }

    /// A token was revoked.
    pub(super) fn revoked() -> Self {
        Self::new(json!({ "revoked": false }), json!({ "revoked": true }))
    }

    /// An event was redriven, expired or discarded.
    pub(super) fn event(before: &Record, after: &Record) -> Self {
        let state = |record: &Record| {
            let standing = record.standing();
            json!({ "status": standing.status, "redrives": standing.redrives, "deliveries": record.deliveries.len() })
        };
        Self::new(state(before), state(after))
    }

    /// A subscription was written or removed; `done` is what became of the deliveries.
    pub(super) fn subscription(before: Option<&Subscription>, after: Option<&Subscription>, done: Value) -> Self {
        let state = |one: &Subscription| {
            json!({
                "enabled": one.enabled, "via": one.via.as_str(), "sortOrder": one.sort_order, "description": one.description,
                "endpoint": one.endpoint.as_deref().map(without_credentials), "exchange": one.exchange,
                "routingKey": one.routing_key, "ratePerSecond": one.rate_per_second,
                "timeoutSeconds": one.timeout_seconds, "maxAttempts": one.max_attempts,
            })
        };
        let mut after = after.map_or_else(|| json!({ "removed": true }), state);
        if let (Value::Object(after), Value::Object(done)) = (&mut after, done) {
            after.extend(done);
        }
        Self::new(before.map(state), after)
    }

    /// A consumer has another name.
    pub(super) fn renamed(from: &str, to: &str, renamed: &Renamed) -> Self {
        let after = json!({
            "consumerId": to, "subscriptions": renamed.subscriptions, "deliveries": renamed.deliveries,
            "received": renamed.received, "attempts": renamed.attempts,
        });
        Self::new(json!({ "consumerId": from }), after)
    }

    /// A lane was paused or resumed.
    pub(super) fn paused(paused: bool) -> Self {
        Self::new(json!({ "paused": !paused }), json!({ "paused": paused }))
    }

    /// A bulk operation was created.
    pub(super) fn created(new: &NewOperation) -> Self {
        let operation = json!({
            "operationId": new.id, "state": "RUNNING", "filter": new.filter, "consumerId": new.consumer,
            "ratePerSecond": new.rate_per_second, "total": new.total, "ramp": new.ramp.as_ref().map(|ramp| &ramp.sizes),
            "stopAbovePercent": new.ramp.as_ref().map(|ramp| ramp.stop_above_percent), "oldestFirst": new.oldest_first,
        });
        Self::new(None, operation)
    }

    /// A bulk operation was paused, resumed or cancelled.
    pub(super) fn steered(before: &str, after: OperationState) -> Self {
        Self::new(json!({ "state": before }), json!({ "state": after.as_str() }))
    }

    /// The record to write in the transaction of this change, if the caller is audited.
    pub(super) fn record(&self) -> Option<AuditText> {
        let pending = PENDING.try_with(Clone::clone).ok()?;
        if pending.written.load(Ordering::Relaxed) {
            return None;
        }
        let state = |state: &Option<Value>| {
            state.as_ref().map(|state| state.to_string().chars().take(STATE_CHARS).collect::<String>())
        };
        let record = pending.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(AuditText { before: state(&self.before), after: state(&self.after), ..record })
    }
}

/// An endpoint without user name and password. The audit is for people who may not see them.
fn without_credentials(endpoint: &str) -> String {
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("", endpoint));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://***@{host}{path}"),
        None => endpoint.into(),
    }
}

/// The transaction of the change has committed, and its record with it.
pub(super) fn committed() {
    let _ = PENDING.try_with(|pending| pending.written.store(true, Ordering::Relaxed));
}

/// A record as text that every store accepts: shortened and without NUL, because a record is never refused for its
/// content.
#[derive(Debug, Clone)]
pub(super) struct AuditText {
    pub(super) actor: String,
    pub(super) token_id: Option<String>,
    pub(super) role: Option<String>,
    pub(super) action: String,
    pub(super) target: Option<String>,
    pub(super) outcome: String,
    pub(super) reason: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl From<&NewAudit<'_>> for AuditText {
    fn from(record: &NewAudit<'_>) -> Self {
        let cut = |text: &str, chars| limits::error_text(text).chars().take(chars).collect::<String>();
        let label = |text: &str| cut(text, limits::LABEL_CHARS);
        Self {
            actor: label(record.actor),
            token_id: record.token_id.map(label),
            role: record.role.map(|role| role.as_str().into()),
            action: label(record.action),
            target: record.target.map(|text| cut(text, limits::AUDIT_TARGET_CHARS)),
            outcome: label(record.outcome),
            reason: record.reason.map(|text| cut(text, limits::ERROR_CHARS)),
            request_id: record.request_id.map(label),
            detail: record.detail.map(|text| cut(text, limits::ERROR_CHARS)),
            before: None,
            after: None,
        }
    }
}

impl AuditText {
    /// As it is read.
    pub(super) fn record(self, number: i64, at: OffsetDateTime) -> AuditRecord {
        AuditRecord {
            number,
            at,
            actor: self.actor,
            token_id: self.token_id,
            role: self.role,
            action: self.action,
            target: self.target,
            outcome: self.outcome,
            reason: self.reason,
            request_id: self.request_id,
            detail: self.detail,
            before: self.before,
            after: self.after,
        }
    }
}
