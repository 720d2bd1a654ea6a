//! Consumers: what waits for them, and claim and settle for those who fetch it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postrider::Via;
use postrider::entry::{self, Decision, Outcome, Verdict};
use postrider::store::{Buried, Claim, DeliveryId, Failed, History, LaneCounts, Lease, Token};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::Caller;
use crate::input::{Body, Path, is_name};
use crate::problem::Problem;
use crate::view::{EventView, delivery_id};
use crate::{App, limits};

/// How often a consumer that waits for a paused lane is looked after.
const WHILE_PAUSED: Duration = Duration::from_secs(1);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(claim))
        .routes(routes!(settle))
        .routes(routes!(extend))
        .routes(routes!(release))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// A consumer, and what waits for it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Consumer)]
struct ConsumerView {
    consumer_id: String,
    via: String,
    topics: Vec<String>,
    /// Whether any of its subscriptions is enabled.
    enabled: bool,
    paused: bool,
    /// Deliveries that wait or are worked on; None where a broker or its own means bring them.
    lag: Option<u64>,
    processing: Option<u64>,
    retrying: Option<u64>,
    dead: Option<u64>,
    /// Those that wait behind a dead one of their key.
    held: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct Consumers {
    consumers: Vec<ConsumerView>,
}

/// The consumers, by name, with what waits for each
#[utoipa::path(get, path = "/api/v1/consumers", tag = "consumers", responses((status = 200, description = "The consumers.", body = Consumers)))]
async fn list(State(app): State<App>) -> Result<Json<Consumers>, Problem> {
    let (counts, paused) = (app.store.counts().await?, app.store.paused().await?);
    let mut consumers: BTreeMap<String, ConsumerView> = BTreeMap::new();
    for stored in app.store.subscriptions(None).await? {
        let said = stored.subscription;
        let one = consumers.entry(said.consumer.clone()).or_insert_with(|| ConsumerView {
            via: said.via.as_str().into(),
            topics: Vec::new(),
            enabled: false,
            paused: paused.contains(&said.consumer),
            lag: None,
            processing: None,
            retrying: None,
            dead: None,
            held: None,
            consumer_id: said.consumer,
        });
        one.topics.push(said.topic);
        one.enabled |= said.enabled;
        if said.via.has_own_lane() {
            let LaneCounts { new, processing, failed, dead, held } =
                counts.get(&one.consumer_id).copied().unwrap_or_default();
            one.lag = Some(new + processing + failed);
            (one.processing, one.retrying, one.dead, one.held) =
                (Some(processing), Some(failed), Some(dead), Some(held));
        }
    }
    Ok(Json(Consumers { consumers: consumers.into_values().collect() }))
}

/// How a consumer gets its events.
async fn via(app: &App, consumer: &str) -> Result<Via, Problem> {
    let unknown =
        || Problem::not_found(format!("no consumer {consumer} is subscribed to anything: subscribe it first"));
    if !is_name(consumer) {
        return Err(unknown());
    }
    let stored = app.store.subscriptions(None).await?.into_iter();
    stored.map(|one| one.subscription).find(|one| one.consumer == consumer).map(|one| one.via).ok_or_else(unknown)
}

/// How much to take.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewClaim)]
struct ClaimIn {
    /// Deliveries at most.
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
    let via = via(&app, &consumer).await?;
    if via != Via::Pull {
        let detail = format!("{consumer} gets its events by {}: only a consumer via `pull` claims", via.as_str());
        return Err(Problem::conflict("notPull", detail));
    }
    let claim = Claim { lease, owner: owner(&caller), ..Claim::new(&*consumer, wanted.max) };
    let until = Instant::now() + Duration::from_secs(wait);
    let place = app.waiting.join(&consumer);
    loop {
        let is_paused = app.store.paused().await?.contains(&consumer);
        let deliveries = if is_paused { Vec::new() } else { take(&app, &claim).await? };
        if !deliveries.is_empty() {
            place.pass_on();
            return Ok(Json(Claimed { deliveries }));
        }
        let again = async {
            match is_paused {
                true => tokio::time::sleep(WHILE_PAUSED).await,
                false => place.rung().await,
            }
        };
        tokio::select! {
            () = again => {}
            () = tokio::time::sleep_until(until) => return Ok(Json(Claimed { deliveries })),
            () = app.stop.cancelled() => return Ok(Json(Claimed { deliveries })),
        }
    }
}

/// Who holds a lease, for people.
fn owner(caller: &Caller) -> String {
    caller.name.chars().take(limits::LABEL_CHARS).collect()
}

fn lease(app: &App, seconds: Option<u64>) -> Result<Duration, Problem> {
    match seconds {
        None => Ok(app.options.lease),
        Some(seconds) if (1..=limits::LEASE_SECONDS).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        Some(seconds) => {
            Err(Problem::invalid("leaseSeconds", format!("must be 1 to {}, is {seconds}", limits::LEASE_SECONDS)))
        }
    }
}

/// Claims what has a key and what has none, neither always first.
async fn take(app: &App, claim: &Claim) -> Result<Vec<ClaimedView>, Problem> {
    let mut taken = Vec::new();
    let keyed_first = Token::fresh().0 % 2 == 0;
    for keyed in [keyed_first, !keyed_first] {
        let limit = claim.limit - u32::try_from(taken.len()).unwrap_or(claim.limit);
        if limit == 0 {
            break;
        }
        let claim = Claim { limit, ..claim.clone() };
        let lease = match keyed {
            true => app.store.claim_keyed(&claim, app.options.dead_head).await?,
            false => app.store.claim(&claim).await?,
        };
        taken.extend(handed_out(app, &claim.lane, lease).await?);
    }
    Ok(taken)
}

/// What of a claim may be tried. What is past its expiry goes, what its holders have died of too often is given up; behind
/// one that is handed out neither can be written yet, and the rest of its key goes back.
async fn handed_out(app: &App, lane: &str, lease: Lease) -> Result<Vec<ClaimedView>, Problem> {
    let (mut handed, mut expired, mut exhausted, mut back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut begun, mut broken) = (BTreeSet::new(), BTreeSet::new());
    for claimed in lease.deliveries {
        let max_attempts = claimed.envelope.max_attempts.unwrap_or(app.options.retry.max_attempts);
        let key = claimed.envelope.key.clone();
        let is_in = |set: &BTreeSet<String>| key.as_ref().is_some_and(|key| set.contains(key));
        let verdict = entry::before(claimed.attempt, max_attempts, claimed.expired);
        match verdict {
            _ if is_in(&broken) => back.push(claimed.id),
            Verdict::Deliver => {
                begun.extend(key);
                handed.push(ClaimedView {
                    delivery_id: delivery_id(claimed.id),
                    lease_token: LeaseToken { token: lease.token, attempt: claimed.attempt, max_attempts }.to_string(),
                    attempt: claimed.attempt,
                    event: claimed.envelope.into(),
                });
            }
            _ if is_in(&begun) => {
                back.push(claimed.id);
                broken.extend(key);
            }
            Verdict::Expire => expired.push(claimed.id),
            Verdict::Exhausted => {
                let attempts = claimed.attempt.saturating_sub(1);
                tracing::error!(consumer = lane, event_id = %claimed.envelope.event_id, attempts, "DEAD: its holder was lost in every attempt");
                let error = format!("given up: its holder was lost in each of {attempts} attempts");
                exhausted.push(Buried { id: claimed.id, tried: false, error, code: Some("exhausted".into()) });
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
    if !exhausted.is_empty() {
        app.store.bury(lease.token, &exhausted, History::Keep).await?;
    }
    Ok(handed)
}

/// What proves a claim, and what is needed to decide after a failure.
#[derive(Clone, Copy)]
struct LeaseToken {
    token: Token,
    attempt: u32,
    max_attempts: u32,
}

impl std::fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}.{}.{}", self.token.0, self.attempt, self.max_attempts)
    }
}

impl LeaseToken {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (token, attempt, max_attempts) = (parts.next()?, parts.next()?, parts.next()?);
        let token = Token(i64::from_str_radix(token, 16).ok()?);
        Some(Self { token, attempt: attempt.parse().ok()?, max_attempts: max_attempts.parse().ok()? })
    }
}

