//! `postrider serve`: the API, and beside it a relay, the roll-up and bulk operations, until told to stop.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use postrider::jobs::Schedule;
use postrider::operations::{Operations, OperationsOptions};
use postrider::redrive::RedriveRules;
use postrider::store::{DeadHead, connect};
use postrider::transport::webhook::{WebhookOptions, WebhookSecret, Webhooks};
use postrider::{
    LaneOptions, RabbitMq, Relay, RelayOptions, Retention, RetryPolicy, Rollup, RollupOptions, Shards, Store,
};
use postrider_server::{Options, Server, Tls, check_listen, first_token};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::telemetry::Telemetry;
use crate::{Context, End, say};

/// Where the histogram of delivery times has its steps, in seconds.
const STEPS: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0];
/// How often the exporter tidies up.
const UPKEEP: Duration = Duration::from_secs(5);

/// What a process does.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Role {
    /// Everything.
    All,
    /// The API alone.
    Api,
    /// The relay, the roll-up and bulk operations alone.
    Relay,
}

/// Serve the API, and carry events to webhooks and the broker
#[derive(Args)]
#[command(after_help = "Examples:
  postrider serve                                             SQLite in postrider-data/, http://127.0.0.1:7070
  postrider serve --store postgres://app@localhost/bus --broker amqp://guest:guest@localhost/%2f
  postrider serve --listen 0.0.0.0:7070 --set tls.cert=cert.pem --set tls.key=key.pem
  postrider serve --role relay --store postgres://a@db1/bus --store postgres://a@db2/bus --shards 0-31

On the first start an admin token is made, and printed once. RUST_LOG chooses what is logged, on stderr.")]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The store; a relay may have several
    #[arg(long, value_name = "URL")]
    store: Vec<String>,
    /// The broker
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// What this process does
    #[arg(long, value_enum, default_value_t = Role::All)]
    role: Role,
    /// The shards that the relay works on, as 0-3,7
    #[arg(long)]
    shards: Option<String>,
    /// A proxy in front encrypts: listen on any address without TLS
    #[arg(long)]
    behind_proxy: bool,
}

/// Everything that follows from the configuration.
struct Plan {
    retry: RetryPolicy,
    redrive: RedriveRules,
    relay: RelayOptions,
    retention: Retention,
    webhooks: WebhookOptions,
    broker: Option<RabbitMq>,
}

impl Serve {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let named = [
            ("listen", self.listen.as_deref()),
            ("store", self.store.first().map(String::as_str)),
            ("broker", self.broker.as_deref()),
            ("behind-proxy", self.behind_proxy.then_some("true")),
        ];
        let config = Config::load(&context.flags, &named)?;
        let plan = self.plan(&config)?;
        if self.role != Role::Relay && self.store.len() > 1 {
            return Err(End::Wrong("only --role relay takes several --store".into()));
        }
        let telemetry = Telemetry::begin(&config)?;
        let metrics = install_metrics()?;

