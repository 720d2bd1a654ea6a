//! Claim: a consumer takes due deliveries, and may wait for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use postrider::consumer::Cause;
use postrider::entry::{self, Outcome};
use postrider::observe::LaneFigures;
use postrider::store::{Buried, Claim, DeliveryId, History, Lease, Token};
use postrider::{Via, alert};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Known;
use crate::auth::{self, Caller};
use crate::input::{Body, Path};
use crate::problem::Problem;
use crate::view::{EventView, delivery_id};
use crate::{App, limits};

/// How often a wait for a paused lane is checked: a pause wakes no one.
const WHILE_PAUSED: Duration = Duration::from_secs(1);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(claim))
}

/// How much to take.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewClaim)]
struct ClaimIn {
    /// Deliveries at most; fewer come if their payloads have more than `limits.claim-bytes` together.
    #[schema(minimum = 1, maximum = 500)]
    max: u32,
    /// For how long they are the caller's; 30 where it is missing.
    #[schema(minimum = 1, maximum = 3600)]
    lease_seconds: Option<u64>,
    /// How long to wait where there is nothing yet.
    #[schema(maximum = 55)]
    wait_seconds: Option<u64>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ClaimedDelivery)]
struct ClaimedView {
    delivery_id: String,
    /// Proves the claim; to be sent with its result.
    lease_token: String,
    /// Which attempt this is; the first is 1.
    attempt: u32,
    event: EventView,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ClaimedDeliveries)]
struct Claimed {
    deliveries: Vec<ClaimedView>,
}