fn parse_delivery(text: &str) -> Option<DeliveryId> {
    let (sequence, number) = text.split_once('-')?;
    Some(DeliveryId { sequence: sequence.parse().ok()?, number: number.parse().ok()? })
}

/// A delivery that the caller has claimed.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Held {
    delivery_id: String,
    lease_token: String,
}

/// What became of a delivery.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewResult)]
struct ResultIn {
    delivery_id: String,
    lease_token: String,
    /// Whether its effect happened.
    success: bool,
    /// Whether, having failed, it may be tried again; true where it is missing.
    will_retry: Option<bool>,
    /// What went wrong; cut at 1,000 characters.
    error_message: Option<String>,
    /// A code for it.
    error_code: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewResults)]
struct ResultsIn {
    #[schema(max_items = 500)]
    results: Vec<ResultIn>,
}

/// Whether a result counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SettleOutcome)]
enum Counted {
    /// It did.
    Settled,
    /// Somebody else has claimed the delivery since, or it is settled already.
    LeaseLost,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Settled {
    delivery_id: String,
    outcome: Counted,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SettledResults)]
struct SettledAll {
    /// One per result, in order.
    results: Vec<Settled>,
}

/// Everything that is to be written under one token, what is done before what failed.
#[derive(Default)]
struct Ledger {
    done: Vec<DeliveryId>,
    retry: Vec<Failed>,
    bury: Vec<Buried>,
}

