//! Login and logout of a browser: a token is exchanged for a session, whose secret no script can read.

use axum::Json;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use postrider::store::access::{NewAudit, NewSession, hash};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::tokens::RoleView;
use crate::answer::RequestId;
use crate::auth::{self, Attempt, Caller};
use crate::input::Body;
use crate::problem::Problem;
use crate::{App, limits, secret};

/// What the audit calls a login.
const LOGIN: &str = "POST /api/v1/login";

pub(super) fn routes() -> OpenApiRouter<App> {
    let login = OpenApiRouter::new().routes(routes!(login)).layer(DefaultBodyLimit::max(limits::OPEN_BODY_BYTES));
    login.routes(routes!(logout))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Login {
    /// The token that the session stands for.
    token: String,
}

/// Who has logged in.
#[derive(Serialize, ToSchema)]
struct LoggedIn {
    name: String,
    role: RoleView,
}

/// Exchange a token for a session, which comes as a cookie
#[utoipa::path(post, path = "/api/v1/login", tag = "session", request_body = Login,
    responses((status = 200, description = "Logged in.", body = LoggedIn)))]
async fn login(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    use axum::extract::FromRequest as _;
    let address = auth::address(&request);
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    let Body(Login { token }) = Body::from_request(request, &app).await?;
    let Some(token) = app.store.find_token(&hash(&token)).await? else {
        let attempt = Attempt { action: LOGIN, address: &address, request_id };
        return Err(auth::wrong(&app, attempt).await);
    };
    // Each login gets a new session, so that one planted in the browser before is worthless (session fixation).
    let session = secret::fresh()?;
    let new = NewSession { hash: &hash(&session), token_id: &token.token_id, lasts: limits::SESSION_LASTS };
    app.store.create_session(&new).await?;
    let record = NewAudit {
        actor: &token.name,
        token_id: Some(&token.token_id),
        role: Some(token.role),
        action: LOGIN,
        target: Some("/login"),
        outcome: "200",
        request_id: request_id.as_deref(),
        ..NewAudit::default()
    };
    auth::append_audit(&app, &record).await;
    let cookie = cookie(&app, &session, limits::SESSION_LASTS.as_secs());
    Ok(([(header::SET_COOKIE, cookie)], Json(LoggedIn { name: token.name, role: token.role.into() })).into_response())
}

/// End the session
#[utoipa::path(post, path = "/api/v1/logout", tag = "session", responses((status = 204, description = "Logged out.")))]
async fn logout(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    if let Some(session) = &caller.session {
        app.store.end_session(session).await?;
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie(&app, "", 0))]).into_response())
}

fn cookie(app: &App, session: &str, seconds: u64) -> String {
    let secure = if app.options.secure { "; Secure" } else { "" };
    let path = app.options.base_path.cookie();
    format!("{}={session}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}", auth::COOKIE)
}
