//! A process: which services it runs, on which store, and how events get from one to the other. This is the only file that
//! knows of the way they take.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, Uri};
use postrider::{Inbox, Outbox, RabbitMq, Retention, Transport};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::database::Database;
use crate::http::{App, Problem};
use crate::{cleaning, playlists, songs, users};

/// Any error that ends the process.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a request: the longest playlist in the longest characters is about half of it.
const BODY_BYTES: usize = 512 * 1024;
/// How long requests may take to finish once the process is told to stop: a client that holds its connection open and
/// says nothing must not keep it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// What a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Service {
    /// All three, on one database.
    All,
    /// Users.
    Users,
    /// Songs.
    Songs,
    /// Playlists, which hear of deletions.
    Playlists,
}

impl Service {
    /// Whether `part` is one of its services.
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

/// What a process is told.
pub struct Process {
    /// What it serves.
    pub service: Service,
    /// Where.
    pub listener: TcpListener,
    /// What is between the services; None: they are all in this process.
    pub broker: Option<RabbitMq>,
}

impl Process {
    /// Serves until `shutdown` is ready. Then no new request is taken, those that were begun are answered, and after them
    /// the events in hand are finished.
    pub async fn run<S: Database>(self, store: S, shutdown: impl Future<Output = ()> + Send) -> Result<(), AnyError> {
        let Self { service, listener, broker } = self;
        store.migrate().await?;
        let mut tx = store.begin().await?;
        S::make_tables(&mut tx, service).await?;
        store.commit(tx).await?;
        prepare(service, &store, broker.as_ref()).await?;

        let outbox = Outbox::new(store.clone()).service(service.name());
        let routes = routes(service).with_state(App { store: store.clone(), outbox });
        let (told_to_stop, all_answered) = (CancellationToken::new(), CancellationToken::new());
        tracing::info!(service = service.name(), address = %listener.local_addr()?, "Listening");

        let requests = async {
            answer(listener, routes, &told_to_stop).await?;
            all_answered.cancel();
            Ok(())
        };
        let events = async { Ok(carry(service, store, broker, &all_answered).await?) };
        let signal = async {
            shutdown.await;
            tracing::info!("Stopping: what was begun is finished");
            told_to_stop.cancel();
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
            Problem::new(StatusCode::NOT_FOUND, "notFound", format!("{} is not here", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed", "this path takes other methods")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
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

/// The consumers of a service.
fn inbox<S: Database>(service: Service, store: &S) -> Inbox<S> {
    let inbox = Inbox::new(store.clone());
    match service.includes(Service::Playlists) {
        true => cleaning::consumers(inbox),
        false => inbox,
    }
}

/// Says who hears the events of this store. A relay does so too when it starts; but the first request may be faster than
/// it, and its event is to be heard.
async fn prepare<S: Database>(service: Service, store: &S, broker: Option<&RabbitMq>) -> postrider::Result<()> {
    match broker {
        Some(broker) => broker.publisher().prepare(store).await,
        None => {
            if service != Service::All {
                tracing::warn!("No broker: events of this service are kept until there is one, and none arrive");
            }
            inbox(service, store).prepare(store).await
        }
    }
}

/// Brings events from where they were written to where they are consumed: inside this process, or by the broker.
async fn carry<S: Database>(
    service: Service,
    store: S,
    broker: Option<RabbitMq>,
    stop: &CancellationToken,
) -> postrider::Result<()> {
    let inbox = inbox(service, &store);
    match broker {
        None => {
            let service = postrider::Service::new(store).inbox(inbox).retention(Retention::default());
            service.run(stop.cancelled()).await
        }
        Some(broker) => {
            let mut sending = postrider::Service::new(store.clone()).transport(broker.publisher());
            if cleaning::is_heard_in(&store).await? {
                sending = sending.inbox(self::inbox(service, &store));
            }
            let sending = sending.retention(Retention::default()).run(stop.cancelled());
            let receiving = broker.receiver(inbox).run(stop.cancelled());
            tokio::try_join!(sending, receiving).map(|_| ())
        }
    }
}
