//! Which role may call which route: one table. A route that is not in it is refused to all callers. A test compares the
//! table, the router and the OpenAPI document.

use axum::http::Method;
use postrider::store::access::Role;

/// One route and its roles.
#[derive(Debug)]
pub struct Entry {
    /// The method.
    pub method: Method,
    /// The path with the names of its parameters.
    pub path: &'static str,
    /// The roles that may call it; `None` if it needs no token.
    pub roles: Option<&'static [Role]>,
    /// Whether each call is written to the audit. Events and attempts are records themselves.
    pub audited: bool,
    /// The status of the answer to a change, which its audit record has: the record is written before the answer.
    pub success: &'static str,
    /// What the route does about a token's scope.
    pub reach: Reach,
}

/// What a route does about a token's scope. Every route has to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It needs no token.
    Open,
    /// It is about the caller only.
    Own,
    /// Its handler shows and changes only what is inside.
    Scoped,
    /// It is about the whole installation: for a token with a scope it does not exist.
    Whole,
}

const fn open(method: Method, path: &'static str) -> Entry {
    Entry { method, path, roles: None, audited: false, success: "200", reach: Reach::Open }
}

const fn to(method: Method, path: &'static str, reach: Reach, roles: &'static [Role]) -> Entry {
    Entry { method, path, roles: Some(roles), audited: false, success: "200", reach }
}

const fn audited(
    method: Method,
    path: &'static str,
    success: &'static str,
    reach: Reach,
    roles: &'static [Role],
) -> Entry {
    Entry { method, path, roles: Some(roles), audited: true, success, reach }
}

use Reach::{Own, Scoped, Whole};

const ANYONE: &[Role] = &Role::ALL;
const WATCHERS: &[Role] = &[Role::Viewer, Role::Operator, Role::Admin];
const PUBLISHERS: &[Role] = &[Role::Publisher, Role::Admin];
const CONSUMERS: &[Role] = &[Role::Consumer, Role::Admin];
const OPERATORS: &[Role] = &[Role::Operator, Role::Admin];
const ADMINS: &[Role] = &[Role::Admin];

/// All routes.
pub const TABLE: &[Entry] = &[
    open(Method::GET, "/"),
    open(Method::GET, "/livez"),
    open(Method::GET, "/readyz"),
    open(Method::GET, "/openapi.json"),
    to(Method::GET, "/metrics", Whole, WATCHERS),
    to(Method::GET, "/api/v1/audit", Whole, OPERATORS),
    to(Method::GET, "/api/v1/audit/check", Whole, OPERATORS),
    to(Method::GET, "/api/v1/config", Whole, OPERATORS),
    to(Method::GET, "/api/v1/consumers", Scoped, ANYONE),
    to(Method::GET, "/api/v1/consumers/{consumerId}", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/consumers/{consumerId}/attempts", Scoped, WATCHERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/claim", Scoped, CONSUMERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/settle", Scoped, CONSUMERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/extend", Scoped, CONSUMERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/release", Scoped, CONSUMERS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/pause", "204", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/resume", "204", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/rename", "200", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/keys/skip", "200", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/keys/hold", "200", Scoped, OPERATORS),
    to(Method::GET, "/api/v1/counts", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/events", Scoped, ANYONE),
    to(Method::POST, "/api/v1/events", Scoped, PUBLISHERS),
    to(Method::POST, "/api/v1/events/batch", Scoped, PUBLISHERS),
    to(Method::GET, "/api/v1/events/{eventId}", Scoped, ANYONE),
    to(Method::GET, "/api/v1/events/{eventId}/payload", Scoped, OPERATORS),
    to(Method::POST, "/api/v1/events/{eventId}/consumptions", Scoped, CONSUMERS),
    audited(Method::POST, "/api/v1/events/{eventId}/redrive", "202", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/events/{eventId}/expire", "202", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/events/{eventId}/discard", "202", Scoped, OPERATORS),
    audited(Method::GET, "/api/v1/export", "200", Scoped, OPERATORS),
    to(Method::GET, "/api/v1/failures", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/health", Whole, OPERATORS),
    to(Method::GET, "/api/v1/instances", Whole, WATCHERS),
    to(Method::GET, "/api/v1/jobs", Whole, WATCHERS),
    // Login writes its own audit record: the caller is unknown before it.
    open(Method::POST, "/api/v1/login"),
    audited(Method::POST, "/api/v1/logout", "204", Own, ANYONE),
    to(Method::GET, "/api/v1/operations", Scoped, WATCHERS),
    audited(Method::POST, "/api/v1/operations", "202", Scoped, OPERATORS),
    to(Method::GET, "/api/v1/operations/{operationId}", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/operations/{operationId}/items", Scoped, WATCHERS),
    audited(Method::POST, "/api/v1/operations/{operationId}/pause", "200", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/operations/{operationId}/resume", "200", Scoped, OPERATORS),
    audited(Method::POST, "/api/v1/operations/{operationId}/cancel", "200", Scoped, OPERATORS),
    // Keys of the business are among the findings, but no payload.
    to(Method::GET, "/api/v1/promises", Whole, WATCHERS),
    to(Method::GET, "/api/v1/search", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/session", Own, ANYONE),
    to(Method::GET, "/api/v1/stats", Whole, WATCHERS),
    // Business keys, and what consumers keep.
    to(Method::GET, "/api/v1/stories", Scoped, OPERATORS),
    to(Method::GET, "/api/v1/stream", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/subscriptions", Scoped, ANYONE),
    to(Method::GET, "/api/v1/subscriptions/{topic}/{consumerId}", Scoped, ANYONE),
    audited(Method::PUT, "/api/v1/subscriptions/{topic}/{consumerId}", "200", Scoped, ADMINS),
    audited(Method::DELETE, "/api/v1/subscriptions/{topic}/{consumerId}", "204", Scoped, ADMINS),
    to(Method::GET, "/api/v1/tokens", Whole, ADMINS),
    audited(Method::POST, "/api/v1/tokens", "201", Whole, ADMINS),
    audited(Method::DELETE, "/api/v1/tokens/{tokenId}", "204", Whole, ADMINS),
    to(Method::GET, "/api/v1/topics", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/traces", Scoped, WATCHERS),
    to(Method::GET, "/api/v1/traces/{traceId}", Scoped, ANYONE),
];

/// The entry of a route; HEAD is GET without the body.
pub(crate) fn entry(method: &Method, path: &str) -> Option<&'static Entry> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    TABLE.iter().find(|entry| entry.path == path && entry.method == *method)
}

/// The methods that a path takes, as the `Allow` header lists them.
pub(crate) fn allowed(path: &str) -> String {
    let mut methods: Vec<&str> = Vec::new();
    for entry in TABLE.iter().filter(|entry| entry.path == path) {
        methods.push(entry.method.as_str());
        if entry.method == Method::GET {
            methods.push("HEAD");
        }
    }
    methods.join(", ")
}