        let stop = CancellationToken::new();
        let mut working = JoinSet::new();
        let mut urls: Vec<String> = self.store.clone();
        if urls.is_empty() {
            urls.extend(config.text("store").map(Into::into));
        }
        for url in urls {
            let store = connect(&url).await?;
            store.migrate().await?;
            if self.role != Role::Api {
                start_relay(&plan, &store, &stop, &mut working)?;
                start_upkeep(&plan, &store, &stop, &mut working);
            }
            if self.role != Role::Relay {
                self.start_api(&config, &plan, store, metrics.clone(), &stop, &mut working).await?;
            }
        }
        working.spawn(upkeep(metrics, stop.clone()));
        let ended = tokio::select! {
            () = told_to_stop() => None,
            ended = working.join_next() => ended,
        };
        stop.cancel();
        let mut failure = ended.map(flat).and_then(Result::err);
        while let Some(ended) = working.join_next().await {
            failure = failure.or(flat(ended).err());
        }
        telemetry.end().await;
        failure.map_or(Ok(()), Err)
    }

    fn plan(&self, config: &Config) -> Result<Plan, End> {
        let retry = RetryPolicy {
            max_attempts: u32::try_from(config.number("outbox.max-retry-count")).unwrap_or(u32::MAX),
            cap: config.seconds("outbox.backoff-cap-seconds"),
            jitter: config.share("outbox.backoff-jitter"),
            ..RetryPolicy::default()
        };
        let lanes = LaneOptions {
            retry: retry.clone(),
            batch: u32::try_from(config.number("outbox.batch-size")).unwrap_or(u32::MAX),
            ..LaneOptions::default()
        };
        let zone = config.text("scheduler.time-zone").unwrap_or("UTC");
        let cron = config.text("outbox.publisher-cron").unwrap_or_default();
        let relay = RelayOptions {
            lease: config.seconds("outbox.lease-seconds"),
            shards: self.shards.as_deref().map_or(Ok(Shards::ALL), str::parse)?,
            dead_head: dead_head(config),
            floor: Some(Schedule::parse(cron, zone).map_err(|e| config.refuse("outbox.publisher-cron", e))?),
            owner: format!("serve-{}", std::process::id()),
            ..RelayOptions::default()
        };
        let redrive = RedriveRules {
            max_count: u32::try_from(config.number("redrive.max-count")).unwrap_or(u32::MAX),
            sent_older_than: config.seconds("redrive.sent-older-than-seconds"),
            horizon: config.days("redrive.horizon-days"),
        };
        let retention = Retention {
            finished: config.days("retention.finished-days"),
            inbox: config.days("retention.inbox-days"),
            redrive_horizon: redrive.horizon,
            archive: config.text("retention.archive-dir").map(Into::into),
            ..Retention::default()
        };
        retention.check(&retry).map_err(|e| config.refuse("retention.inbox-days", e))?;
        let mut secrets: Vec<WebhookSecret> = Vec::new();
        for key in ["webhook.secret", "webhook.previous-secret"] {
            if let Some(text) = config.text(key) {
                secrets.push(text.parse().map_err(|e| config.refuse(key, e))?);
            }
        }
        let webhooks = WebhookOptions {
            secrets,
            timeout: config.seconds("webhook.timeout-seconds"),
            allow_hosts: config.list("webhook.allow-hosts"),
            lanes,
        };
        let broker = config.text("broker").map(RabbitMq::new).transpose().map_err(|e| config.refuse("broker", e))?;
        Ok(Plan { retry, redrive, relay, retention, webhooks, broker })
    }

    async fn start_api(
        &self,
        config: &Config,
        plan: &Plan,
        store: Arc<dyn Store>,
        metrics: PrometheusHandle,
        stop: &CancellationToken,
        working: &mut JoinSet<Result<(), End>>,
    ) -> Result<(), End> {
        let address = config.text("listen").unwrap_or_default();
        let address: SocketAddr = address
            .parse()
            .map_err(|_| config.refuse("listen", format!("{address:?} is no address such as 127.0.0.1:7070")))?;
        let tls = match (config.text("tls.cert"), config.text("tls.key")) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                let tls = Tls::from_files(Path::new(cert), Path::new(key));
                Some(tls.map_err(|e| config.refuse("tls.cert", e))?)
            }
            (None, Some(_)) => return Err(config.refuse("tls.cert", "is needed beside tls.key").into()),
            (Some(_), None) => return Err(config.refuse("tls.key", "is needed beside tls.cert").into()),
        };
        let encrypted = tls.is_some() || config.flag("behind-proxy");
        check_listen(address, encrypted).map_err(|e| config.refuse("listen", e))?;
        let listener = TcpListener::bind(address).await.map_err(|e| config.refuse("listen", e))?;
        let bound = listener.local_addr().map_err(|e| config.refuse("listen", e))?;
        let options = Options {
            retry: plan.retry.clone(),
            lease: plan.relay.lease,
            redrive: plan.redrive,
            dead_head: dead_head(config),
            payload_bytes: usize::try_from(config.number("limits.payload-bytes")).unwrap_or(usize::MAX),
            requests_per_second: u32::try_from(config.number("limits.requests-per-second")).unwrap_or(u32::MAX),
            longest_wait: config.seconds("limits.wait-seconds"),
            broker: plan.broker.is_some(),
            webhooks: !plan.webhooks.secrets.is_empty(),
            secure: encrypted,
            settings: config.settings(),
            metrics: Some(metrics),
        };
        if let Some(token) = first_token(&*store).await? {
            say(format!("admin token: {token}"));
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        say(format!("listening on {scheme}://{bound}"));
        let serving = Server::new(store, options).serve(listener, tls, stop.clone().cancelled_owned());
        working.spawn(async move { serving.await.map_err(|e| End::Wrong(e.to_string())) });
        Ok(())
    }
}

