//! `postrider demo`: the server with the reference shop and its inventory on one listener, under traffic of which a share
//! fails. All data is in one folder, so a second start continues where the first stopped.

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

use async_trait::async_trait;
use axum::Router;
use clap::Args;
use postrider::promises::{Balance, BooksCheck};
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
use crate::process::{Endpoint, Parts, Plan};
use crate::telemetry::Telemetry;
use crate::{Context, End, print_data, print_note};

/// The log filter unless RUST_LOG is set. Failures on purpose are left out: the API shows them, and a line per second would
/// hide real errors.
const LOG: &str =
    "warn,sqlx=error,postrider::relay::outcomes=off,postrider_server::routes::consumers=off,postrider_shop=error";
/// The name of the traffic's token.
const TOKEN: &str = "demo";
/// The file that marks the story as played.
const STORY_PLAYED: &str = "told";
/// How long an inventory's deduction may take before its key is taken over.
const DEDUCTION: Duration = Duration::from_secs(30);
/// How long customers may take to finish at a stop; the next start finds their open orders.
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

/// See it work: a shop and its inventory under traffic, with some failures, on SQLite
#[derive(Args)]
#[command(after_help = "Examples:
  postrider demo                                       everything in postrider-demo/, on http://127.0.0.1:7070
  postrider demo --rate 20 --fail-rate 0.2             more orders, and more that goes wrong
  postrider demo --listen 127.0.0.1:0 --data-dir /tmp/demo

The first start creates an admin token and prints it once. Ctrl-C stops the demo; the next start continues where it
stopped. Without the folder it starts anew. It serves this machine only, because the shop has no login.
The log goes to stderr; RUST_LOG=info shows every step.")]
pub(crate) struct Demo {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The folder of all data
    #[arg(long, value_name = "DIR", default_value = "postrider-demo")]
    data_dir: PathBuf,
    /// Orders per second, 0 to 100; with 0 only the story of the first seconds is played
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
    // With a higher share nothing succeeds, and there is nothing to see.
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
            server::BROKER.unset(),
            server::BEHIND_PROXY.to("false"),
            server::TLS_CERT.unset(),
            server::TLS_KEY.unset(),
        ];
        let config = context.flags.load_all(defaults(), flags)?;
        let plan = Plan::of(&config, "demo", Shards::ALL)?;
        let _alone = self.lock()?;
        let telemetry = Telemetry::begin(&config, LOG)?;
        let mut parts = Parts::new()?;
        let metrics = parts.metrics()?;
        let endpoint = Endpoint::open(&config).await?;
        let store = SqliteStore::connect(&url).await?;
        let bus: Arc<dyn Store> = Arc::new(store.clone());
        bus.migrate().await?;
        bus.wake().presence().set_role("demo");
        let played = self.data_dir.join(STORY_PLAYED);
        let is_first = !played.exists();
        if is_first {
            story::prepare(&*bus).await?;
        }
        let settings = self.settings(&config, &plan, &endpoint);
        let (shop, books) = open_shop(&mut parts, &store, settings.clone()).await?;
        let inventory = self.open_inventory(&mut parts, &config).await?;
        parts.relay(&plan, &bus, None)?;
        parts.upkeep(&plan, &bus);
        parts.promises(&plan, &bus, Some(books));
        let server = Server::new(Arc::clone(&bus), plan.options(&config, &endpoint, metrics, None));
        // The server has the only fallback.
        let routes = shop.reset_fallback().merge(inventory.reset_fallback());
        // Only once everything is open: a token that is created and not printed is lost.
        let admin = first_token(&*bus).await?;
        let caller = Caller::new(&endpoint.url, traffic_token(&*bus).await?)?;
        print_data(self.welcome(&endpoint.url, &url, admin.as_deref()));
        parts.serve(server.routes(routes), endpoint);

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let playing = traffic::Traffic { caller, rate: self.rate, fail_rate: self.fail_rate, stop: stop.clone() };
        playing.start(&tasks, is_first.then(|| story::Story { store, settings, played })).await?;
        let last_orders = async {
            print_stopping();
            stop.cancel();
            tasks.close();
            let _ = tokio::time::timeout(LAST_ORDERS, tasks.wait()).await;
        };
        let ended = parts.run_until_stopped(last_orders).await;
        revoke_traffic_token(&*bus).await?;
        telemetry.end().await;
        ended
    }

    /// The URL of a SQLite file in the folder.
    fn file(&self, name: &str) -> String {
        let path = self.data_dir.join(name).display().to_string();
        format!("sqlite://{}", path.replace('%', "%25").replace('?', "%3F").replace('#', "%23"))
    }

    /// Locks the folder: two demos in it would revoke each other's tokens.
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

    fn settings(&self, config: &Config, plan: &Plan, endpoint: &Endpoint) -> Settings {
        Settings {
            inventory: Some(endpoint.url.clone()),
            retry: RetryPolicy { base: RETRY, ..plan.retry.clone() },
            retention: plan.retention.clone(),
            fail_rate: self.fail_rate,
            ..Settings::default().configured(config)
        }
    }

    /// The inventory's routes. Its recovery runs among the parts.
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

    /// The first output. It is printed at once, because a reader may close the pipe after the line it looks for.
    fn welcome(&self, url: &str, store: &str, admin: Option<&str>) -> String {
        // The program as it was called, so that the printed commands can be copied.
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
            "A shop and its inventory under traffic, in {folder}{goes_on}. Ctrl-C stops it.\n\n\
             {login}\n\
             listening on {url}\n\n\
             Try, in another terminal:\n  \
             export POSTRIDER_SERVER={url} POSTRIDER_TOKEN={token}\n  \
             {program} events trace {parcel}            # all events that one purchase caused\n  \
             {program} dead list                           # what consumers gave up, and why\n  \
             {program} dead redrive --consumer carrier     # try again: the address is corrected\n\n\
             Do the shop's books balance? {url}/shop/audit"
        )
    }
}

