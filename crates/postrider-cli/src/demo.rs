//! `postrider demo`: everything that `serve` has, with the reference shop and its inventory beside it on one listener, under
//! traffic that fails now and then. One folder holds all of it, so that a second start goes on where the first was stopped.

mod caller;
mod people;
mod services;
mod story;
mod traffic;

use std::fs::{File, TryLockError};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::Args;
use postrider::store::access::Role;
use postrider::store::sqlite::SqliteStore;
use postrider::{Relay, RetryPolicy, Shards, Store, Transport as _};
use postrider_inventory::{Inventory, recovery};
use postrider_server::{Server, first_token, secret};
use postrider_shop::{Settings, Shop, consumers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Assignment, Config, inventory, server, shop};
use crate::demo::caller::Caller;
use crate::process::{Door, Parts, Plan};
use crate::telemetry::Telemetry;
use crate::{Context, End, say, tell};

/// What the log shows unless RUST_LOG says otherwise. What fails on purpose is left out: the API tells of it, and a line each
/// second would hide what nobody wanted.
const LOG: &str =
    "warn,sqlx=error,postrider::relay::outcomes=off,postrider_server::routes::consumers=off,postrider_shop=error";
/// Whose token the traffic uses.
const TOKEN: &str = "demo";
/// The file that says that the first seconds have been played.
const TOLD: &str = "told";
/// How long an inventory's deduction may take before its key is taken over.
const DEDUCTION: Duration = Duration::from_secs(30);
/// How long customers have to come to an end; what they leave is found again at the next start.
const LAST_ORDERS: Duration = Duration::from_secs(5);
/// The first wait after a failure in the shop: short, so that there is something to see.
const RETRY: Duration = Duration::from_millis(500);

/// Defaults of a demonstration: minutes where a service has hours.
fn defaults() -> Vec<Assignment> {
    vec![
        shop::ASSET_ORDER_TIMEOUT.to("2"),
        shop::ASSET_LOCK_TIMEOUT.to("3"),
        shop::LOCK_TIMEOUT_REAPER_CRON.to("0/10 * * * * ?"),
        shop::CONSISTENCY_CHECK_CRON.to("0 * * * * ?"),
        server::OUTBOX_BACKOFF_CAP.to("30"),
        server::RETENTION_FINISHED.to("1"),
    ]
}

/// See it work: a shop and its inventory under traffic, with a little failure, on SQLite
#[derive(Args)]
#[command(after_help = "Examples:
  postrider demo                                       everything in postrider-demo/, on http://127.0.0.1:7070
  postrider demo --rate 20 --fail-rate 0.2             more orders, and more that goes wrong
  postrider demo --listen 127.0.0.1:0 --data-dir /tmp/demo

On the first start an admin token is made, and printed once. Ctrl-C ends it; the next start goes on where it stopped, and
without the folder it begins anew. It listens to this machine only, because the shop asks nobody who they are.
RUST_LOG chooses what is logged, on stderr; RUST_LOG=info tells every step.")]
pub(crate) struct Demo {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "postrider-demo")]
    data_dir: PathBuf,
    /// Orders a second, 0 to 100; 0: only the first few, which show what there is
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = rate)]
    rate: f64,
    /// The share of consumers' tries that fail on purpose, 0 to 0.9
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = fail_rate)]
    fail_rate: f64,
}

fn rate(text: &str) -> Result<f64, String> {
    let right = |rate: &f64| (0.0..=100.0).contains(rate);
    text.parse().ok().filter(right).ok_or_else(|| "must be a number from 0 to 100".into())
}

fn fail_rate(text: &str) -> Result<f64, String> {
    // Where more fails than this, nothing ever succeeds, and there is nothing to see.
    let right = |share: &f64| (0.0..=0.9).contains(share);
    text.parse().ok().filter(right).ok_or_else(|| "must be a share from 0 to 0.9".into())
}

