//! Settle, extend and release: a consumer reports the outcome of its deliveries, keeps them longer, or gives them back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use postrider::entry::{self, Decision, Outcome};
use postrider::observe::{self, LaneFigures};
use postrider::store::{Buried, DeliveryId, Failed, History, Token};
use postrider::{Failure, alert};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Known;
use super::claim::{LeaseToken, lease, parse_delivery};
use crate::auth::Caller;
use crate::input::{Body, Path};
use crate::problem::Problem;
use crate::{App, limits};

pub(super) fn routes() -> OpenApiRouter<App> {
    let settle = OpenApiRouter::new().routes(routes!(settle)).layer(DefaultBodyLimit::max(limits::SETTLE_BODY_BYTES));
    settle.routes(routes!(extend)).routes(routes!(release))
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
    #[serde(default, deserialize_with = "postrider::limits::lossy_text")]
    error_message: Option<String>,
    /// A code for it.
    #[serde(default, deserialize_with = "postrider::limits::lossy_text")]
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
    /// Another claim has taken the delivery since, it is settled already, or another consumer has claimed it.
    LeaseLost,
    /// The caller holds it still: an earlier event of its key has to be settled first, or in the same call. Its lease runs from now.
    OutOfOrder,
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

/// The outcome of each delivery that is still the caller's.
type Outcomes = BTreeMap<DeliveryId, Counted>;

/// The results under one lease token; successes are written before failures.
#[derive(Default)]
struct Ledger {
    /// How long the claim lasts.
    lease: Option<Duration>,
    done: Vec<DeliveryId>,
    retry: Vec<Failed>,
    bury: Vec<Buried>,
}

/// Say what became of deliveries
///
/// Two results of one delivery must not contradict each other: nothing is written then.
///
/// A failure is tried again after a while, until its attempts are used up. A token that no later claim has replaced counts even
/// after its lease ran out.
#[utoipa::path(post, path = "/api/v1/consumers/{consumerId}/settle", tag = "consumers",
    params(("consumerId" = String, Path, description = "The consumer.")), request_body = ResultsIn,
    responses((status = 200, description = "Whether each counted.", body = SettledAll)))]
async fn settle(
    State(app): State<App>,
    caller: Caller,
    Path(consumer): Path<String>,
    Body(input): Body<ResultsIn>,
) -> Result<Json<SettledAll>, Problem> {
    let known_consumer = Known::owned(&app, &caller, &consumer).await?;
    check_length("results", input.results.len())?;
    refuse_contradictions(&input.results)?;
    let mut ledgers: HashMap<Token, Ledger> = HashMap::new();
    let mut asked = Vec::with_capacity(input.results.len());
    let mut known = BTreeSet::new();
    for result in input.results {
        let held = held(&result.lease_token, &result.delivery_id, &consumer, &known_consumer);
        asked.push((result.delivery_id.clone(), held.map(|(_, id)| id)));
        if !known.insert((result.delivery_id.clone(), result.lease_token.clone())) {
            // The same result again: it has the outcome of the first.
            continue;
        }
        if let Some((lease, id)) = held {
            ledgers.entry(lease.token).or_default().add(&app, lease, id, result);
        }
    }
    let mut counted = Outcomes::new();
    for (token, ledger) in ledgers {
        ledger.write(&app, &consumer, token, &mut counted).await?;
    }
    app.waiting.look();
    Ok(answered(asked, &counted))
}

/// The token and the delivery that a request names, if its consumer may have claimed it.
fn held(token: &str, delivery: &str, consumer: &str, known: &Known) -> Option<(LeaseToken, DeliveryId)> {
    let token = LeaseToken::parse(token).filter(|token| token.is_for(consumer, &known.others))?;
    Some((token, parse_delivery(delivery)?))
}

/// Two results of one delivery that contradict each other: neither may count.
fn refuse_contradictions(results: &[ResultIn]) -> Result<(), Problem> {
    let mut first: HashMap<&str, (usize, bool)> = HashMap::new();
    for (n, result) in results.iter().enumerate() {
        let (before, success) = *first.entry(&result.delivery_id).or_insert((n, result.success));
        if success != result.success {
            let field = format!("results[{n}].success");
            return Err(Problem::invalid(field, format!("contradicts results[{before}], of the same delivery")));
        }
    }
    Ok(())
}

impl Ledger {
    fn add(&mut self, app: &App, lease: LeaseToken, id: DeliveryId, result: ResultIn) {
        self.lease = lease.lease();
        if result.success {
            self.done.push(id);
            return;
        }
        let error = result.error_message.unwrap_or_else(|| "failed, and does not say why".into());
        let code = result.error_code;
        let failure = if result.will_retry.unwrap_or(true) { Failure::retry(&error) } else { Failure::reject(&error) };
        // Uniform in [0, 1), for the jitter.
        let chance = || Token::fresh().0 as f64 / i64::MAX as f64;
        match entry::after(&failure.into(), lease.attempt, lease.max_attempts, &app.options.retry, chance) {
            Decision::Retry(after) => self.retry.push(Failed { id, after, error, code }),
            _ => self.bury.push(Buried { id, tried: true, error, code }),
        }
    }

