//! `shop`: orders, payments, refunds and assets, in one process.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::{Failure, RetryPolicy};
use postrider_shop::Settings;
use postrider_shop::config::{self, ConfigError, Sources, server, shop};
use postrider_shop::service::{AnyError, run};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// The default log filter. RUST_LOG overrides it. Statements of sqlx are left out.
const LOG: &str = "info,sqlx=warn";

const EXAMPLES: &str = "\
Examples:
  On SQLite; nothing else is needed:
    shop --listen 127.0.0.1:7090 --store sqlite://shop.db

  Then, from another shell, an order that spends 500 cents of the wallet:
    curl --json '{\"userId\": \"ada\", \"walletCents\": 5000, \"points\": 100}' http://127.0.0.1:7090/shop/accounts
    curl --json '{\"userId\": \"ada\", \"amountCents\": 9900, \"walletCents\": 500}' http://127.0.0.1:7090/shop/orders
    curl -X POST http://127.0.0.1:7090/shop/orders/ORDER/checkout
    curl -X POST http://127.0.0.1:7090/shop/orders/ORDER/payments
    curl --json '{\"paymentId\": \"PAYMENT\", \"success\": true}' http://127.0.0.1:7090/shop/payments/callback
    curl http://127.0.0.1:7090/shop/accounts/ada
    curl http://127.0.0.1:7090/shop/audit

  Run a job now:
    postrider tokens create me --role operator --store sqlite://shop.db
    curl -X POST -H 'Authorization: Bearer TOKEN' http://127.0.0.1:7090/shop/jobs/reaper/run

  With stock in the inventory service, and acceptance by the merchant:
    shop --store postgres://app@localhost/shop --inventory http://127.0.0.1:7091 --merchant-accept

Settings in brackets can also be set in postrider.toml or in the environment (POSTRIDER_ASSET__LOCK_TIMEOUT_MINUTES).
A manual job run needs an operator's token of the shop's store. The other routes have no authentication: put them
behind a proxy that has.
URLs may contain passwords: the environment exposes them less than the command line.
RUST_LOG sets the log filter. The log is written to stderr.";

/// Orders, payments, refunds, coupons, wallets and points, with books that balance after any crash.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// Address to listen on; port 0 takes a free port, which is logged
    #[arg(long, default_value = "127.0.0.1:7090", env = "SHOP_LISTEN")]
    listen: String,
    /// Database: sqlite://path, postgres://user@host/database or mysql://user@host/database
    #[arg(long, default_value = "sqlite://shop-data/shop.db", env = "SHOP_STORE", hide_env_values = true)]
    store: String,
    /// Maximum connections to a database server, for each of two pools
    #[arg(long, default_value_t = 10, env = "SHOP_CONNECTIONS", value_name = "NUMBER")]
    connections: u32,
    /// URL of the inventory service; without it, orders do not check stock
    #[arg(long, env = "SHOP_INVENTORY")]
    inventory: Option<String>,
    /// Settings file; default: postrider.toml, if it exists
    #[arg(long, env = "POSTRIDER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// A paid order waits for the merchant's acceptance [shop.merchant-accept, default: false]
    #[arg(long)]
    merchant_accept: bool,
    /// Age after which locks are released [asset.lock-timeout-minutes, default: 30]
    #[arg(long, value_name = "MINUTES")]
    lock_timeout_minutes: Option<String>,
    /// Age after which an unpaid order is canceled; must be shorter than the lock
    /// timeout [asset.order-timeout-minutes, default: 15]
    #[arg(long, value_name = "MINUTES")]
    order_timeout_minutes: Option<String>,
    /// Time span of the consistency check [consistency.scan-window-hours, default: 24]
    #[arg(long, value_name = "HOURS")]
    scan_window_hours: Option<String>,
    /// Schedule of the lock reaper [scheduler.lock-timeout-reaper-cron, default: 0 */5 * * * ?]
    #[arg(long, value_name = "CRON")]
    lock_timeout_reaper_cron: Option<String>,
    /// Schedule of the consistency check [scheduler.consistency-check-cron, default: 0 0 */2 * * ?]
    #[arg(long, value_name = "CRON")]
    consistency_check_cron: Option<String>,
    /// Time zone of the schedules [scheduler.time-zone, default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Cents that earn one point [points.per-cents, default: 100]
    #[arg(long, value_name = "CENTS")]
    points_per_cents: Option<String>,
    /// Share of consumer attempts that fail on purpose
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    fail_rate: f64,
    /// Maximum attempts of a consumer
    #[arg(long, default_value_t = 10, value_name = "TIMES")]
    max_retry_count: u32,
    /// Delay after a consumer's first failure; doubles each time
    #[arg(long, default_value_t = 2_000, value_name = "MILLISECONDS")]
    retry_base_ms: u64,
    /// Maximum delay between attempts
    #[arg(long, default_value_t = 3_600_000, value_name = "MILLISECONDS")]
    retry_cap_ms: u64,
}

impl Arguments {
    fn settings(&self) -> Result<Settings, ConfigError> {
        let flags = vec![
            shop::MERCHANT_ACCEPT.to(self.merchant_accept.then_some("true")),
            shop::ASSET_LOCK_TIMEOUT.to(self.lock_timeout_minutes.as_deref()),
            shop::ASSET_ORDER_TIMEOUT.to(self.order_timeout_minutes.as_deref()),
            shop::CONSISTENCY_SCAN_WINDOW.to(self.scan_window_hours.as_deref()),
            shop::LOCK_TIMEOUT_REAPER_CRON.to(self.lock_timeout_reaper_cron.as_deref()),
            shop::CONSISTENCY_CHECK_CRON.to(self.consistency_check_cron.as_deref()),
            server::SCHEDULER_TIME_ZONE.to(self.time_zone.as_deref()),
            shop::POINTS_PER_CENTS.to(self.points_per_cents.as_deref()),
        ];
        let environment = Sources::process_environment();
        let settings = Settings {
            inventory: self.inventory.clone(),
            fail_rate: self.fail_rate,
            retry: RetryPolicy {
                base: Duration::from_millis(self.retry_base_ms),
                cap: Duration::from_millis(self.retry_cap_ms),
                max_attempts: self.max_retry_count,
                ..RetryPolicy::default()
            },
            ..Settings::default()
        };
        config::load(Sources { file: self.config.as_deref(), environment, flags, ..Sources::default() }, settings)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG)))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match serve(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Failure::from(error), "The shop stops with an error");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: Arguments) -> Result<(), AnyError> {
    // Registered before the service is ready: without a handler, a signal would end the process at once.
    let shutdown = postrider::service::shutdown_signal()?;
    let settings = arguments.settings()?;
    let listener = TcpListener::bind(&arguments.listen).await.map_err(|e| format!("{}: {e}", arguments.listen))?;
    match arguments.store.split(':').next() {
        Some("sqlite") => run(SqliteStore::connect(&arguments.store).await?, settings, listener, shutdown).await,
        Some("postgres" | "postgresql") => {
            let store = PostgresStore::connect_with(&arguments.store, arguments.connections).await?;
            run(store, settings, listener, shutdown).await
        }
        Some("mysql" | "mariadb") => {
            let store = MySqlStore::connect_with(&arguments.store, arguments.connections).await?;
            run(store, settings, listener, shutdown).await
        }
        // The URL is left out because it may contain a password.
        _ => Err("unknown database in --store: use sqlite://…, postgres://… or mysql://…".into()),
    }
}