/// The shop's routes. Its consumers and jobs run among the parts.
async fn open_shop(
    parts: &mut Parts,
    store: &SqliteStore,
    settings: Settings,
) -> Result<(Router, Arc<dyn BooksCheck>), End> {
    let retention = settings.retention.clone();
    let shop = Shop::open(store.clone(), settings).await.map_err(wrong)?;
    let inbox = consumers::inbox(&shop);
    // Subscribes now: the first order may come before the relay has started.
    inbox.prepare(store).await?;
    let jobs = Arc::new(postrider_shop::jobs::jobs(&shop).map_err(wrong)?);
    let (by_the_clock, stopped) = (Arc::clone(&jobs), parts.stopped());
    parts.spawn(async move { by_the_clock.run(stopped).await });
    parts.spawn(Relay::new(store.clone(), inbox).retention(retention).run(parts.stopped()));
    let books = Arc::new(ShopBooks(shop.clone()));
    Ok((postrider_shop::http::routes(shop, jobs), books))
}

/// The shop's auditor, as a check of the promises.
struct ShopBooks(Shop<SqliteStore>);

#[async_trait]
impl BooksCheck for ShopBooks {
    fn source(&self) -> &str {
        "shop audit"
    }

    async fn check(&self) -> Result<Balance, Box<dyn std::error::Error + Send + Sync>> {
        let audit = postrider_shop::audit::audit(&self.0).await?;
        let checked = audit.checked;
        let counted = [("orders", checked.orders), ("accounts", checked.accounts), ("coupons", checked.coupons)];
        // A dead event has its own place: the failures.
        let wrong = audit.discrepancies.into_iter().filter(|one| one.what != "event");
        Ok(Balance {
            checked: counted.into_iter().map(|(name, n)| (name.to_owned(), n as u64)).collect(),
            discrepancies: wrong.map(|one| format!("{} {}: {}", one.what, one.id, one.detail)).collect(),
        })
    }
}

/// A new token for the traffic. It is revoked at the end.
async fn traffic_token(store: &dyn Store) -> Result<String, End> {
    revoke_traffic_token(store).await?;
    Ok(secret::create(store, &secret::Wanted::new(TOKEN, Role::Admin)).await?.0)
}

async fn revoke_traffic_token(store: &dyn Store) -> Result<(), End> {
    for token in store.tokens().await?.iter().filter(|token| token.name == TOKEN && token.revoked_at.is_none()) {
        store.revoke_token(&token.token_id).await?;
    }
    Ok(())
}

fn wrong(error: impl std::fmt::Display) -> End {
    End::Wrong(error.to_string())
}

fn print_stopping() {
    if std::io::stdout().is_terminal() {
        print_note("\nStopping: open work is finished. The next start continues from here.");
    }
}