    async fn write(self, app: &App, consumer: &str, token: Token, counted: &mut Outcomes) -> Result<(), Problem> {
        let figures = LaneFigures::new(consumer);
        if !self.done.is_empty() {
            let settled = app.store.settle(token, &self.done, History::Keep).await?;
            settled.iter().for_each(|id| app.handed_out.end(*id, token, &Outcome::Done));
            figures.settled(settled.len());
            let left: Vec<_> = self.done.iter().filter(|id| !settled.contains(id)).copied().collect();
            counted.extend(settled.into_iter().map(|id| (id, Counted::Settled)));
            // What can be extended is the caller's: it was not settled because of its place in the order of its key.
            let held = match self.lease {
                Some(lease) if !left.is_empty() => app.store.extend(token, &left, lease).await?,
                _ => Vec::new(),
            };
            observe::lease_lost(left.len() - held.len());
            counted.extend(held.into_iter().map(|id| (id, Counted::OutOfOrder)));
        }
        if !self.retry.is_empty() {
            let retried = app.store.retry(token, &self.retry, History::Keep).await?;
            retried.iter().for_each(|_| figures.failed());
            observe::lease_lost(self.retry.len() - retried.len());
            counted.extend(retried.into_iter().map(|id| (id, Counted::Settled)));
        }
        if !self.bury.is_empty() {
            let buried = app.store.bury(token, &self.bury, History::Keep).await?;
            for _ in &buried {
                figures.failed();
                figures.dead();
            }
            observe::lease_lost(self.bury.len() - buried.len());
            alert::log_dead(&*app.store, &buried).await;
            counted.extend(buried.into_iter().map(|id| (id, Counted::Settled)));
        }
        let failed = self.retry.into_iter().map(|one| (one.id, one.error, one.code));
        for (id, error, code) in failed.chain(self.bury.into_iter().map(|one| (one.id, one.error, one.code))) {
            let failure = Failure::retry(error);
            let outcome = match code {
                _ if !counted.contains_key(&id) => Outcome::LeaseLost,
                Some(code) => Outcome::Failed(failure.code(code)),
                None => Outcome::Failed(failure),
            };
            app.handed_out.end(id, token, &outcome);
        }
        app.handed_out.end_expired();
        Ok(())
    }
}

fn check_length(field: &str, length: usize) -> Result<(), Problem> {
    if length > limits::RESULTS {
        return Err(Problem::invalid(field, format!("may be {} at most, are {length}", limits::RESULTS)));
    }
    Ok(())
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
    caller: Caller,
    Path(consumer): Path<String>,
    Body(input): Body<ExtendIn>,
) -> Result<Json<SettledAll>, Problem> {
    let lease = lease(&app, input.lease_seconds)?;
    let known = Known::owned(&app, &caller, &consumer).await?;
    check_length("deliveries", input.deliveries.len())?;
    let (asked, by_token) = grouped(input.deliveries, &consumer, &known);
    let mut counted = Outcomes::new();
    for (token, ids) in by_token {
        for id in app.store.extend(token, &ids, lease).await? {
            app.handed_out.extend(id, token, lease);
            counted.insert(id, Counted::Settled);
        }
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
    caller: Caller,
    Path(consumer): Path<String>,
    Body(input): Body<ReleaseIn>,
) -> Result<Json<SettledAll>, Problem> {
    let known = Known::owned(&app, &caller, &consumer).await?;
    check_length("deliveries", input.deliveries.len())?;
    let (asked, by_token) = grouped(input.deliveries, &consumer, &known);
    let mut counted = Outcomes::new();
    for (token, ids) in by_token {
        for id in app.store.release(token, &ids).await? {
            app.handed_out.end(id, token, &Outcome::NotTried);
            counted.insert(id, Counted::Settled);
        }
    }
    app.waiting.look();
    Ok(answered(asked, &counted))
}

type Asked = Vec<(String, Option<DeliveryId>)>;

fn grouped(deliveries: Vec<Held>, consumer: &str, known: &Known) -> (Asked, HashMap<Token, Vec<DeliveryId>>) {
    let mut by_token: HashMap<Token, Vec<DeliveryId>> = HashMap::new();
    let mut asked = Vec::with_capacity(deliveries.len());
    for one in deliveries {
        let held = held(&one.lease_token, &one.delivery_id, consumer, known);
        if let Some((lease, id)) = held {
            by_token.entry(lease.token).or_default().push(id);
        }
        asked.push((one.delivery_id, held.map(|(_, id)| id)));
    }
    (asked, by_token)
}

fn answered(asked: Asked, counted: &Outcomes) -> Json<SettledAll> {
    let outcome = |id: Option<DeliveryId>| id.and_then(|id| counted.get(&id)).copied().unwrap_or(Counted::LeaseLost);
    let results = asked.into_iter().map(|(delivery_id, id)| Settled { delivery_id, outcome: outcome(id) });
    Json(SettledAll { results: results.collect() })
}
