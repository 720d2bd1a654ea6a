//! The upkeep of the audit: new records get their places in the chain, and old ones are removed.

use std::time::Duration;

use tokio::time::Instant;

use crate::App;

/// How soon a record is sealed. Until then its removal would not show.
const LOOK: Duration = Duration::from_secs(1);
/// Records in one transaction.
const BATCH: u32 = 500;
/// How often old records are looked for.
const PRUNE: Duration = Duration::from_secs(3600);

/// Seals and prunes until the server stops.
pub(crate) async fn watch(app: App) {
    let mut pruned: Option<Instant> = None;
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let prune = pruned.is_none_or(|pruned| pruned.elapsed() >= PRUNE);
        match keep(&app, prune).await {
            Ok(()) if prune => pruned = Some(Instant::now()),
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "the audit is not sealed: it is tried again"),
        }
    }
}

async fn keep(app: &App, prune: bool) -> postrider::Result<()> {
    while app.store.seal_audit(BATCH).await? == u64::from(BATCH) {}
    if prune {
        while app.store.prune_audit(app.options.audit, BATCH).await? > 0 {}
    }
    Ok(())
}
