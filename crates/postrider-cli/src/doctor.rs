//! `postrider doctor`: checks the configuration, the store and the broker, and names remedies.

use std::time::Duration;

use clap::Args;
use postrider::Error;
use postrider::alert::SnapshotHolder;
use postrider::presence::{Unserved, UnservedLane, unserved};
use postrider::store::access::{AuditCheck, verify_audit};
use postrider::store::{Store, connect};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::config::{Config, Origin, server, without_password};
use crate::migrate::missing_file;
use crate::{Context, End, output};

/// The largest difference between the clocks of this machine and the database.
const SKEW: time::Duration = time::Duration::seconds(5);
/// The timeout of a connection to the broker.
const BROKER: Duration = Duration::from_secs(5);

/// Check store, schema, clock, broker and permissions, and name remedies
#[derive(Args)]
#[command(after_help = "Examples:
  postrider doctor
  postrider doctor --store postgres://app@localhost/shop -o json
  postrider doctor --snapshot-seconds 0                           everything that holds a snapshot now

Exits with 4 if a check fails.")]
pub(crate) struct Doctor {
    /// The store
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The broker
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// Report sessions and prepared transactions that have held a snapshot of the database for longer
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    snapshot_seconds: u64,
}

/// The results of the checks.
#[derive(Default)]
struct Findings(Vec<Value>);

impl Findings {
    fn ok(&mut self, what: &str, how: impl Into<String>) {
        self.0.push(json!({ "check": what, "ok": true, "finding": how.into() }));
    }

    fn failed(&mut self, what: &str, why: impl Into<String>, remedy: &str) {
        self.0.push(json!({ "check": what, "ok": false, "finding": why.into(), "remedy": remedy }));
    }
}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let mut findings = Findings::default();
        let flags = vec![server::STORE.to(self.store.as_deref()), server::BROKER.to(self.broker.as_deref())];
        match context.flags.load(flags) {
            Ok(config) => {
                findings.ok("configuration", "all values are valid");
                check_file(&config, &mut findings);
                let snapshot_age = Duration::from_secs(self.snapshot_seconds);
                check_store(&config.get(&server::STORE), snapshot_age, &mut findings).await;
                check_broker(config.get(&server::BROKER).as_deref(), &mut findings).await;
            }
            Err(error) => findings.failed("configuration", error.to_string(), "correct the value"),
        }
        output::list(context.output, &findings.0, &["check", "ok", "finding", "remedy"]);
        let is_well = findings.0.iter().all(|one| one["ok"] == true);
        if is_well { Ok(()) } else { Err(End::Partly) }
    }
}

/// S22: a file with secrets must not be readable by other users.
fn check_file(config: &Config, findings: &mut Findings) {
    use std::os::unix::fs::PermissionsExt as _;
    let has_password = |url: &str| without_password(url) != url;
    let (secret, previous) = (server::WEBHOOK_SECRET, server::WEBHOOK_PREVIOUS_SECRET);
    let alerts = server::ALERT_WEBHOOK_SECRET;
    for (key, origin, is_secret) in [
        (secret.name(), config.origin(&secret), true),
        (previous.name(), config.origin(&previous), true),
        (alerts.name(), config.origin(&alerts), true),
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
            findings.failed(
                "permissions",
                format!("{} holds {key} and others can read it", path.display()),
                "chmod 600, or move the secret to the environment",
            );
        }
    }
}

async fn check_store(url: &str, snapshot_age: Duration, findings: &mut Findings) {
    let name = without_password(url);
    if let Some(file) = missing_file(url) {
        let missing = format!("{} does not exist", file.display());
        return findings.failed("store", missing, "run `postrider migrate up` or `postrider serve`, which create it");
    }
    let store = match connect(url).await {
        Ok(store) => store,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
            findings.failed("store", format!("{name}: {error}{cause}"), "start the database, or correct `store`");
            return;
        }
    };
    findings.ok("store", format!("{name} answers"));
    match store.check_schema().await {
        Ok(()) => findings.ok("schema", "matches this program"),
        Err(error) => {
            let remedy = match &error {
                Error::SchemaOutOfDate { .. } => "postrider migrate up",
                Error::SchemaTooNew { .. } => "update this program",
                Error::Unsupported(_) => "use the build that made them, or another database",
                _ => "look at the database's log",
            };
            findings.failed("schema", error.to_string(), remedy);
            return;
        }
    }
    check_clock(&*store, findings).await;
    check_permissions(&*store, findings).await;
    check_processes(&*store, findings).await;
    check_audit(&*store, findings).await;
    match store.snapshot_holders(snapshot_age).await {
        Ok(holders) => compare_snapshots(&holders, findings),
        Err(error) => findings.failed("snapshots", error.to_string(), "let this user read the server's statistics"),
    }
}

