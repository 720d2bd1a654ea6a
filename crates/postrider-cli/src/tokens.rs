//! `postrider tokens`: list, create and revoke tokens, through the server, or directly in its store if the last admin token is
//! lost.

use clap::{Args, Subcommand};
use postrider::Store;
use postrider::store::access::{NewAudit, Role, StoredToken};
use postrider::store::connect;
use postrider_server::secret;
use reqwest::Method;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use crate::client::{Remote, escaped, rows};
use crate::{Context, End, output};

/// List, create and revoke tokens
#[derive(Args)]
#[command(after_help = "Examples:
  postrider tokens create ci --role publisher
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
    },
    /// All tokens, including revoked ones
    List,
    /// Revoke a token for good
    Revoke {
        /// Its id
        token_id: String,
    },
}

const COLUMNS: [&str; 6] = ["tokenId", "name", "role", "createdAt", "lastUsedAt", "revokedAt"];

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
            Action::Create { name, role } => {
                let made = self.remote.post("/tokens", &json!({ "name": name, "role": role })).await?;
                output::one(context.output, &made);
            }
            Action::List => {
                output::list(context.output, &rows(&self.remote.get("/tokens").await?, "tokens"), &COLUMNS);
            }
            Action::Revoke { token_id } => {
                self.remote.ask(Method::DELETE, &format!("/tokens/{}", escaped(&token_id)), None).await?;
            }
        }
        Ok(())
    }

    async fn in_store(self, store: &dyn Store, context: &Context) -> Result<(), End> {
        let record = async |action: &str, target: &str| {
            let record = NewAudit {
                actor: "postrider tokens",
                action,
                target: Some(target),
                outcome: "done",
                ..NewAudit::default()
            };
            store.append_audit(&record).await
        };
        match self.action {
            Action::Create { name, role } => {
                let (secret, token) = secret::create(store, &name, role.parse::<Role>()?).await?;
                record("create token", &token.token_id).await?;
                let mut made = shown(&token);
                made["secret"] = secret.into();
                output::one(context.output, &made);
            }
            Action::List => {
                let tokens: Vec<_> = store.tokens().await?.iter().map(shown).collect();
                output::list(context.output, &tokens, &COLUMNS);
            }
            Action::Revoke { token_id } => {
                if !store.revoke_token(&token_id).await? {
                    return Err(End::NotFound("there is no such token, or it is revoked already".into()));
                }
                record("revoke token", &token_id).await?;
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
    })
}
