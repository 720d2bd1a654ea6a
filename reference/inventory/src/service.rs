//! A process: answers requests and runs the recovery of all shards, until it is told to stop.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use axum::Router;
use futures_util::future::try_join_all;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::audit::Books;
use crate::database::Database;
use crate::http;
use crate::inventory::Inventory;
use crate::recovery;

/// Any error that ends the process.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// How long requests may take to finish once the process is told to stop: a client that holds its connection open and
/// says nothing must not keep it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// What a process is told.
pub struct Process {
    /// Where it serves.
    pub listener: TcpListener,
    /// How long a deduction may take before others take its key over.
    pub lease: Duration,
}

impl Process {
    /// Serves until `shutdown` is ready. Then no new request is taken, and what was begun is finished.
    pub async fn run<S: Database + Books>(
        self,
        shards: Vec<S>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), AnyError> {
        let Self { listener, lease } = self;
        let inventory = Inventory::open(shards, lease).await?;
        let stop = CancellationToken::new();
        let shards = inventory.shards().len();
        tracing::info!(shards, address = %listener.local_addr()?, "Listening");

        let jobs = recovery::jobs(&inventory)?;
        let requests = async { Ok(answer(listener, http::routes(inventory.clone()), &stop).await?) };
        let recovering = async {
            // At once, too: what this process left when it died is older than its first slot.
            for shard in 0..shards {
                if let Err(error) = recovery::recover(&inventory, shard).await {
                    tracing::warn!(shard, %error, "a shard was not looked at: its job will");
                }
            }
            try_join_all(jobs.iter().map(|jobs| jobs.run(stop.cancelled()))).await?;
            Ok(())
        };
        let signal = async {
            shutdown.await;
            tracing::info!("Stopping: what was begun is finished");
            stop.cancel();
            Ok::<_, AnyError>(())
        };
        tokio::try_join!(requests, recovering, signal)?;
        Ok(())
    }
}

/// Answers requests until it is told to stop and the last one has its answer.
async fn answer(listener: TcpListener, routes: Router, stop: &CancellationToken) -> std::io::Result<()> {
    let served = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
    let patience = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_REQUESTS).await;
    };
    tokio::select! {
        ended = served.into_future() => ended,
        () = patience => Ok(()),
    }
}
