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
}

const fn open(method: Method, path: &'static str) -> Entry {
    Entry { method, path, roles: None, audited: false }
}

const fn to(method: Method, path: &'static str, roles: &'static [Role]) -> Entry {
    Entry { method, path, roles: Some(roles), audited: false }
}

const fn audited(method: Method, path: &'static str, roles: &'static [Role]) -> Entry {
    Entry { method, path, roles: Some(roles), audited: true }
}

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
    to(Method::GET, "/metrics", WATCHERS),
    to(Method::GET, "/api/v1/audit", OPERATORS),
    to(Method::GET, "/api/v1/config", OPERATORS),
    to(Method::GET, "/api/v1/consumers", ANYONE),
    to(Method::GET, "/api/v1/consumers/{consumerId}", WATCHERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/claim", CONSUMERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/settle", CONSUMERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/extend", CONSUMERS),
    to(Method::POST, "/api/v1/consumers/{consumerId}/release", CONSUMERS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/pause", OPERATORS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/resume", OPERATORS),
    audited(Method::POST, "/api/v1/consumers/{consumerId}/rename", OPERATORS),
    to(Method::GET, "/api/v1/counts", WATCHERS),
    to(Method::GET, "/api/v1/events", ANYONE),
    to(Method::POST, "/api/v1/events", PUBLISHERS),
    to(Method::POST, "/api/v1/events/batch", PUBLISHERS),
    to(Method::GET, "/api/v1/events/{eventId}", ANYONE),
    to(Method::GET, "/api/v1/events/{eventId}/payload", OPERATORS),
    to(Method::POST, "/api/v1/events/{eventId}/consumptions", CONSUMERS),
    audited(Method::POST, "/api/v1/events/{eventId}/redrive", OPERATORS),
    audited(Method::POST, "/api/v1/events/{eventId}/expire", OPERATORS),
    audited(Method::POST, "/api/v1/events/{eventId}/discard", OPERATORS),
    to(Method::GET, "/api/v1/failures", WATCHERS),
    to(Method::GET, "/api/v1/health", OPERATORS),
    to(Method::GET, "/api/v1/instances", WATCHERS),
    to(Method::GET, "/api/v1/jobs", WATCHERS),
    // Login writes its own audit record: the caller is unknown before it.
    open(Method::POST, "/api/v1/login"),
    audited(Method::POST, "/api/v1/logout", ANYONE),
    to(Method::GET, "/api/v1/operations", WATCHERS),
    audited(Method::POST, "/api/v1/operations", OPERATORS),
    to(Method::GET, "/api/v1/operations/{operationId}", WATCHERS),
    audited(Method::POST, "/api/v1/operations/{operationId}/pause", OPERATORS),
    audited(Method::POST, "/api/v1/operations/{operationId}/resume", OPERATORS),
    audited(Method::POST, "/api/v1/operations/{operationId}/cancel", OPERATORS),
    to(Method::GET, "/api/v1/search", WATCHERS),
    to(Method::GET, "/api/v1/session", ANYONE),
    to(Method::GET, "/api/v1/stats", WATCHERS),
    to(Method::GET, "/api/v1/stream", WATCHERS),
    to(Method::GET, "/api/v1/subscriptions", ANYONE),
    to(Method::GET, "/api/v1/subscriptions/{topic}/{consumerId}", ANYONE),
    audited(Method::PUT, "/api/v1/subscriptions/{topic}/{consumerId}", ADMINS),
    audited(Method::DELETE, "/api/v1/subscriptions/{topic}/{consumerId}", ADMINS),
    to(Method::GET, "/api/v1/tokens", ADMINS),
    audited(Method::POST, "/api/v1/tokens", ADMINS),
    audited(Method::DELETE, "/api/v1/tokens/{tokenId}", ADMINS),
    to(Method::GET, "/api/v1/topics", WATCHERS),
    to(Method::GET, "/api/v1/traces", WATCHERS),
    to(Method::GET, "/api/v1/traces/{traceId}", ANYONE),
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
