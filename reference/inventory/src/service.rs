//! An inventory process: serves requests and runs the recovery of all shards.

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

/// The time limit for open requests at shutdown. An idle connection must not block it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// The settings of a process.
pub struct Process {
    /// The socket to serve.
    pub listener: TcpListener,
    /// How long a deduction may take before its key can be taken over.
    pub lease: Duration,
}

impl Process {
    /// Serves until `shutdown` is ready. Then it accepts no new requests and completes the open ones.
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
            // Also at once: keys that this process left before a crash are older than the first slot of the job.
            for shard in 0..shards {
                if let Err(error) = recovery::recover(&inventory, shard).await {
                    tracing::warn!(shard, %error, "a shard was not recovered: its job will do it");
                }
            }
            try_join_all(jobs.iter().map(|jobs| jobs.run(stop.cancelled()))).await?;
            Ok(())
        };
        let signal = async {
            shutdown.await;
            tracing::info!("Stopping: finishing open requests");
            stop.cancel();
            Ok::<_, AnyError>(())
        };
        tokio::try_join!(requests, recovering, signal)?;
        Ok(())
    }
}

/// Serves requests until `stop`, and then until the last one is answered.
async fn answer(listener: TcpListener, routes: Router, stop: &CancellationToken) -> std::io::Result<()> {
    let served = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_REQUESTS).await;
    };
    tokio::select! {
        ended = served.into_future() => ended,
        () = deadline => Ok(()),
    }
}
