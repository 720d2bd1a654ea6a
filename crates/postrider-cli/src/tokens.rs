//! `postrider tokens`: list, create and revoke tokens, through the server, or directly in its store if the last admin token is
//! lost.

use std::time::Duration;

use clap::{Args, Subcommand};
use postrider::store::access::{NewAudit, Role, StoredToken, audited};
use postrider::store::connect;
use postrider::{Scope, Store};
use postrider_server::secret;
use reqwest::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::client::{Remote, escaped, rows};
use crate::{Context, End, output};

/// List, create and revoke tokens
#[derive(Args)]
#[command(after_help = "Examples:
  postrider tokens create ci --role publisher
  postrider tokens create points --role consumer --consumer points --expires 90d
  postrider tokens list
  postrider tokens revoke TOKEN_ID
  postrider tokens create rescue --role admin --store sqlite://postrider-data/postrider.db   without a server")]
pub(crate) struct Tokens {
    #[command(subcommand)]
    action: Action,
    /// Work directly in this store, instead of through a server
    #[arg(long, global = true, value_name = "URL", hide_env_values = true)]
    store: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Subcommand)]
enum Action {
    /// Create a token; its secret is printed only now
    Create {
        /// The name of its owner, for the audit and as initiator of events
        name: String,
        /// viewer, publisher, consumer, operator or admin
        #[arg(long)]
        role: String,
        /// Only for this consumer; may be repeated
        #[arg(long = "consumer", value_name = "NAME")]
        consumers: Vec<String>,
        /// Only for this topic, or with `order.*` for those that begin with `order.`; may be repeated
        #[arg(long = "topic", value_name = "TOPIC")]
        topics: Vec<String>,
        /// Only for this tenant; may be repeated
        #[arg(long = "tenant", value_name = "ID")]
        tenants: Vec<String>,
        /// How long it works, such as 90d, 12h or 30m
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<Duration>,
    },
    /// All tokens, including revoked ones
    List,
    /// Revoke a token for good
    Revoke {
        /// Its id
        token_id: String,
    },
}

const COLUMNS: [&str; 8] = ["tokenId", "name", "role", "reaches", "createdAt", "lastUsedAt", "expiresAt", "revokedAt"];

/// A number of days, hours or minutes.
fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || "must be a number of days, hours or minutes, such as 90d, 12h or 30m".to_owned();
    let (at, unit) = text.char_indices().next_back().ok_or_else(wrong)?;
    let minutes = match unit {
        'd' => 24 * 60,
        'h' => 60,
        'm' => 1,
        _ => return Err(wrong()),
    };
    let number: u32 = text[..at].parse().ok().filter(|number| (1..=100_000).contains(number)).ok_or_else(wrong)?;
    Ok(Duration::from_secs(60 * minutes * u64::from(number)))
}

impl Tokens {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        match &self.store {
            Some(url) => {
                let store = connect(url).await?;
                store.check_schema().await?;
                self.in_store(&*store, context).await
            }
            None => self.through_server(context).await,
        }
    }

    async fn through_server(self, context: &Context) -> Result<(), End> {
        match self.action {
            Action::Create { name, role, consumers, topics, tenants, expires } => {
                let expires_at = expires.map(|lasts| OffsetDateTime::now_utc() + lasts);
                let expires_at = expires_at.and_then(|at| at.format(&Rfc3339).ok());
                let wanted = json!({
                    "name": name, "role": role, "consumers": consumers, "topics": topics, "tenants": tenants,
                    "expiresAt": expires_at,
                });
                let made = self.remote.post("/tokens", &wanted).await?;
                output::one(context.output, &made);
            }
            Action::List => {
                let mut tokens = rows(&self.remote.get("/tokens").await?, "tokens");
                tokens.iter_mut().for_each(|token| token["reaches"] = reaches(&token["scope"]).into());
                output::list(context.output, &tokens, &COLUMNS);
            }
            Action::Revoke { token_id } => {
                self.remote.ask(Method::DELETE, &format!("/tokens/{}", escaped(&token_id)), None).await?;
            }
        }
        Ok(())
    }

    async fn in_store(self, store: &dyn Store, context: &Context) -> Result<(), End> {
        // A change commits with its record.
        let record = NewAudit { actor: "postrider tokens", outcome: "done", ..NewAudit::default() };
        match self.action {
            Action::Create { name, role, consumers, topics, tenants, expires } => {
                let scope = Scope { consumers, topics, tenants };
                let wanted = secret::Wanted { name, role: role.parse::<Role>()?, scope, lasts: expires };
                let record = NewAudit { action: "create token", target: Some(&wanted.name), ..record };
                let (secret, token) = audited(&record, secret::create(store, &wanted)).await.done?;
                let mut made = shown(&token);
                made["secret"] = secret.into();
                output::one(context.output, &made);
            }
            Action::List => {
                let tokens: Vec<_> = store.tokens().await?.iter().map(shown).collect();
                output::list(context.output, &tokens, &COLUMNS);
            }
            Action::Revoke { token_id } => {
                let record = NewAudit { action: "revoke token", target: Some(&token_id), ..record };
                if !audited(&record, store.revoke_token(&token_id)).await.done? {
                    return Err(End::NotFound("there is no such token, or it is revoked already".into()));
                }
            }
        }
        Ok(())
    }
}

fn shown(token: &StoredToken) -> Value {
    let time = |time: Option<time::OffsetDateTime>| time.and_then(|time| time.format(&Rfc3339).ok());
    json!({
        "tokenId": token.token_id, "name": token.name, "role": token.role.as_str(),
        "createdAt": time(Some(token.created_at)), "lastUsedAt": time(token.last_used_at), "revokedAt": time(token.revoked_at),
        "expiresAt": time(token.expires_at), "scope": token.scope, "reaches": reaches(&json!(token.scope)),
    })
}

/// A scope in one cell: `consumer points, topic order.*`.
fn reaches(scope: &Value) -> String {
    let kinds = [("consumer", "consumers"), ("topic", "topics"), ("tenant", "tenants")];
    let names = kinds.into_iter().flat_map(|(kind, list)| {
        let names = scope[list].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(move |name| format!("{kind} {name}"))
    });
    let names: Vec<_> = names.collect();
    if names.is_empty() { "everything".into() } else { names.join(", ") }
}
