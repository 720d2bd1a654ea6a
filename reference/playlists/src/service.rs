//! A process: its services, its store, and how events get from one service to
//! another. This is the only file that knows the transport.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, Uri};
use postrider::transport::rabbitmq::Publisher;
use postrider::{Inbox, Outbox, RabbitMq, Retention, Transport};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::database::Database;
use crate::http::{App, Problem};
use crate::{cleaning, playlists, songs, users};

/// Any error that ends the process.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The limit of a request body. The largest playlist is about half of it.
const BODY_BYTES: usize = 512 * 1024;
/// The time limit for open requests at shutdown. An idle connection must not block it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// The service that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Service {
    /// All three, on one database.
    All,
    /// Users.
    Users,
    /// Songs.
    Songs,
    /// Playlists, which consume the deletions.
    Playlists,
}

impl Service {
    /// Whether `part` is included.
    pub fn includes(self, part: Self) -> bool {
        self == Self::All || self == part
    }

    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Users => "users",
            Self::Songs => "songs",
            Self::Playlists => "playlists",
        }
    }
}

/// The settings of a process.
pub struct Process {
    /// The service to run.
    pub service: Service,
    /// The socket to serve.
    pub listener: TcpListener,
    /// The broker between the services. `None` if they are all in this process.
    pub broker: Option<RabbitMq>,
}

impl Process {
    /// Serves until `shutdown` is ready. Then it accepts no new requests, answers the open ones, and afterwards
    /// finishes the deliveries in progress.
    pub async fn run<S: Database>(self, store: S, shutdown: impl Future<Output = ()> + Send) -> Result<(), AnyError> {
        let Self { service, listener, broker } = self;
        store.migrate().await?;
        let mut tx = store.begin().await?;
        S::make_tables(&mut tx, service).await?;
        store.commit(tx).await?;
        prepare(service, &store, broker.as_ref()).await?;

        let outbox = Outbox::new(store.clone()).service(service.name());
        let routes = routes(service).with_state(App { store: store.clone(), outbox });
        let (stopping, all_answered) = (CancellationToken::new(), CancellationToken::new());
        tracing::info!(service = service.name(), address = %listener.local_addr()?, "Listening");

        let requests = async {
            answer(listener, routes, &stopping).await?;
            all_answered.cancel();
            Ok(())
        };
        let events = async { Ok(carry(service, store, broker, &all_answered).await?) };
        let signal = async {
            shutdown.await;
            tracing::info!("Stopping: finishing open requests and deliveries");
            stopping.cancel();
            Ok::<_, AnyError>(())
        };
        tokio::try_join!(requests, events, signal)?;
        Ok(())
    }
}

fn routes<S: Database>(service: Service) -> Router<App<S>> {
    let mut routes = Router::new();
    if service.includes(Service::Users) {
        routes = routes.merge(users::routes());
    }
    if service.includes(Service::Songs) {
        routes = routes.merge(songs::routes());
    }
    if service.includes(Service::Playlists) {
        routes = routes.merge(playlists::routes());
    }
    routes
        .fallback(async |uri: Uri| {
            Problem::new(StatusCode::NOT_FOUND, "notFound", format!("there is no route {}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed", "this path does not accept this method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
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

/// The consumers of a service.
fn inbox<S: Database>(service: Service, store: &S) -> Inbox<S> {
    let inbox = Inbox::new(store.clone());
    if service.includes(Service::Playlists) { cleaning::consumers(inbox) } else { inbox }
}

/// Publishes every topic: a service does not know who consumes its events.
fn publisher(broker: &RabbitMq) -> Publisher {
    broker.publisher().every_topic()
}

/// Registers the subscriptions of this store. The relay does so too, but the first request may come before it and its
/// event must be routed.
async fn prepare<S: Database>(service: Service, store: &S, broker: Option<&RabbitMq>) -> postrider::Result<()> {
    match broker {
        Some(broker) => publisher(broker).prepare(store).await,
        None => {
            if service != Service::All {
                tracing::warn!("No broker: events of this service stay in its store, and none arrive");
            }
            inbox(service, store).prepare(store).await
        }
    }
}

/// Delivers events to the consumers: in this process, or through the broker.
async fn carry<S: Database>(
    service: Service,
    store: S,
    broker: Option<RabbitMq>,
    stop: &CancellationToken,
) -> postrider::Result<()> {
    let mut loops = postrider::Service::new(store.clone()).retention(Retention::default());
    match broker {
        None => loops = loops.inbox(inbox(service, &store)),
        Some(broker) => {
            loops = loops.transport(publisher(&broker));
            if cleaning::is_subscribed_in(&store).await? {
                loops = loops.inbox(inbox(service, &store));
            }
            loops = loops.also(|stopping| broker.receiver(inbox(service, &store)).run(stopping));
        }
    }
    loops.run(stop.cancelled()).await
}