/// Which lanes and loops no process runs. Without any process there is nothing to compare with, unless deliveries wait.
async fn check_processes(store: &dyn Store, findings: &mut Findings) {
    let unserved = match unserved(store).await {
        Ok(unserved) => unserved,
        Err(error) => return findings.failed("processes", error.to_string(), "look at the database's log"),
    };
    let Unserved { live, lanes, loops } = unserved;
    findings.ok("processes", if live == 0 { "none runs now".into() } else { format!("{live} run now") });
    for UnservedLane { lane, waiting } in lanes {
        findings.failed(
            "lanes",
            format!("{waiting} deliveries wait for {lane}, and no process serves it"),
            "start its consumer, or rename it: postrider consumers rename",
        );
    }
    for (name, without) in loops.into_iter().filter(|_| live > 0) {
        findings.failed("loops", format!("no process runs {name}: {without}"), "run postrider serve, or a Service");
    }
}

/// S20: whether a record of the audit is missing or was changed.
async fn check_audit(store: &dyn Store, findings: &mut Findings) {
    match verify_audit(store).await {
        Ok(AuditCheck::Whole(checked)) => findings.ok("audit", format!("the chain of {checked} records is whole")),
        Ok(AuditCheck::Broken(fault)) => {
            let remedy = "compare with a backup: only pruning removes records, and nothing changes them";
            findings.failed("audit", fault.to_string(), remedy);
        }
        Err(error) => findings.failed("audit", error.to_string(), "grant this user SELECT on the audit's tables"),
    }
}

async fn check_clock(store: &dyn Store, findings: &mut Findings) {
    match store.now().await {
        Ok(now) => compare_clocks(OffsetDateTime::now_utc(), now, findings),
        Err(error) => findings.failed("clock", error.to_string(), "look at the database's log"),
    }
}

fn compare_clocks(here: OffsetDateTime, there: OffsetDateTime, findings: &mut Findings) {
    let skew = (here - there).abs();
    if skew > SKEW {
        findings.failed(
            "clock",
            format!("this machine and the database are {skew} apart"),
            "run NTP on both; delivery is not affected, it goes by the database's clock",
        );
    } else {
        findings.ok("clock", "agrees with the database's");
    }
}

fn compare_snapshots(holders: &[SnapshotHolder], findings: &mut Findings) {
    for holder in holders {
        let finding = format!("{} has been open for {} s", holder.holder, holder.age.as_secs());
        findings.failed("snapshots", finding, "end it: it slows every claim");
    }
    if holders.is_empty() {
        findings.ok("snapshots", "none is held for long");
    }
}

async fn check_permissions(store: &dyn Store, findings: &mut Findings) {
    match acquire_and_release(store).await {
        Ok(()) => findings.ok("permissions", "the store can be written"),
        Err(error) => {
            findings.failed("permissions", error.to_string(), "grant this user SELECT, INSERT, UPDATE, DELETE")
        }
    }
}

async fn acquire_and_release(store: &dyn Store) -> postrider::Result<()> {
    let name = "postrider-doctor";
    if let Some(token) = store.acquire_lease(name, "doctor", Duration::from_secs(10)).await? {
        store.release_lease(name, token).await?;
    }
    Ok(())
}

async fn check_broker(url: Option<&str>, findings: &mut Findings) {
    let Some(url) = url else {
        findings.ok("broker", "none is configured");
        return;
    };
    let name = without_password(url);
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place).split('/').next().unwrap_or_default();
    let place = if place.contains(':') { place.to_owned() } else { format!("{place}:5672") };
    match tokio::time::timeout(BROKER, tokio::net::TcpStream::connect(&place)).await {
        Ok(Ok(_)) => findings.ok("broker", format!("{name} takes connections")),
        Ok(Err(error)) => {
            findings.failed("broker", format!("{name}: {error}"), "start the broker, or correct `broker`")
        }
        Err(_) => findings.failed("broker", format!("{name} does not answer"), "start the broker, or correct `broker`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G.9: clocks that differ by more than five seconds are named, and what holds a snapshot.
    #[test]
    fn clocks_and_snapshots_are_compared() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let found = |compare: &dyn Fn(&mut Findings)| {
            let mut findings = Findings::default();
            compare(&mut findings);
            findings.0.pop().unwrap_or_default()
        };
        for (seconds, ok) in [(5, true), (6, false), (-6, false)] {
            let there = now + time::Duration::seconds(seconds);
            let finding = found(&|findings| compare_clocks(now, there, findings));
            assert_eq!((&finding["check"], &finding["ok"]), (&"clock".into(), &ok.into()), "{seconds}: {finding}");
        }
        let holder = SnapshotHolder { holder: "session 7 of reports".into(), age: Duration::from_secs(400) };
        let finding = found(&|findings| compare_snapshots(std::slice::from_ref(&holder), findings));
        assert_eq!(finding["finding"], "session 7 of reports has been open for 400 s");
        assert_eq!(found(&|findings| compare_snapshots(&[], findings))["ok"], true);
    }
}
