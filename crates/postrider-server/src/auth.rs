//! Finds the caller by a bearer token or by the session of a browser. Everything that the table does not grant is refused
//! here, and every call that changes something is written to the audit.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use postrider::store::access::{self as tokens, NewAudit, Role, StoredToken};
use postrider::{Scope, observe};

use time::OffsetDateTime;

use crate::access::{self, Entry, Reach};
use crate::answer::RequestId;
use crate::problem::Problem;
use crate::{App, limits};

/// The cookie that carries a session.
pub(crate) const COOKIE: &str = "postrider_session";

/// The caller of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) token_id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What it reaches.
    pub(crate) scope: Scope,
    pub(crate) expires_at: Option<OffsetDateTime>,
    /// The hash of the session's secret, if the caller has a session.
    pub(crate) session: Option<String>,
}

impl Caller {
    /// Whether payloads are shown: only to operators and admins.
    pub(crate) fn sees_payloads(&self) -> bool {
        matches!(self.role, Role::Operator | Role::Admin)
    }

    fn of(token: StoredToken, session: Option<String>) -> Self {
        Self {
            token_id: token.token_id,
            name: token.name,
            role: token.role,
            scope: token.scope,
            expires_at: token.expires_at,
            session,
        }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}

/// An answer shows a payload to a person: the call is written to the audit.
#[derive(Clone)]
pub(crate) struct PayloadShown;

/// Checks rate, origin, credentials and role before the handler runs.
pub(crate) async fn guard(State(app): State<App>, path: MatchedPath, mut request: Request, next: Next) -> Response {
    let Some(entry) = access::entry(request.method(), path.as_str()) else {
        return not_allowed(path.as_str()).into_response();
    };
    if let Err(problem) = same_origin(request.method(), request.headers()) {
        return problem.into_response();
    }
    let address = address(&request);
    let Some(roles) = entry.roles else {
        return match app.rates.request(&address) {
            Ok(()) => next.run(request).await,
            Err(wait) => too_many(wait).into_response(),
        };
    };
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    let attempt = Attempt { action: &format!("{} {}", entry.method, entry.path), address: &address, request_id };
    let caller = match caller(&app, request.headers(), attempt).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    if let Err(wait) = app.rates.request(&caller.token_id) {
        return too_many(wait).into_response();
    }
    let granted = roles.contains(&caller.role);
    if granted && entry.reach == Reach::Whole && !caller.scope.is_everything() {
        return outside().into_response();
    }
    request.extensions_mut().insert(caller.clone());
    // HEAD shows nothing.
    let is_audited = entry.audited && request.method() != Method::HEAD;
    match (granted, is_audited) {
        (true, false) => read(&app, entry, caller, request, next).await,
        (false, false) => refused(entry, &caller).into_response(),
        (_, true) => audited(app, entry, caller, granted, request, next).await,
    }
}

/// The guard of routes that are not ours: a page of another site changes nothing through a browser.
pub(crate) async fn same_origin_only(request: Request, next: Next) -> Response {
    match same_origin(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Runs a handler that changes nothing.
async fn read(app: &App, entry: &'static Entry, caller: Caller, request: Request, next: Next) -> Response {
    let call = Call::of(entry, caller, &request);
    let response = next.run(request).await;
    if response.extensions().get::<PayloadShown>().is_some() {
        append_audit(app, &call.record(response.status().as_str())).await;
    }
    response
}

/// Runs the handler in its own task: if the caller disconnects, the audit record is still written. A change commits with its
/// record; a call without a change gets its record afterwards.
async fn audited(
    app: App,
    entry: &'static Entry,
    caller: Caller,
    granted: bool,
    request: Request,
    next: Next,
) -> Response {
    let call = Call::of(entry, caller, &request);
    let done = tokio::spawn(async move {
        if !granted {
            let refused = refused(entry, &call.caller).into_response();
            append_audit(&app, &call.record(refused.status().as_str())).await;
            return refused;
        }
        let audited = tokens::audited(&call.record(entry.success), next.run(request)).await;
        if !audited.written {
            let (reason, detail) = (audited.reason.as_deref(), audited.detail.as_deref());
            let status = audited.done.status();
            let record = NewAudit { reason, detail, ..call.record(status.as_str()) };
            append_audit(&app, &record).await;
        }
        audited.done
    });
    done.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a handler panicked");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the server's log says why").into_response()
    })
}

/// A call, as the audit has it.
struct Call {
    caller: Caller,
    action: String,
    target: String,
    request_id: Option<String>,
}

impl Call {
    fn of(entry: &Entry, caller: Caller, request: &Request) -> Self {
        Self {
            caller,
            action: format!("{} {}", entry.method, entry.path),
            target: request.uri().path().trim_start_matches("/api/v1").to_owned(),
            request_id: request.extensions().get::<RequestId>().map(|id| id.0.clone()),
        }
    }

