//! Postrider over HTTP: for services in any language, and for the people who look after them.
//!
//! A request passes, in this order: what every answer has (`answer`), the one table of who may call what (`access`), the
//! caller's credentials (`auth`), and then a handler in the file named after the first segment of its path (`routes`). What
//! it says is read by `input`, what goes wrong becomes a `problem`, and JSON has types of its own here
//! (`event`, `view`), so that the library's may change.

mod access;
mod answer;
mod auth;
mod event;
mod filter;
mod input;
mod limits;
mod listen;
mod live;
mod openapi;
mod page;
mod problem;
mod rate;
mod routes;
pub mod secret;
mod settings;
mod view;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use postrider::redrive::RedriveRules;
use postrider::store::DeadHead;
use postrider::{Bus, RetryPolicy, Store};
use tokio_util::sync::CancellationToken;

pub use access::{Entry, TABLE};
pub use listen::{ListenError, Tls, check as check_listen};
pub use openapi::document;
pub use settings::Setting;

/// What may be chosen for a server.
#[derive(Clone)]
pub struct Options {
    /// When a pulling consumer that failed gets its event again.
    pub retry: RetryPolicy,
    /// How long a claim lasts where its consumer does not say.
    pub lease: Duration,
    /// What a redrive is measured by.
    pub redrive: RedriveRules,
    /// What a DEAD delivery does to the later ones of its key.
    pub dead_head: DeadHead,
    /// Payloads may have so many bytes, and never more than the library takes.
    pub payload_bytes: usize,
    /// Requests of one caller a second, on average.
    pub requests_per_second: u32,
    /// How long a consumer may wait for events, at most: less than what proxies in front allow a silent connection.
    pub longest_wait: Duration,
    /// Whether a broker carries events: how a subscription that does not say gets them.
    pub broker: bool,
    /// Whether webhooks can be signed: without a secret none is taken on.
    pub webhooks: bool,
    /// Whether the way to the browser is encrypted, so that cookies may insist on it.
    pub secure: bool,
    /// The effective configuration, for people.
    pub settings: Vec<Setting>,
    /// What the metrics are read from.
    pub metrics: Option<PrometheusHandle>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            lease: Duration::from_secs(30),
            redrive: RedriveRules::default(),
            dead_head: DeadHead::Hold,
            payload_bytes: postrider::limits::PAYLOAD_BYTES,
            requests_per_second: limits::REQUESTS_PER_SECOND,
            longest_wait: Duration::from_secs(limits::WAIT_SECONDS),
            broker: false,
            webhooks: false,
            secure: false,
            settings: Vec::new(),
            metrics: None,
        }
    }
}

/// What every handler shares.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    bus: Bus,
    options: Options,
    rates: rate::Rates,
    waiting: waiting::Waiting,
    document: String,
    page: String,
    /// What happens, for all who watch.
    live: tokio::sync::broadcast::Sender<live::Told>,
    /// Somebody has begun to watch.
    look: tokio::sync::Notify,
    stop: CancellationToken,
}

pub(crate) type App = Arc<Shared>;

/// The API on a store.
pub struct Server {
    app: App,
    more: axum::Router,
}

impl Server {
    /// A server on a store whose schema is this program's.
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        let document = openapi::document();
        Self {
            app: Arc::new(Shared {
                bus: Bus::new(Arc::clone(&store)),
                rates: rate::Rates::new(options.requests_per_second),
                waiting: waiting::Waiting::default(),
                page: page::render(&document),
                document: format!("{document:#}\n"),
                live: tokio::sync::broadcast::channel(live::BEHIND).0,
                look: tokio::sync::Notify::new(),
                stop: CancellationToken::new(),
                options,
                store,
            }),
            more: axum::Router::new(),
        }
    }

    /// Answers these paths too, on the same listener and outside of `/api/v1`. Who may call them is theirs to say; that no
    /// other site's page changes anything through them is seen to here. They bring no fallback of their own.
    pub fn routes(mut self, more: axum::Router) -> Self {
        self.more = self.more.merge(more);
        self
    }

    /// Serves until `shutdown` is ready. Then no connection is taken, consumers that wait for events are sent home, and
    /// what is being answered is finished.
    pub async fn serve(
        self,
        listener: tokio::net::TcpListener,
        tls: Option<Tls>,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let app = self.app;
        let router = routes::router(&app, self.more);
        let watching = [tokio::spawn(waiting::watch(Arc::clone(&app))), tokio::spawn(live::watch(Arc::clone(&app)))];
        let stop = app.stop.clone();
        let shutdown = async move {
            shutdown.await;
            stop.cancel();
        };
        let served = listen::serve(listener, tls, router, shutdown).await;
        app.stop.cancel();
        watching.iter().for_each(tokio::task::JoinHandle::abort);
        served
    }
}

/// Makes and returns an admin token where the store has no token at all, as on the first start; of many instances one does.
pub async fn first_token(store: &dyn Store) -> postrider::Result<Option<String>> {
    const LEASE: &str = "postrider-first-token";
    if !store.tokens().await?.is_empty() {
        return Ok(None);
    }
    let Some(lease) = store.acquire_lease(LEASE, "server", Duration::from_secs(30)).await? else {
        return Ok(None);
    };
    let made = match store.tokens().await?.is_empty() {
        true => Some(secret::create(store, "admin", postrider::store::access::Role::Admin).await?.0),
        false => None,
    };
    store.release_lease(LEASE, lease).await?;
    Ok(made)
}