/// Say what became of deliveries
///
/// A failure is tried again after a while, until its attempts are used up. A token that nobody has replaced counts even
/// after its lease ran out.
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/settle", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")), request_body = ResultsIn,
    responses((status = 200, description = "Whether each counted.", body = SettledAll)))]
async fn settle(
    State(app): State<App>,
    Path(consumer): Path<String>,
    Body(said): Body<ResultsIn>,
) -> Result<Json<SettledAll>, Problem> {
    via(&app, &consumer).await?;
    check_length("results", said.results.len())?;
    let mut ledgers: HashMap<Token, Ledger> = HashMap::new();
    let mut asked = Vec::with_capacity(said.results.len());
    for result in said.results {
        let held = LeaseToken::parse(&result.lease_token).zip(parse_delivery(&result.delivery_id));
        asked.push((result.delivery_id.clone(), held.map(|(_, id)| id)));
        if let Some((lease, id)) = held {
            ledgers.entry(lease.token).or_default().add(&app, lease, id, result);
        }
    }
    let mut counted = BTreeSet::new();
    for (token, ledger) in ledgers {
        ledger.write(&app, &consumer, token, &mut counted).await?;
    }
    app.waiting.look();
    let outcome = |id: Option<DeliveryId>| match id.is_some_and(|id| counted.contains(&id)) {
        true => Counted::Settled,
        false => Counted::LeaseLost,
    };
    let results = asked.into_iter().map(|(delivery_id, id)| Settled { delivery_id, outcome: outcome(id) }).collect();
    Ok(Json(SettledAll { results }))
}

impl Ledger {
    fn add(&mut self, app: &App, lease: LeaseToken, id: DeliveryId, result: ResultIn) {
        if result.success {
            self.done.push(id);
            return;
        }
        let outcome = if result.will_retry.unwrap_or(true) { Outcome::Failed } else { Outcome::Rejected };
        let error = result.error_message.unwrap_or_else(|| "failed, and does not say why".into());
        let code = result.error_code;
        // A number in [0, 1), for the jitter.
        let chance = Token::fresh().0 as f64 / i64::MAX as f64;
        match entry::after(&outcome, lease.attempt, lease.max_attempts, &app.options.retry, chance) {
            Decision::Retry(after) => self.retry.push(Failed { id, after, error, code }),
            _ => self.bury.push(Buried { id, tried: true, error, code }),
        }
    }

    async fn write(
        self,
        app: &App,
        consumer: &str,
        token: Token,
        counted: &mut BTreeSet<DeliveryId>,
    ) -> Result<(), Problem> {
        if !self.done.is_empty() {
            counted.extend(app.store.settle(token, &self.done, History::Keep).await?);
        }
        if !self.retry.is_empty() {
            counted.extend(app.store.retry(token, &self.retry, History::Keep).await?);
        }
        if !self.bury.is_empty() {
            let buried = app.store.bury(token, &self.bury, History::Keep).await?;
            for id in &buried {
                tracing::error!(consumer, delivery = delivery_id(*id), "DEAD: given up, redrive it when mended");
            }
            counted.extend(buried);
        }
        Ok(())
    }
}

fn check_length(field: &str, length: usize) -> Result<(), Problem> {
    match length > limits::RESULTS {
        true => Err(Problem::invalid(field, format!("may be {} at most, are {length}", limits::RESULTS))),
        false => Ok(()),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewExtension)]
