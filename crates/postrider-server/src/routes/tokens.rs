//! Tokens: list, create and revoke.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::store::access::{Role, StoredToken};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{Caller, Detail};
use crate::input::{Body, Path, label};
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
#[serde(deny_unknown_fields)]
#[schema(as = NewToken)]
struct TokenIn {
    /// Whose it is: it stands in the audit, and as initiator of events.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    role: RoleView,
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
    let (secret, token) = secret::create(&*app.store, &wanted.name, wanted.role.into()).await?;
    let detail = format!("{} {} {}", token.token_id, token.role.as_str(), token.name);
    let mut response = (StatusCode::CREATED, Json(CreatedToken { secret, token: token.into() })).into_response();
    response.extensions_mut().insert(Detail(detail));
    Ok(response)
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
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("there is no such token, or it is revoked already"))
    }
}