/// Take deliveries under a lease, waiting for them if asked to
///
/// Events of one key come in their order: settle them in it.
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/claim", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")), request_body = ClaimIn,
    responses(
        (status = 200, description = "What is the caller's now; nothing, if nothing came in time.", body = Claimed),
        (status = 409, description = "`notPull`: this consumer gets its events another way.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn claim(
    State(app): State<App>,
    caller: Caller,
    Path(consumer): Path<String>,
    Body(wanted): Body<ClaimIn>,
) -> Result<Json<Claimed>, Problem> {
    let lease = lease(&app, wanted.lease_seconds)?;
    if wanted.max == 0 || wanted.max > limits::CLAIM_DELIVERIES {
        return Err(Problem::invalid("max", format!("must be 1 to {}, is {}", limits::CLAIM_DELIVERIES, wanted.max)));
    }
    let wait = wanted.wait_seconds.unwrap_or_default();
    let longest = app.options.longest_wait.as_secs();
    if wait > longest {
        return Err(Problem::invalid("waitSeconds", format!("must be 0 to {longest}, is {wait}")));
    }
    let known = Known::owned(&app, &caller, &consumer).await?;
    let held = app.holders.poll(&caller.token_id);
    if known.via != Via::Pull {
        let via = known.via.as_str();
        let detail = format!("{consumer} gets its events by {via}: only a consumer via `pull` claims");
        return Err(Problem::conflict("notPull", detail));
    }
    let bytes = app.options.claim_bytes;
    let claim = Claim { lease, bytes, owner: owner(&caller), ..Claim::new(&*consumer, wanted.max) };
    let until = Instant::now() + Duration::from_secs(wait);
    app.store.wake().presence().note_claim(&consumer);
    let place = app.waiting.join(&consumer);
    loop {
        let is_paused = app.store.paused().await?.contains(&consumer);
        let (deliveries, rest) = match allowed(&app, &known, &claim) {
            _ if is_paused => (Vec::new(), Some(WHILE_PAUSED)),
            Ok(limit) => (take(&app, &known, &Claim { limit, ..claim.clone() }).await?, None),
            Err(rest) => (Vec::new(), Some(rest)),
        };
        if !deliveries.is_empty() {
            place.wake_next();
            return Ok(Json(Claimed { deliveries }));
        }
        let again = async {
            match rest {
                Some(rest) => tokio::time::sleep(rest).await,
                None => place.due().await,
            }
        };
        tokio::select! {
            () = again => {}
            () = tokio::time::sleep_until(until) => return Ok(Json(Claimed { deliveries })),
            () = app.stop.cancelled() => return Ok(Json(Claimed { deliveries })),
            () = held.ended() => return Err(auth::unknown()),
        }
    }
}

/// The owner of a lease, as operators see it.
fn owner(caller: &Caller) -> String {
    caller.name.chars().take(limits::LABEL_CHARS).collect()
}

pub(super) fn lease(app: &App, seconds: Option<u64>) -> Result<Duration, Problem> {
    match seconds {
        None => Ok(app.options.lease),
        Some(seconds) if (1..=limits::LEASE_SECONDS).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        Some(seconds) => {
            Err(Problem::invalid("leaseSeconds", format!("must be 1 to {}, is {seconds}", limits::LEASE_SECONDS)))
        }
    }
}

/// How many of the wanted deliveries the consumer may have now. The error is how long until there is one.
fn allowed(app: &App, known: &Known, claim: &Claim) -> Result<u32, Duration> {
    match known.per_second {
        Some(per_second) => app.paces.take(&claim.lane, per_second, claim.limit),
        None => {
            app.paces.forget(&claim.lane);
            Ok(claim.limit)
        }
    }
}

/// Claims deliveries with and without a key; which comes first alternates, so that neither starves.
async fn take(app: &App, known: &Known, claim: &Claim) -> Result<Vec<ClaimedView>, Problem> {
    let taken = take_both(app, known, claim).await;
    let used = taken.as_ref().map_or(0, Vec::len);
    app.paces.give_back(&claim.lane, claim.limit.saturating_sub(u32::try_from(used).unwrap_or(claim.limit)));
    taken
}

async fn take_both(app: &App, known: &Known, claim: &Claim) -> Result<Vec<ClaimedView>, Problem> {
    let (mut taken, mut bytes) = (Vec::new(), claim.bytes);
    let keyed_first = Token::fresh().0 % 2 == 0;
    for keyed in [keyed_first, !keyed_first] {
        let limit = claim.limit - u32::try_from(taken.len()).unwrap_or(claim.limit);
        if limit == 0 || bytes == 0 {
            break;
        }
        let claim = Claim { limit, bytes, ..claim.clone() };
        let lease = if keyed {
            app.store.claim_keyed(&claim, app.options.dead_head).await?
        } else {
            app.store.claim(&claim).await?
        };
        let held = lease.deliveries.iter().map(|claimed| claimed.envelope.payload.len()).sum();
        bytes = bytes.saturating_sub(held);
        taken.extend(handed_out(app, known, &claim, lease).await?);
    }
    Ok(taken)
}

/// The deliveries of a claim that are handed out. Expired ones are settled, and those whose attempts are used up or that no
/// consumer can read are buried.
/// Behind a delivery of the same key that is handed out neither can be written yet: the rest of the key is released.
async fn handed_out(app: &App, known: &Known, claim: &Claim, lease: Lease) -> Result<Vec<ClaimedView>, Problem> {
    let (mut handed, mut expired, mut dead, mut back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut begun, mut broken) = (BTreeSet::new(), BTreeSet::new());
    let prior = lease.prior_attempts(app.options.retry.max_attempts);
    if !prior.is_empty()
        && let Err(error) = app.store.append_lost(lease.token, &prior).await
    {
        // Only people read it: the claim goes on.
        tracing::warn!(consumer = %claim.lane, %error, "attempts whose holder was lost are missing in the history");
    }
    for claimed in lease.deliveries {
        let asked = claimed.envelope.max_attempts.or_else(|| known.max_attempts(&claimed.envelope.topic));
        let max_attempts = asked.unwrap_or(app.options.retry.max_attempts);
        let key = claimed.envelope.key.clone();
        let is_in = |set: &BTreeSet<String>| key.as_ref().is_some_and(|key| set.contains(key));
        let unreadable = || claimed.envelope.unreadable().map(Outcome::Failed);
        match entry::before(claimed.attempt, max_attempts, claimed.expired).or_else(unreadable) {
            _ if is_in(&broken) => back.push(claimed.id),
            None => {
                begun.extend(key);
                let (id, attempt) = (claimed.id, claimed.attempt);
                app.handed_out.begin(id, lease.token, claim.lease, &claim.lane, attempt, &claimed.envelope);
                handed.push(ClaimedView {
                    delivery_id: delivery_id(claimed.id),
                    lease_token: LeaseToken::of(lease.token, claim, claimed.attempt, max_attempts).to_string(),
                    attempt: claimed.attempt,
                    event: Arc::unwrap_or_clone(claimed.envelope).into(),
                });
            }
            _ if is_in(&begun) => {
                back.push(claimed.id);
                broken.extend(key);
            }
            Some(Outcome::Expired) => expired.push(claimed.id),
            Some(Outcome::Failed(failure)) => {
                let Cause { message: error, code } = failure.into_cause();
                dead.push(Buried { id: claimed.id, tried: true, error, code });
                broken.extend(key);
            }
            Some(_) => {
                let attempts = claimed.attempt.saturating_sub(1);
                let error = format!(
                    "given up after {attempts} attempts: the lease of the last one ran out, so it may have been delivered"
                );
                dead.push(Buried { id: claimed.id, tried: false, error, code: Some("exhausted".into()) });
                broken.extend(key);
            }
        }
    }
    if !expired.is_empty() {
        app.store.settle(lease.token, &expired, History::Omit).await?;
    }
    if !back.is_empty() {
        app.store.release(lease.token, &back).await?;
    }
    if !dead.is_empty() {
        let buried = app.store.bury(lease.token, &dead, History::Keep).await?;
        let figures = LaneFigures::new(&claim.lane);
        buried.iter().for_each(|_| figures.dead());
        alert::log_dead(&*app.store, &buried).await;
    }
    Ok(handed)
}

/// The lease token of a delivery, with what a failure needs to decide on a retry.
#[derive(Clone, Copy)]
pub(super) struct LeaseToken {
    pub(super) token: Token,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    /// How long the claim lasts, and the mark of its consumer. Tokens of earlier versions have neither.
    more: Option<(u64, u32)>,
}

/// Tells consumers apart, in the token of a lease.
fn mark(consumer: &str) -> u32 {
    let hash = postrider::store::access::hash(consumer);
    u32::from_str_radix(&hash[..8], 16).unwrap_or_default()
}

impl std::fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}.{}.{}", self.token.0, self.attempt, self.max_attempts)?;
        self.more.map_or(Ok(()), |(seconds, mark)| write!(f, ".{seconds}.{mark:x}"))
    }
}

