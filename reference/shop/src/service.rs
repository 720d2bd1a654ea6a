//! A shop process: the routes, the relay with the consumers, and the jobs, started and stopped together.

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

/// The time limit for open requests at shutdown. An idle connection must not block it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Serves a shop until `shutdown` is ready. Then it accepts no new requests, answers the open ones, and afterwards
/// finishes the deliveries in progress.
pub async fn run<S: Database>(
    store: S,
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), AnyError> {
    let shop = Shop::open(store, settings).await?;
    let inbox = consumers::inbox(&shop);
    // The relay registers the subscriptions too, but the first request may come before it and its event must be routed.
    inbox.prepare(&shop.store).await?;
    let jobs = Arc::new(jobs::jobs(&shop)?);
    let routes = http::routes(shop.clone(), Arc::clone(&jobs));
    let (stopping, all_answered) = (CancellationToken::new(), CancellationToken::new());
    tracing::info!(address = %listener.local_addr()?, "Listening");

    let requests = async {
        answer(listener, routes, &stopping).await?;
        all_answered.cancel();
        Ok(())
    };
    let service = Service::new(shop.store.clone()).inbox(inbox).jobs(jobs).retention(shop.settings.retention.clone());
    let events = async { Ok(service.run(all_answered.cancelled()).await?) };
    let signal = async {
        shutdown.await;
        tracing::info!("Stopping: finishing open requests and deliveries");
        stopping.cancel();
        Ok::<_, AnyError>(())
    };
    tokio::try_join!(requests, events, signal)?;
    Ok(())
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