fn dead_head(config: &Config) -> DeadHead {
    match config.text("ordering.dead-head") {
        Some("skip") => DeadHead::Skip,
        _ => DeadHead::Hold,
    }
}

/// Routes plain inserts, carries events to the broker and to webhooks, and prunes.
fn start_relay(
    plan: &Plan,
    store: &Arc<dyn Store>,
    stop: &CancellationToken,
    working: &mut JoinSet<Result<(), End>>,
) -> Result<(), End> {
    let webhooks = Webhooks::new(plan.webhooks.clone())?;
    let stopped = || stop.clone().cancelled_owned();
    // The relay of webhooks comes and goes with its lanes; this one stays. Before it is read, the transport has no lanes.
    let relay = match &plan.broker {
        Some(broker) => Relay::over(Arc::clone(store), Arc::new(broker.publisher())),
        None => Relay::over(Arc::clone(store), Arc::new(Webhooks::new(plan.webhooks.clone())?)),
    };
    let relay = relay.options(plan.relay.clone()).retention(plan.retention.clone());
    let relaying = relay.run(stopped());
    working.spawn(async move { relaying.await.map_err(End::from) });
    let calling = webhooks.run(Arc::clone(store), plan.relay.clone(), stopped());
    working.spawn(async move { calling.await.map_err(End::from) });
    if let Some(broker) = &plan.broker {
        let collecting = broker.receipts(Arc::clone(store)).run(stopped());
        working.spawn(async move { collecting.await.map_err(End::from) });
    }
    Ok(())
}

/// Keeps statuses and works on bulk operations, whenever no other instance does.
fn start_upkeep(plan: &Plan, store: &Arc<dyn Store>, stop: &CancellationToken, working: &mut JoinSet<Result<(), End>>) {
    let owner = || plan.relay.owner.clone();
    let options = RollupOptions { owner: owner(), ..RollupOptions::default() };
    let folding = Rollup::new(Arc::clone(store)).options(options).run(stop.clone().cancelled_owned());
    working.spawn(async move { folding.await.map_err(End::from) });
    let options = OperationsOptions { owner: owner(), ..OperationsOptions::default() };
    let operating = Operations::new(Arc::clone(store)).options(options).run(stop.clone().cancelled_owned());
    working.spawn(async move { operating.await.map_err(End::from) });
}

fn install_metrics() -> Result<PrometheusHandle, End> {
    let wrong = |e: &dyn std::fmt::Display| End::Wrong(format!("metrics cannot be kept: {e}"));
    let seconds = Matcher::Full(postrider::observe::DELIVERY_SECONDS.into());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &STEPS).map_err(|e| wrong(&e))?;
    builder.install_recorder().map_err(|e| wrong(&e))
}

async fn upkeep(metrics: PrometheusHandle, stop: CancellationToken) -> Result<(), End> {
    while stop.run_until_cancelled(tokio::time::sleep(UPKEEP)).await.is_some() {
        metrics.run_upkeep();
    }
    Ok(())
}

fn flat(ended: Result<Result<(), End>, tokio::task::JoinError>) -> Result<(), End> {
    ended.unwrap_or_else(|error| Err(End::Wrong(format!("a part of the server ended badly: {error}"))))
}

/// Ctrl-C, or what orchestrators send.
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return tokio::signal::ctrl_c().await.unwrap_or_default();
    };
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.unwrap_or_default(),
    }
}
