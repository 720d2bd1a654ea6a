//! Postrider over HTTP, for services in any language and for operators.
//!
//! A request passes, in this order: `answer` (id and headers), `access` (the table of roles), `auth` (the caller), and a
//! handler in `routes`, in the file named after the first segment of its path. `input` reads bodies and queries, `problem`
//! answers errors. JSON has types of its own (`event`, `view`), so that the library's types may change.

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
mod pace;
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
use postrider::store::IntoStore;
use postrider::transport::rabbitmq::Reconciler;
use postrider::{Bus, RetryPolicy, Store};
use tokio_util::sync::CancellationToken;

pub use access::{Entry, TABLE};
pub use listen::{ListenError, Tls, check as check_listen};
pub use openapi::document;
pub use settings::Setting;

/// The options of a server.
#[derive(Clone)]
pub struct Options {
    /// When a pulling consumer that failed gets its event again.
    pub retry: RetryPolicy,
    /// How long a claim lasts if its consumer names no time.
    pub lease: Duration,
    /// The rules for redrives.
    pub redrive: RedriveRules,
    /// What a DEAD delivery does to the later ones of its key.
    pub dead_head: DeadHead,
    /// The largest payload in bytes; the library's limit counts too.
    pub payload_bytes: usize,
    /// Requests of one caller a second, on average.
    pub requests_per_second: u32,
    /// The longest wait for events: shorter than the idle timeout of proxies in front.
    pub longest_wait: Duration,
    /// The broker that carries events; with it, `rabbitmq` is the default `via` of a subscription.
    pub broker: Option<Reconciler>,
    /// Whether webhooks can be signed; without a secret, webhook subscriptions are refused.
    pub webhooks: bool,
    /// Hosts that webhooks may call at private addresses and without TLS.
    pub webhook_hosts: Vec<String>,
    /// Whether connections of browsers are encrypted, so that cookies are `Secure`.
    pub secure: bool,
    /// The effective configuration, for people.
    pub settings: Vec<Setting>,
    /// The source of `/metrics`.
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
            broker: None,
            webhooks: false,
            webhook_hosts: Vec::new(),
            secure: false,
            settings: Vec::new(),
            metrics: None,
        }
    }
}

/// The state of all handlers.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    bus: Bus,
    options: Options,
    rates: rate::Rates,
    waiting: waiting::Waiting,
    paces: pace::Paces,
    document: String,
    page: String,
    /// Messages for all open streams.
    live: tokio::sync::broadcast::Sender<live::Message>,
    /// Notified when a stream is opened.
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
    /// A server on a store with this program's schema.
    pub fn new(store: impl IntoStore, options: Options) -> Self {
        let store = store.into_store();
        let document = openapi::document();
        Self {
            app: Arc::new(Shared {
                bus: Bus::new(Arc::clone(&store)),
                rates: rate::Rates::new(options.requests_per_second),
                waiting: waiting::Waiting::default(),
                paces: pace::Paces::default(),
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

    /// Adds routes outside of `/api/v1` on the same listener. They check their callers themselves; changes from pages of
    /// other sites are refused here. They must not have a fallback.
    pub fn routes(mut self, more: axum::Router) -> Self {
        self.more = self.more.merge(more);
        self
    }

    /// Serves until `shutdown` is ready. Then it accepts no connection, ends long polls and streams, and finishes open
    /// requests.
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

/// Creates an admin token if the store has no token yet. A lease ensures that one of many instances does.
pub async fn first_token(store: &dyn Store) -> postrider::Result<Option<String>> {
    const LEASE: &str = "postrider-first-token";
    if !store.tokens().await?.is_empty() {
        return Ok(None);
    }
    let Some(lease) = store.acquire_lease(LEASE, "server", Duration::from_secs(30)).await? else {
        return Ok(None);
    };
    let made = if store.tokens().await?.is_empty() {
        Some(secret::create(store, "admin", postrider::store::access::Role::Admin).await?.0)
    } else {
        None
    };
    store.release_lease(LEASE, lease).await?;
    Ok(made)
}

/// The programs of docs/getting-started.md are compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/getting-started.md")]
mod getting_started {}
