//! `postrider doctor`: what is wrong, and what to do.

use std::time::Duration;

use clap::Args;
use postrider::Error;
use postrider::store::{Store, connect};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::config::{Config, Origin, server, without_password};
use crate::{Context, End, output};

/// How far the clocks of this machine and the database may be apart before figures look odd.
const SKEW: time::Duration = time::Duration::seconds(5);
/// How old a snapshot may be before it is named.
const SNAPSHOT_AGE: Duration = Duration::from_secs(300);
/// How long a broker may take to answer.
const BROKER: Duration = Duration::from_secs(5);

/// Look at store, schema, clock, broker and permissions: what is wrong, and what to do
#[derive(Args)]
#[command(after_help = "Examples:
  postrider doctor
  postrider doctor --store postgres://app@localhost/shop -o json

Exits with 4 if something is wrong.")]
pub(crate) struct Doctor {
    /// The store
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The broker
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
}

/// What was looked at, and what is wrong with it.
#[derive(Default)]
struct Findings(Vec<Value>);

impl Findings {
    fn well(&mut self, what: &str, how: impl Into<String>) {
        self.0.push(json!({ "check": what, "ok": true, "finding": how.into() }));
    }

    fn wrong(&mut self, what: &str, why: impl Into<String>, remedy: &str) {
        self.0.push(json!({ "check": what, "ok": false, "finding": why.into(), "remedy": remedy }));
    }
}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let mut findings = Findings::default();
        let flags = vec![server::STORE.to(self.store.as_deref()), server::BROKER.to(self.broker.as_deref())];
        match context.flags.load(flags) {
            Ok(config) => {
                findings.well("configuration", "every value can be");
                look_at_file(&config, &mut findings);
                look_at_store(&config.get(&server::STORE), &mut findings).await;
                look_at_broker(config.get(&server::BROKER).as_deref(), &mut findings).await;
            }
            Err(error) => findings.wrong("configuration", error.to_string(), "correct the value"),
        }
        output::list(context.output, &findings.0, &["check", "ok", "finding", "remedy"]);
        match findings.0.iter().all(|one| one["ok"] == true) {
            true => Ok(()),
            false => Err(End::Partly),
        }
    }
}

/// S22: a file with secrets is nobody else's to read.
fn look_at_file(config: &Config, findings: &mut Findings) {
    use std::os::unix::fs::PermissionsExt as _;
    let has_password = |url: &str| without_password(url) != url;
    let (secret, previous) = (server::WEBHOOK_SECRET, server::WEBHOOK_PREVIOUS_SECRET);
    for (key, origin, is_secret) in [
        (secret.name(), config.origin(&secret), true),
        (previous.name(), config.origin(&previous), true),
        (server::STORE.name(), config.origin(&server::STORE), has_password(&config.get(&server::STORE))),
        (
            server::BROKER.name(),
            config.origin(&server::BROKER),
            config.get(&server::BROKER).as_deref().is_some_and(has_password),
        ),
    ] {
        let Origin::File(path) = origin else {
            continue;
        };
        let mode = std::fs::metadata(path).map(|data| data.permissions().mode()).unwrap_or_default();
        if is_secret && mode & 0o077 != 0 {
            findings.wrong(
                "permissions",
                format!("{} holds {key} and others can read it", path.display()),
                "chmod 600, or move the secret to the environment",
            );
        }
    }
}

async fn look_at_store(url: &str, findings: &mut Findings) {
    let name = without_password(url);
    let store = match connect(url).await {
        Ok(store) => store,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
            findings.wrong("store", format!("{name}: {error}{cause}"), "start the database, or correct `store`");
            return;
        }
    };
    findings.well("store", format!("{name} answers"));
    match store.check_schema().await {
        Ok(()) => findings.well("schema", "is this program's"),
        Err(error) => {
            let remedy = match &error {
                Error::SchemaOutOfDate { .. } => "postrider migrate up",
                Error::SchemaTooNew { .. } => "update this program",
                Error::Unsupported(_) => "use the build that made them, or another database",
                _ => "look at the database's log",
            };
            findings.wrong("schema", error.to_string(), remedy);
            return;
        }
    }
    look_at_clock(&*store, findings).await;
    look_at_permissions(&*store, findings).await;
    match store.snapshot_holders(SNAPSHOT_AGE).await {
        Ok(holders) => {
            for holder in holders {
                let finding = format!("{} has been open for {} s", holder.holder, holder.age.as_secs());
                findings.wrong("snapshots", finding, "end it: it slows every claim");
            }
        }
        Err(error) => findings.wrong("snapshots", error.to_string(), "let this user read the server's statistics"),
    }
}

async fn look_at_clock(store: &dyn Store, findings: &mut Findings) {
    match store.now().await {
        Ok(now) => {
            let skew = (OffsetDateTime::now_utc() - now).abs();
            match skew > SKEW {
                true => findings.wrong(
                    "clock",
                    format!("this machine and the database are {skew} apart"),
                    "run NTP on both; events are delivered all the same, by the database's clock",
                ),
                false => findings.well("clock", "agrees with the database's"),
            }
        }
        Err(error) => findings.wrong("clock", error.to_string(), "look at the database's log"),
    }
}

async fn look_at_permissions(store: &dyn Store, findings: &mut Findings) {
    match write_and_take_back(store).await {
        Ok(()) => findings.well("permissions", "the store can be written"),
        Err(error) => {
            findings.wrong("permissions", error.to_string(), "grant this user SELECT, INSERT, UPDATE, DELETE")
        }
    }
}

async fn write_and_take_back(store: &dyn Store) -> postrider::Result<()> {
    let name = "postrider-doctor";
    if let Some(token) = store.acquire_lease(name, "doctor", Duration::from_secs(10)).await? {
        store.release_lease(name, token).await?;
    }
    Ok(())
}

async fn look_at_broker(url: Option<&str>, findings: &mut Findings) {
    let Some(url) = url else {
        findings.well("broker", "none is configured");
        return;
    };
    let name = without_password(url);
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place).split('/').next().unwrap_or_default();
    let place = if place.contains(':') { place.to_owned() } else { format!("{place}:5672") };
    match tokio::time::timeout(BROKER, tokio::net::TcpStream::connect(&place)).await {
        Ok(Ok(_)) => findings.well("broker", format!("{name} takes connections")),
        Ok(Err(error)) => findings.wrong("broker", format!("{name}: {error}"), "start the broker, or correct `broker`"),
        Err(_) => findings.wrong("broker", format!("{name} does not answer"), "start the broker, or correct `broker`"),
    }
}
