//! The server as a process of its own, on PostgreSQL, asked over HTTP: publishing at a steady rate while consumers drain, and
//! in `lists` what people look at in a table of a million.

mod lists;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::operations::Operations;
use postrider::store::postgres::PostgresStore;
use postrider::{Inbox, Relay, Rollup, Store};
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

/// Requests a second, and events in each: 2,000 events a second.
const REQUESTS: usize = 100;
const BATCH: usize = 20;
/// Each gets every event.
const CONSUMERS: [&str; 2] = ["bench-points", "bench-mail"];
/// Deliveries that a consumer takes at once.
const CLAIM: usize = 200;
/// Requests that find cold connections and empty caches, and are not counted.
const COLD: usize = 50;
/// How long consumers may need for what is left when the last event has been published.
const REST: Duration = Duration::from_secs(60);

/// The server's side, started by [`Served::start`]: everything that `postrider serve` runs, until it is killed.
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

/// A server in a process of its own; dropped, it is gone.
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
        let mut said = BufReader::new(process.stdout.take().ok_or("the server says nothing")?).lines();
        let mut line = async || -> Outcome<String> { Ok(said.next_line().await?.ok_or("the server did not start")?) };
        let (token, url) = (line().await?, line().await?);
        let client = Client::builder().pool_max_idle_per_host(REQUESTS).build()?;
        Ok(Arc::new(Self { client, url, token, _process: process }))
    }

    /// Asks, and reads the answer to its end. Whatever is no success is an error.
    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Outcome<T> {
        let mut request = self.client.request(method, format!("{}/api/v1{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = request.send().await?;
        let status = response.status();
        let bytes = response.bytes().await?;
        match status.is_success() {
            true => Ok(serde_json::from_slice(&bytes)?),
            false => Err(format!("{path}: {status} {}", String::from_utf8_lossy(&bytes)).into()),
        }
    }
}

/// What became of each event, or of each delivery.
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

/// Publishes at a steady rate, whatever the answers do, and counts each wait from the moment at which its request was due:
/// a server that stalls is not spared what would have come meanwhile.
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

/// Sends so many batches, each when it is due. How long each took since then, and how many events were accepted.
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

/// A consumer in another language: claims, does nothing with it, and settles.
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

/// Everything that was published reaches everybody, also what was still waiting at the end.
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
