//! Tokens: list, create and revoke.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::Scope;
use postrider::store::access::{Role, StoredToken};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::Caller;
use crate::input::{Body, Path, Time, label};
use crate::problem::Problem;
use crate::view::At;
use crate::{App, secret};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// What a token may do.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Role)]
pub(super) enum RoleView {
    Viewer,
    Publisher,
    Consumer,
    Operator,
    Admin,
}

impl From<Role> for RoleView {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => Self::Viewer,
            Role::Publisher => Self::Publisher,
            Role::Consumer => Self::Consumer,
            Role::Operator => Self::Operator,
            Role::Admin => Self::Admin,
        }
    }
}

impl From<RoleView> for Role {
    fn from(role: RoleView) -> Self {
        match role {
            RoleView::Viewer => Self::Viewer,
            RoleView::Publisher => Self::Publisher,
            RoleView::Consumer => Self::Consumer,
            RoleView::Operator => Self::Operator,
            RoleView::Admin => Self::Admin,
        }
    }
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
struct TokenView {
    token_id: String,
    name: String,
    role: RoleView,
    created_at: At,
    /// To the minute.
    last_used_at: Option<At>,
    revoked_at: Option<At>,
    /// When it stops working by itself.
    expires_at: Option<At>,
    /// What it reaches; nothing else exists for it.
    scope: ScopeView,
}

/// What a token reaches. An empty list is no limit.
#[derive(Serialize, ToSchema)]
#[schema(as = Scope)]
pub(super) struct ScopeView {
    consumers: Vec<String>,
    /// A topic may end in `.*`.
    topics: Vec<String>,
    tenants: Vec<String>,
}

impl From<Scope> for ScopeView {
    fn from(Scope { consumers, topics, tenants }: Scope) -> Self {
        Self { consumers, topics, tenants }
    }
}

impl From<StoredToken> for TokenView {
    fn from(token: StoredToken) -> Self {
        Self {
            token_id: token.token_id,
            name: token.name,
            role: token.role.into(),
            created_at: token.created_at.into(),
            last_used_at: token.last_used_at.map(Into::into),
            revoked_at: token.revoked_at.map(Into::into),
            expires_at: token.expires_at.map(Into::into),
            scope: token.scope.into(),
        }
    }
}

#[derive(Serialize, ToSchema)]
struct Tokens {
    tokens: Vec<TokenView>,
}

/// All tokens, the revoked ones too
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", responses((status = 200, description = "The tokens.", body = Tokens)))]
async fn list(State(app): State<App>) -> Result<Json<Tokens>, Problem> {
    Ok(Json(Tokens { tokens: app.store.tokens().await?.into_iter().map(Into::into).collect() }))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewToken)]
struct TokenIn {
    /// Whose it is: it stands in the audit, and as initiator of events.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    role: RoleView,
    /// The consumers that it reaches; all where they are missing. Not for publishers.
    #[serde(default)]
    consumers: Vec<String>,
    /// The topics that it reaches; `order.*` is every topic that begins with `order.`.
    #[serde(default)]
    topics: Vec<String>,
    /// The tenants that it reaches. Events without a tenant are outside.
    #[serde(default)]
    tenants: Vec<String>,
    /// When it stops working.
    expires_at: Option<Time>,
}

#[derive(Serialize, ToSchema)]
struct CreatedToken {
    /// The secret: it is shown this once.
    secret: String,
    #[serde(flatten)]
    token: TokenView,
}

/// Make a token; its secret is in the answer, and nowhere else
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = TokenIn,
    responses((status = 201, description = "Made.", body = CreatedToken)))]
async fn create(State(app): State<App>, Body(wanted): Body<TokenIn>) -> Result<Response, Problem> {
    label("name", &wanted.name)?;
    let lasts = match wanted.expires_at {
        Some(at) => {
            let lasts = Duration::try_from(at.0 - app.store.now().await?).ok().filter(|lasts| !lasts.is_zero());
            Some(lasts.ok_or_else(|| Problem::invalid("expiresAt", "must be in the future, by the store's clock"))?)
        }
        None => None,
    };
    let scope = Scope { consumers: wanted.consumers, topics: wanted.topics, tenants: wanted.tenants };
    let wanted = secret::Wanted { name: wanted.name, role: wanted.role.into(), scope, lasts };
    let (secret, token) = secret::create(&*app.store, &wanted).await?;
    Ok((StatusCode::CREATED, Json(CreatedToken { secret, token: token.into() })).into_response())
}

/// Revoke a token for good, with every session it has begun
///
/// A token does not revoke itself, so that the last admin is not locked out by accident.
#[utoipa::path(delete, path = "/api/v1/tokens/{tokenId}", tag = "tokens",
    params(("tokenId" = String, Path, description = "Its id.")),
    responses(
        (status = 204, description = "Revoked."),
        (status = 409, description = "`ownToken`: it is the caller's own.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn revoke(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    if id == caller.token_id {
        return Err(Problem::conflict("ownToken", "this is the token you are using: revoke it with another admin's"));
    }
    if label("tokenId", &id).is_ok() && app.store.revoke_token(&id).await? {
        app.holders.end(&id);
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("there is no such token, or it is revoked already"))
    }
}
