//! The server in its own process, on PostgreSQL, over HTTP: publishing at a steady rate while consumers drain, and in
//! `lists` the queries of the console on a table of a million events.

mod lists;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::operations::Operations;
use postrider::prelude::*;
use postrider::store::postgres::PostgresStore;
use postrider::{Inbox, Relay, Rollup};
use postrider_server::{Options, Server, first_token};
use reqwest::{Client, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::report::{Figure, Latencies, Report, Round};
use crate::setup::{Scratch, TOPIC, payload};
use crate::{Outcome, Size};

pub(crate) use lists::lists;

/// Requests per second, and events per request: 2,000 events per second.
const REQUESTS: usize = 100;
const BATCH: usize = 20;
/// Each consumer gets every event.
const CONSUMERS: [&str; 2] = ["bench-points", "bench-mail"];
/// Deliveries per claim.
const CLAIM: usize = 200;
/// Requests with cold connections and caches, which are not counted.
const COLD: usize = 50;
/// The time limit for the consumers after the last event is published.
const REST: Duration = Duration::from_secs(60);

/// The server process, started by [`Served::start`]: runs everything that `postrider serve` runs, until it is killed.
pub(crate) async fn serve(url: &str) -> Outcome<()> {
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?;
    if let Some(token) = first_token(&store).await? {
        println!("{token}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let relaying = Relay::new(store.clone(), Inbox::new(store)).run(std::future::pending());
    let folding = Rollup::new(Arc::clone(&shared)).run(std::future::pending());
    let operating = Operations::new(Arc::clone(&shared)).run(std::future::pending());
    let serving = Server::new(shared, Options::default()).serve(listener, None, std::future::pending());
    let ended = tokio::join!(tokio::spawn(relaying), tokio::spawn(folding), tokio::spawn(operating), serving);
    Err(format!("the server ended by itself: {ended:?}").into())
}

/// A server in its own process. Dropping it kills the process.
struct Served {
    client: Client,
    url: String,
    token: String,
    _process: Child,
}

impl Served {
    async fn start(store: &str) -> Outcome<Arc<Self>> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--serve", store])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("the server has no stdout")?).lines();
        let mut line = async || -> Outcome<String> { Ok(lines.next_line().await?.ok_or("the server did not start")?) };
        let (token, url) = (line().await?, line().await?);
        let client = Client::builder().pool_max_idle_per_host(REQUESTS).build()?;
        Ok(Arc::new(Self { client, url, token, _process: process }))
    }

    /// Sends a request and reads the whole response. A status other than success is an error.
    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Outcome<T> {
        let mut request = self.client.request(method, format!("{}/api/v1{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = request.send().await?;
        let status = response.status();
        let bytes = response.bytes().await?;
        if status.is_success() {
            Ok(serde_json::from_slice(&bytes)?)
        } else {
            Err(format!("{path}: {status} {}", String::from_utf8_lossy(&bytes)).into())
        }
    }
}

/// The result of each event or delivery.
#[derive(Deserialize)]
struct Results {
    results: Vec<OneResult>,
}

#[derive(Deserialize)]
struct OneResult {
    outcome: String,
}

impl Results {
    fn count(&self, outcome: &str) -> usize {
        self.results.iter().filter(|one| one.outcome == outcome).count()
    }
}

/// Publishes at a steady rate, independent of the responses. Each wait is measured from the time the request was due,
/// so a stall of the server counts for all requests it delays.
pub(crate) async fn publishes(scratch: &Scratch, size: Size, report: &mut Report) -> Outcome<()> {
    let served = Served::start(&scratch.postgres("http").await?).await?;
    for consumer in CONSUMERS {
        let path = format!("/subscriptions/{TOPIC}/{consumer}");
        let _: Value = served.ask(Method::PUT, &path, Some(br#"{"via": "pull"}"#.to_vec())).await?;
    }
    let consumed = Arc::new(AtomicUsize::default());
    let consuming =
        CONSUMERS.map(|consumer| tokio::spawn(consume(Arc::clone(&served), consumer, Arc::clone(&consumed))));
    publish(&served, COLD).await?;

    let before = consumed.load(Ordering::Acquire);
    let started = Instant::now();
    let (waits, accepted) = publish(&served, REQUESTS * size.http_seconds).await?;
    let seconds = started.elapsed().as_secs_f64();
    let meanwhile = consumed.load(Ordering::Acquire) - before;
    all_consumed(&consumed, (accepted + COLD * BATCH) * CONSUMERS.len(), &consuming).await?;

    let measured = Latencies::of(waits);
    let round = |ours: f64, other: f64| vec![Round { ours_per_second: ours, other_per_second: other }];
    let (accepted, offered) = (accepted as f64 / seconds, (REQUESTS * BATCH) as f64);
    report.add(Figure {
        name: "http: publishes accepted / 2,000 a second",
        target: Some(0.99),
        rounds: round(accepted, offered),
    });
    report.add(Figure {
        name: "http: two consumers beside it / published",
        target: Some(0.95),
        rounds: round(meanwhile as f64 / seconds, accepted * CONSUMERS.len() as f64),
    });
    report.limit("http: publish 20 at 2,000/s p50".into(), "ms", measured.p50, 25.0);
    report.limit("http: publish 20 at 2,000/s p99".into(), "ms", measured.p99, 50.0);
    Ok(())
}

/// Sends batches at their due times. Returns the wait of each since then, and the number of accepted events.
async fn publish(served: &Arc<Served>, requests: usize) -> Outcome<(Vec<Duration>, usize)> {
    let event = json!({ "topic": TOPIC, "payload": payload() });
    let body = serde_json::to_vec(&json!({ "events": vec![event; BATCH] }))?;
    let started = Instant::now();
    let mut asked = JoinSet::new();
    for n in 0..requests {
        let due = started + Duration::from_secs_f64(n as f64 / REQUESTS as f64);
        tokio::time::sleep_until(due).await;
        let (served, body) = (Arc::clone(served), body.clone());
        asked.spawn(async move {
            let published: Results = served.ask(Method::POST, "/events/batch", Some(body)).await?;
            Outcome::Ok((due.elapsed(), published.count("accepted")))
        });
    }
    let (mut waits, mut accepted) = (Vec::with_capacity(requests), 0);
    while let Some(answer) = asked.join_next().await {
        let (wait, events) = answer??;
        waits.push(wait);
        accepted += events;
    }
    Ok((waits, accepted))
}

#[derive(Deserialize)]
struct Claimed {
    deliveries: Vec<ClaimedDelivery>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimedDelivery {
    delivery_id: String,
    lease_token: String,
}

/// A consumer over HTTP: claims, does nothing, and settles.
async fn consume(served: Arc<Served>, consumer: &'static str, consumed: Arc<AtomicUsize>) -> Outcome<()> {
    let (claim, settle) = (format!("/consumers/{consumer}/claim"), format!("/consumers/{consumer}/settle"));
    let wanted = serde_json::to_vec(&json!({ "max": CLAIM, "leaseSeconds": 60, "waitSeconds": 20 }))?;
    loop {
        let claimed: Claimed = served.ask(Method::POST, &claim, Some(wanted.clone())).await?;
        let results: Vec<_> = claimed
            .deliveries
            .iter()
            .map(|one| json!({ "deliveryId": one.delivery_id, "leaseToken": one.lease_token, "success": true }))
            .collect();
        if !results.is_empty() {
            let results = serde_json::to_vec(&json!({ "results": results }))?;
            let settled: Results = served.ask(Method::POST, &settle, Some(results)).await?;
            consumed.fetch_add(settled.count("settled"), Ordering::AcqRel);
        }
    }
}

/// Waits until every consumer has consumed every published event.
async fn all_consumed(consumed: &AtomicUsize, all: usize, consuming: &[JoinHandle<Outcome<()>>]) -> Outcome<()> {
    let until = Instant::now() + REST;
    while consumed.load(Ordering::Acquire) < all {
        if Instant::now() > until || consuming.iter().any(JoinHandle::is_finished) {
            return Err(format!("{} of {all} deliveries were consumed", consumed.load(Ordering::Acquire)).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    consuming.iter().for_each(JoinHandle::abort);
    Ok(())
}