impl LeaseToken {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (token, attempt, max_attempts) = (parts.next()?, parts.next()?, parts.next()?);
        let token = Token(i64::from_str_radix(token, 16).ok()?);
        let more = match (parts.next(), parts.next()) {
            (Some(seconds), Some(mark)) => Some((seconds.parse().ok()?, u32::from_str_radix(mark, 16).ok()?)),
            _ => None,
        };
        Some(Self { token, attempt: attempt.parse().ok()?, max_attempts: max_attempts.parse().ok()?, more })
    }

    fn of(token: Token, claim: &Claim, attempt: u32, max_attempts: u32) -> Self {
        Self { token, attempt, max_attempts, more: Some((claim.lease.as_secs(), mark(&claim.lane))) }
    }

    /// How long the claim lasts.
    pub(super) fn lease(&self) -> Option<Duration> {
        self.more.map(|(seconds, _)| Duration::from_secs(seconds))
    }

    /// Whether the consumer may use it: it has claimed the delivery, or the name that did is no other consumer's any more, as after a
    /// rename.
    pub(super) fn is_for(&self, consumer: &str, others: &[String]) -> bool {
        let Some((_, claimed_by)) = self.more else { return true };
        claimed_by == mark(consumer) || !others.iter().any(|other| claimed_by == mark(other))
    }
}

pub(super) fn parse_delivery(text: &str) -> Option<DeliveryId> {
    let (sequence, number) = text.split_once('-')?;
    Some(DeliveryId::new(sequence.parse().ok()?, number.parse().ok()?))
}
