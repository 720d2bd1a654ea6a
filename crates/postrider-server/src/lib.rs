//! Postrider over HTTP, for services in any language and for operators.
//!
//! A request passes, in this order: `answer` (id and headers), `access` (the table of roles), `auth` (the caller), and a
//! handler in `routes`, in the file named after the first segment of its path. `input` reads bodies and queries, `problem`
//! answers errors. What no route has is the web `console`. JSON has types of its own (`event`, `view`), so that the library's types may change.

mod access;
mod answer;
mod auth;
mod broker;
mod connections;
mod console;
mod event;
mod filter;
mod handed;
mod holders;
mod input;
mod limits;
mod listen;
mod live;
mod mask;
mod openapi;
mod pace;
mod page;
mod probe;
mod problem;
mod rate;
mod routes;
mod seal;
pub mod secret;
mod settings;
mod view;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use postrider::redrive::RedriveRules;
use postrider::store::access::Role;
use postrider::store::{DeadHead, History, IntoStore, LaneSettings};
use postrider::transport::rabbitmq::Reconciler;
use postrider::{Bus, Retention, RetryPolicy, Store, Unheard, presence};
use tokio_util::sync::CancellationToken;

pub use access::{Entry, Reach, TABLE};
pub use connections::ConnectionLimits;
pub use console::{BasePath, Console};
pub use listen::{ListenError, Tls, check as check_listen};
pub use mask::Mask;
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
    /// What happens to an event of a topic without an enabled subscription.
    pub unheard: Unheard,
    /// The largest payload in bytes; the library's limit counts too.
    pub payload_bytes: usize,
    /// How many bytes of payloads one claim of a pulling consumer takes, or a single delivery.
    pub claim_bytes: usize,
    /// Requests of one caller a second, on average.
    pub requests_per_second: u32,
    /// How many connections there may be, and how slow they may be.
    pub connections: ConnectionLimits,
    /// The longest wait for events: shorter than the idle timeout of proxies in front.
    pub longest_wait: Duration,
    /// How often to query for deliveries that other processes have written or that have fallen due, while consumers wait.
    pub due_interval: Duration,
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
    /// The rules for finished rows, for people.
    pub retention: Retention,
    /// What only admins and consumers see of payloads and metadata.
    pub mask: Mask,
    /// How long audit records are kept.
    pub audit: Duration,
    /// The kind of the store, for people.
    pub store_kind: String,
    /// What this installation is, such as `prod`.
    pub environment: String,
    /// Addresses of the business's own pages by aggregate type, with `{id}`; `trace` is that of the tracing system, with
    /// `{traceId}`.
    pub links: BTreeMap<String, String>,
    /// The path that everything is served below.
    pub base_path: BasePath,
    /// The web console; without it, `/` is a list of all routes.
    pub console: Option<Console>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            lease: Duration::from_secs(30),
            redrive: RedriveRules::default(),
            dead_head: DeadHead::Hold,
            unheard: Unheard::Skip,
            payload_bytes: postrider::limits::PAYLOAD_BYTES,
            claim_bytes: postrider::limits::CLAIM_BYTES,
            requests_per_second: limits::REQUESTS_PER_SECOND,
            connections: ConnectionLimits::default(),
            longest_wait: Duration::from_secs(limits::WAIT_SECONDS),
            due_interval: Duration::from_millis(250),
            broker: None,
            webhooks: false,
            webhook_hosts: Vec::new(),
            secure: false,
            settings: Vec::new(),
            metrics: None,
            retention: Retention::default(),
            mask: Mask::default(),
            audit: Duration::from_secs(365 * 24 * 3600),
            store_kind: String::new(),
            environment: "local".into(),
            links: BTreeMap::new(),
            base_path: BasePath::default(),
            console: None,
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
    handed_out: handed::HandedOut,
    holders: holders::Holders,
    paces: pace::Paces,
    probed: probe::Probed,
    document: String,
    page: String,
    /// Messages for all open streams.
    live: tokio::sync::broadcast::Sender<live::Message>,
    /// Notified when a stream is opened.
    look: tokio::sync::Notify,
    stop: CancellationToken,
}

pub(crate) type App = Arc<Shared>;

impl Shared {
    /// Masks what a caller may not see of an event that it reads. A consumer that claims gets everything, because it works with it.
    fn mask(&self, caller: &auth::Caller, envelope: &mut postrider::Envelope) {
        if caller.role != Role::Admin {
            self.options.mask.apply(envelope);
        }
    }

    /// The same for JSON that a consumer has kept.
    fn masked(&self, caller: &auth::Caller, json: String) -> String {
        if caller.role == Role::Admin { json } else { self.options.mask.of_json(json) }
    }
}

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
                bus: Bus::new(Arc::clone(&store)).unheard(options.unheard),
                rates: rate::Rates::new(options.requests_per_second),
                waiting: waiting::Waiting::default(),
                handed_out: handed::HandedOut::default(),
                holders: holders::Holders::default(),
                paces: pace::Paces::default(),
                probed: probe::Probed::default(),
                page: match &options.console {
                    Some(console) => console.page(&options.base_path),
                    None => page::render(&document, &options.base_path),
                },
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
    /// requests, for [`ConnectionLimits::shutdown`] at most.
    pub async fn serve(
        self,
        listener: tokio::net::TcpListener,
        tls: Option<Tls>,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let app = self.app;
        let router = routes::router(&app, self.more);
        let watching = [
            tokio::spawn(waiting::watch(Arc::clone(&app))),
            tokio::spawn(live::watch(Arc::clone(&app))),
            tokio::spawn(holders::watch(Arc::clone(&app))),
            tokio::spawn(seal::watch(Arc::clone(&app))),
            tokio::spawn(probe::watch(Arc::clone(&app))),
        ];
        let present =
            presence::keep(Arc::clone(&app.store), || std::future::ready(()), app.stop.clone().cancelled_owned());
        let present = tokio::spawn(present);
        // Pulling consumers are served here. Only people read it, so an error stops nothing.
        let pulling = LaneSettings { max_attempts: app.options.retry.max_attempts, history: History::Keep };
        if let Err(error) = app.store.record_lane("*", pulling).await {
            tracing::warn!(%error, "the view postrider_outbox may show another number of attempts than is configured");
        }
        let stop = app.stop.clone();
        let shutdown = async move {
            shutdown.await;
            stop.cancel();
        };
        let served = listen::serve(listener, tls, router, app.options.connections, shutdown).await;
        app.stop.cancel();
        watching.iter().for_each(tokio::task::JoinHandle::abort);
        // It removes the row of this process, which takes a second at most.
        let _ = present.await;
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
        Some(secret::create(store, &secret::Wanted::new("admin", postrider::store::access::Role::Admin)).await?.0)
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

/// And those of docs/renames.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/renames.md")]
mod renames {}
