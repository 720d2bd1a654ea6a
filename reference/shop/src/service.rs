//! A process: the routes, the relay that brings events to their consumers, and the jobs; started and ended together.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use postrider::{Service, Transport};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::database::Database;
use crate::settings::Settings;
use crate::shop::Shop;
use crate::{consumers, http, jobs};

/// Any error that ends the process.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// How long requests may take to finish once the process is told to stop: a client that holds its connection open and
/// says nothing must not keep it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Serves a shop until `shutdown` is ready. Then no new request is taken, those that were begun are answered, and after them
/// the events in hand are finished.
pub async fn run<S: Database>(
    store: S,
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), AnyError> {
    let shop = Shop::open(store, settings).await?;
    let inbox = consumers::inbox(&shop);
    // A relay says who hears what, too; but the first request may be faster than it, and its event is to be heard.
    inbox.prepare(&shop.store).await?;
    let jobs = Arc::new(jobs::jobs(&shop)?);
    let routes = http::routes(shop.clone(), Arc::clone(&jobs));
    let (told_to_stop, all_answered) = (CancellationToken::new(), CancellationToken::new());
    tracing::info!(address = %listener.local_addr()?, "Listening");

    let requests = async {
        answer(listener, routes, &told_to_stop).await?;
        all_answered.cancel();
        Ok(())
    };
    let service = Service::new(shop.store.clone()).inbox(inbox).jobs(jobs).retention(shop.settings.retention.clone());
    let events = async { Ok(service.run(all_answered.cancelled()).await?) };
    let signal = async {
        shutdown.await;
        tracing::info!("Stopping: what was begun is finished");
        told_to_stop.cancel();
        Ok::<_, AnyError>(())
    };
    tokio::try_join!(requests, events, signal)?;
    Ok(())
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