struct ExtendIn {
    #[schema(max_items = 500)]
    deliveries: Vec<Held>,
    /// From now on; 30 where it is missing.
    #[schema(minimum = 1, maximum = 3600)]
    lease_seconds: Option<u64>,
}

/// Lengthen leases
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/extend", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")), request_body = ExtendIn,
    responses((status = 200, description = "`settled`: longer; `leaseLost`: not the caller's any more.", body = SettledAll)))]
async fn extend(
    State(app): State<App>,
    Path(consumer): Path<String>,
    Body(said): Body<ExtendIn>,
) -> Result<Json<SettledAll>, Problem> {
    let lease = lease(&app, said.lease_seconds)?;
    via(&app, &consumer).await?;
    check_length("deliveries", said.deliveries.len())?;
    let (asked, by_token) = grouped(said.deliveries);
    let mut counted = BTreeSet::new();
    for (token, ids) in by_token {
        counted.extend(app.store.extend(token, &ids, lease).await?);
    }
    Ok(answered(asked, &counted))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewRelease)]
struct ReleaseIn {
    #[schema(max_items = 500)]
    deliveries: Vec<Held>,
}

/// Give deliveries back as they were: the attempt does not count
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/release", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")), request_body = ReleaseIn,
    responses((status = 200, description = "`settled`: given back; `leaseLost`: not the caller's any more.", body = SettledAll)))]
async fn release(
    State(app): State<App>,
    Path(consumer): Path<String>,
    Body(said): Body<ReleaseIn>,
) -> Result<Json<SettledAll>, Problem> {
    via(&app, &consumer).await?;
    check_length("deliveries", said.deliveries.len())?;
    let (asked, by_token) = grouped(said.deliveries);
    let mut counted = BTreeSet::new();
    for (token, ids) in by_token {
        counted.extend(app.store.release(token, &ids).await?);
    }
    app.waiting.look();
    Ok(answered(asked, &counted))
}

type Asked = Vec<(String, Option<DeliveryId>)>;

fn grouped(deliveries: Vec<Held>) -> (Asked, HashMap<Token, Vec<DeliveryId>>) {
    let mut by_token: HashMap<Token, Vec<DeliveryId>> = HashMap::new();
    let mut asked = Vec::with_capacity(deliveries.len());
    for one in deliveries {
        let held = LeaseToken::parse(&one.lease_token).zip(parse_delivery(&one.delivery_id));
        if let Some((lease, id)) = held {
            by_token.entry(lease.token).or_default().push(id);
        }
        asked.push((one.delivery_id, held.map(|(_, id)| id)));
    }
    (asked, by_token)
}

fn answered(asked: Asked, counted: &BTreeSet<DeliveryId>) -> Json<SettledAll> {
    let results = asked.into_iter().map(|(delivery_id, id)| {
        let is_counted = id.is_some_and(|id| counted.contains(&id));
        Settled { delivery_id, outcome: if is_counted { Counted::Settled } else { Counted::LeaseLost } }
    });
    Json(SettledAll { results: results.collect() })
}

/// Stop deliveries to a consumer, on every instance, also after a restart
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/pause", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")),
    responses(
        (status = 204, description = "Paused."),
        (status = 409, description = "`cannotPause`: its events do not wait here.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn pause(State(app): State<App>, Path(consumer): Path<String>) -> Result<StatusCode, Problem> {
    set_paused(&app, &consumer, true).await
}

/// Deliver to a consumer again
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/resume", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")),
    responses(
        (status = 204, description = "Resumed."),
        (status = 409, description = "`cannotPause`: its events do not wait here.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn resume(State(app): State<App>, Path(consumer): Path<String>) -> Result<StatusCode, Problem> {
    set_paused(&app, &consumer, false).await
}

async fn set_paused(app: &App, consumer: &str, paused: bool) -> Result<StatusCode, Problem> {
    let via = via(app, consumer).await?;
    if !via.has_own_lane() {
        let means =
            if via == Via::RabbitMq { "from a queue of the broker: stop reading it" } else { "by its own means" };
        return Err(Problem::conflict("cannotPause", format!("{consumer} gets its events {means}")));
    }
    app.store.set_paused(consumer, paused).await?;
    Ok(StatusCode::NO_CONTENT)
}
