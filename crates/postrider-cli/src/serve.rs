//! `postrider serve`: the API, a relay, the roll-up and bulk operations in one process.

use clap::{Args, ValueEnum};
use postrider::Shards;
use postrider::store::connect;
use postrider_server::{Server, first_token};

use crate::config::server;
use crate::process::{Endpoint, Parts, Plan};
use crate::telemetry::Telemetry;
use crate::{Context, End, print_data};

/// The log filter unless RUST_LOG is set.
const LOG: &str = "info,sqlx=warn";

/// What a process does.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Role {
    /// Everything.
    All,
    /// The API alone.
    Api,
    /// The relay, the roll-up and bulk operations alone.
    Relay,
}

impl Role {
    /// As other processes see it.
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Relay => "relay",
        }
    }
}

/// Serve the API, and carry events to webhooks and the broker
#[derive(Args)]
#[command(after_help = "Examples:
  postrider serve                                             SQLite in postrider-data/, http://127.0.0.1:7070
  postrider serve --store postgres://app@localhost/bus --broker amqp://guest:guest@localhost/%2f
  postrider serve --listen 0.0.0.0:7070 --set tls.cert=cert.pem --set tls.key=key.pem
  postrider serve --role relay --store postgres://a@db1/bus --store postgres://a@db2/bus --shards 0-31

The first start creates an admin token and prints it once. The log goes to stderr; RUST_LOG filters it.")]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The store; a relay may have several
    #[arg(long, value_name = "URL")]
    store: Vec<String>,
    /// The broker
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// What this process does
    #[arg(long, value_enum, default_value_t = Role::All)]
    role: Role,
    /// The shards that the relay works on, as 0-3,7
    #[arg(long)]
    shards: Option<String>,
    /// A proxy in front encrypts: listen on any address without TLS
    #[arg(long)]
    behind_proxy: bool,
}

impl Serve {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let config = context.flags.load(vec![
            server::LISTEN.to(self.listen.as_deref()),
            server::STORE.to(self.store.first().map(String::as_str)),
            server::BROKER.to(self.broker.as_deref()),
            server::BEHIND_PROXY.to(self.behind_proxy.then_some("true")),
        ])?;
        let plan = Plan::of(&config, "serve", self.shards.as_deref().map_or(Ok(Shards::ALL), str::parse)?)?;
        if self.role != Role::Relay && self.store.len() > 1 {
            return Err(End::Wrong("only --role relay takes several --store".into()));
        }
        let telemetry = Telemetry::begin(&config, LOG)?;
        let mut parts = Parts::new()?;
        let metrics = parts.metrics()?;
        let mut urls: Vec<String> = self.store.clone();
        if urls.is_empty() {
            urls.push(config.get(&server::STORE));
        }
        let mut stores = Vec::new();
        for url in urls {
            let store = connect(&url).await?;
            store.migrate().await?;
            store.wake().presence().set_role(self.role.name());
            stores.push(store);
        }
        let reconciler = plan.reconciler(&stores);
        if self.role != Role::Api {
            parts.reconcile(reconciler.clone());
        }
        for store in stores {
            if self.role != Role::Api {
                parts.relay(&plan, &store, reconciler.as_ref())?;
                parts.upkeep(&plan, &store);
                parts.promises(&plan, &store, None);
            }
            if self.role != Role::Relay {
                let endpoint = Endpoint::open(&config).await?;
                if let Some(token) = first_token(&*store).await? {
                    print_data(format!("admin token: {token}"));
                }
                print_data(format!("listening on {}", endpoint.url));
                let options = plan.options(&config, &endpoint, metrics.clone(), reconciler.clone());
                parts.serve(Server::new(store, options), endpoint);
            }
        }
        let ended = parts.run_until_stopped(std::future::ready(())).await;
        telemetry.end().await;
        ended
    }
}