    /// Its record; the outcome is the status of the answer.
    fn record<'a>(&'a self, outcome: &'a str) -> NewAudit<'a> {
        NewAudit {
            actor: &self.caller.name,
            token_id: Some(&self.caller.token_id),
            role: Some(self.caller.role),
            action: &self.action,
            target: Some(&self.target),
            outcome,
            request_id: self.request_id.as_deref(),
            ..NewAudit::default()
        }
    }
}

/// Appends a record to the audit. If the store fails, the record goes to the log: the call itself has happened.
pub(crate) async fn append_audit(app: &App, record: &NewAudit<'_>) {
    if let Err(error) = app.store.append_audit(record).await {
        let NewAudit { actor, action, target, outcome, .. } = record;
        tracing::error!(%error, actor, action, target, outcome, "an audit record was not stored");
    }
}

/// Finds the caller by the token in the header or the session in the cookie.
async fn caller(app: &App, headers: &HeaderMap, attempt: Attempt<'_>) -> Result<Caller, Problem> {
    let found = match (bearer(headers), cookie(headers)) {
        (Some(token), _) => {
            let token = app.store.find_token(&tokens::hash(token)).await?;
            token.map(|token| Caller::of(token, None))
        }
        (None, Some(session)) => {
            let session = tokens::hash(session);
            let token = app.store.find_session(&session, limits::SESSION_IDLE).await?;
            token.map(|token| Caller::of(token, Some(session)))
        }
        (None, None) => return Err(unknown()),
    };
    match found {
        Some(caller) => Ok(caller),
        None => Err(wrong(app, attempt).await),
    }
}

/// A call with credentials that may be wrong.
pub(crate) struct Attempt<'a> {
    pub(crate) action: &'a str,
    pub(crate) address: &'a str,
    pub(crate) request_id: Option<String>,
}

/// The answer to unknown credentials, which are counted, logged and written to the audit. Too many from one address are answered
/// with 429 and only counted, so that guesses fill neither the log nor the audit.
pub(crate) async fn wrong(app: &App, attempt: Attempt<'_>) -> Problem {
    let Attempt { action, address, request_id } = attempt;
    observe::login_failed();
    if let Err(wait) = app.rates.wrong(address) {
        return too_many(wait);
    }
    tracing::warn!(address, action, request_id, "credentials that are not known, revoked or expired were refused");
    let record = NewAudit {
        actor: "unknown",
        action,
        target: Some(address),
        outcome: "401",
        request_id: request_id.as_deref(),
        ..NewAudit::default()
    };
    append_audit(app, &record).await;
    unknown()
}

/// The answer to a call of a token with a scope to what is about the whole installation.
fn outside() -> Problem {
    Problem::not_found("this is about the whole installation, and the token has a scope: use one without")
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    tokens::bearer(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|one| one.trim().split_once('='));
    cookies.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value).next()
}

/// Refuses a change that a page of another site asks for (CSRF). Browsers send `Sec-Fetch-Site` and `Origin`; other
/// programs send neither, and have no cookies that a page could use.
fn same_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site_is_ours = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text("host").unwrap_or_default();
    let origin_is_ours =
        text("origin").is_none_or(|origin| origin.split_once("://").is_some_and(|(_, authority)| authority == host));
    if site_is_ours && origin_is_ours {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "crossOrigin",
        "the request comes from a page of another site: use the API with a token instead",
    ))
}

/// The address that a request came from.
pub(crate) fn address(request: &Request) -> String {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.map_or_else(|| "unknown".into(), |peer| peer.0.ip().to_string())
}

pub(crate) fn unknown() -> Problem {
    let detail = "send a token that is not revoked as `Authorization: Bearer …`; `postrider tokens create` makes one";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

fn refused(entry: &Entry, caller: &Caller) -> Problem {
    let roles: Vec<_> = entry.roles.unwrap_or_default().iter().map(|role| role.as_str()).collect();
    let detail = format!("this needs the role {}; yours is {}", roles.join(" or "), caller.role.as_str());
    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
}

pub(crate) fn not_allowed(path: &str) -> Problem {
    let allowed = access::allowed(path);
    if allowed.is_empty() {
        return Problem::new(StatusCode::FORBIDDEN, "forbidden", "no role may call this");
    }
    let problem =
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed", format!("this path takes {allowed}"));
    match HeaderValue::from_str(&allowed) {
        Ok(allowed) => problem.header(header::ALLOW, allowed),
        Err(_) => problem,
    }
}

fn too_many(wait: Duration) -> Problem {
    let seconds = wait.as_secs() + 1;
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "tooManyRequests", format!("ask again in {seconds} s"))
        .header(header::RETRY_AFTER, HeaderValue::from(seconds))
}