impl Demo {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let url = self.file("postrider.db");
        let flags = vec![
            server::LISTEN.to(self.listen.as_deref()),
            server::STORE.to(url.as_str()),
            // An environment made for `serve` is not meant for this.
            server::BROKER.to(""),
            server::BEHIND_PROXY.to("false"),
            server::TLS_CERT.to(""),
            server::TLS_KEY.to(""),
        ];
        let config = context.flags.load_all(defaults(), flags)?;
        let plan = Plan::of(&config, "demo", Shards::ALL)?;
        let _alone = self.lock()?;
        let telemetry = Telemetry::begin(&config, LOG)?;
        let mut parts = Parts::new()?;
        let metrics = parts.metrics()?;
        let door = Door::open(&config).await?;
        let store = SqliteStore::connect(&url).await?;
        let bus: Arc<dyn Store> = Arc::new(store.clone());
        bus.migrate().await?;
        let told = self.data_dir.join(TOLD);
        let is_first = !told.exists();
        if is_first {
            story::prepare(&*bus).await?;
        }
        let settings = self.settings(&config, &plan, &door);
        let shop = open_shop(&mut parts, &store, settings.clone()).await?;
        let inventory = self.open_inventory(&mut parts, &config).await?;
        parts.relay(&plan, &bus)?;
        parts.upkeep(&plan, &bus);
        let server = Server::new(Arc::clone(&bus), plan.options(&config, &door, metrics));
        // What none of them has, the server says itself.
        let routes = shop.reset_fallback().merge(inventory.reset_fallback());
        // Not before everything is open: a token that is made and not printed is lost.
        let admin = first_token(&*bus).await?;
        let caller = Caller::new(&door.url, own_token(&*bus).await?)?;
        say(self.welcome(&door.url, &url, admin.as_deref()));
        parts.serve(server.routes(routes), door);

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let playing = traffic::Traffic { caller, rate: self.rate, fail_rate: self.fail_rate, stop: stop.clone() };
        playing.start(&tasks, is_first.then(|| story::Story { store, settings, told })).await?;
        let last_orders = async {
            tell_end();
            stop.cancel();
            tasks.close();
            let _ = tokio::time::timeout(LAST_ORDERS, tasks.wait()).await;
        };
        let ended = parts.until_told(last_orders).await;
        revoke_own(&*bus).await?;
        telemetry.end().await;
        ended
    }

    /// A file of ours as a URL.
    fn file(&self, name: &str) -> String {
        let path = self.data_dir.join(name).display().to_string();
        format!("sqlite://{}", path.replace('%', "%25").replace('?', "%3F").replace('#', "%23"))
    }

    /// Two of them in one folder would play with each other's tokens.
    fn lock(&self) -> Result<File, End> {
        let shown = self.data_dir.display();
        let wrong = |e: std::io::Error| End::Wrong(format!("{shown}: {e}"));
        std::fs::create_dir_all(&self.data_dir).map_err(wrong)?;
        let file = File::create(self.data_dir.join("lock")).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                Err(End::Wrong(format!("another demo runs in {shown}: stop it, or give this one its own --data-dir")))
            }
            Err(TryLockError::Error(e)) => Err(wrong(e)),
        }
    }

    fn settings(&self, config: &Config, plan: &Plan, door: &Door) -> Settings {
        Settings {
            inventory: Some(door.url.clone()),
            retry: RetryPolicy { base: RETRY, ..plan.retry.clone() },
            retention: plan.retention.clone(),
            fail_rate: self.fail_rate,
            ..Settings::default().configured(config)
        }
    }

    /// The inventory's routes; its recovery is one of the parts.
    async fn open_inventory(&self, parts: &mut Parts, config: &Config) -> Result<Router, End> {
        let mut shards = Vec::new();
        for shard in 0..config.get(&inventory::SHARDS) {
            shards.push(SqliteStore::connect(&self.file(&format!("inventory-{shard}.db"))).await?);
        }
        let inventory = Inventory::open(shards, DEDUCTION).await.map_err(wrong)?;
        for shard in 0..inventory.shards().len() {
            recovery::recover(&inventory, shard).await.map_err(wrong)?;
        }
        for jobs in recovery::jobs(&inventory)? {
            let stopped = parts.stopped();
            parts.spawn(async move { jobs.run(stopped).await });
        }
        Ok(postrider_inventory::http::routes(inventory))
    }

    /// What a person needs to begin, in one piece: whoever reads it may be gone after the line that it looks for.
    fn welcome(&self, url: &str, store: &str, admin: Option<&str>) -> String {
        // As it was called, so that what is printed here can be typed.
        let program = std::env::args().next().unwrap_or_else(|| "postrider".into());
        let (folder, parcel) = (self.data_dir.display(), story::PARCEL);
        let (goes_on, login) = match admin {
            Some(token) => ("", format!("admin token: {token}\nconsole: {url}/#token={token}")),
            None => (
                ", from where it was stopped",
                format!(
                    "console: {url}/\nThe token was printed by the first start. This makes another:\n  \
                     {program} tokens create me --role admin --store '{store}'"
                ),
            ),
        };
        let token = admin.unwrap_or("prt_…");
        format!(
            "A shop and its inventory under traffic, in {folder}{goes_on}. Ctrl-C ends it.\n\n\
             {login}\n\
             listening on {url}\n\n\
             Try, in another terminal:\n  \
             export POSTRIDER_SERVER={url} POSTRIDER_TOKEN={token}\n  \
             {program} events trace {parcel}            # all that one purchase caused\n  \
             {program} dead list                           # what was given up, and why\n  \
             {program} dead redrive --consumer carrier     # again: the address is mended\n\n\
             Do the shop's books balance? {url}/shop/audit"
        )
    }
}

/// The shop's routes; its consumers and jobs are among the parts.
async fn open_shop(parts: &mut Parts, store: &SqliteStore, settings: Settings) -> Result<Router, End> {
    let retention = settings.retention.clone();
    let shop = Shop::open(store.clone(), settings).await.map_err(wrong)?;
    let inbox = consumers::inbox(&shop);
    // The first order may be faster than the relay, and its event is to be heard.
    inbox.prepare(store).await?;
    let jobs = Arc::new(postrider_shop::jobs::jobs(&shop).map_err(wrong)?);
    let (by_the_clock, stopped) = (Arc::clone(&jobs), parts.stopped());
    parts.spawn(async move { by_the_clock.run(stopped).await });
    parts.spawn(Relay::new(store.clone(), inbox).retention(retention).run(parts.stopped()));
    Ok(postrider_shop::http::routes(shop, jobs))
}

/// A token for the traffic, and for nobody after it.
async fn own_token(store: &dyn Store) -> Result<String, End> {
    revoke_own(store).await?;
    Ok(secret::create(store, TOKEN, Role::Admin).await?.0)
}

async fn revoke_own(store: &dyn Store) -> Result<(), End> {
    for token in store.tokens().await?.iter().filter(|token| token.name == TOKEN && token.revoked_at.is_none()) {
        store.revoke_token(&token.token_id).await?;
    }
    Ok(())
}

fn wrong(error: impl std::fmt::Display) -> End {
    End::Wrong(error.to_string())
}

fn tell_end() {
    if std::io::stdout().is_terminal() {
        tell("\nStopping: what was begun is finished. The next start goes on from here.");
    }
}
