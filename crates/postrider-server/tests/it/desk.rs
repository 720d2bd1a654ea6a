//! A server on a database of its own, with a token for each role. Compiled once for each store.

use std::collections::HashMap;

use postrider::outbox::{Dialect, HasDialect};
use postrider::store::access::Role;
use postrider_server::{Options, Server, secret};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Database;
use crate::database::TestDatabase;

pub(crate) struct Desk {
    pub(crate) url: String,
    pub(crate) store: <Database as TestDatabase>::Store,
    pub(crate) client: Client,
    pub(crate) tokens: HashMap<&'static str, String>,
    pub(crate) stop: CancellationToken,
    pub(crate) served: tokio::task::JoinHandle<std::io::Result<()>>,
    database: Database,
}

impl Desk {
    pub(crate) async fn open() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        Self::with_routes(options, axum::Router::new()).await
    }

    /// With routes of another service.
    pub(crate) async fn with_routes(options: Options, more: axum::Router) -> Self {
        let (database, store) = Database::fresh().await;
        let mut tokens = HashMap::new();
        for role in Role::ALL {
            let (secret, _) = secret::create(&store, &secret::Wanted::new(role.as_str(), role)).await.unwrap();
            tokens.insert(role.as_str(), secret);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let server = Server::new(store.clone(), options).routes(more);
        let served = tokio::spawn(server.serve(listener, None, stop.clone().cancelled_owned()));
        Self { url, store, client: Client::new(), tokens, stop, served, database }
    }

    /// A request as this role.
    pub(crate) fn request(&self, role: &str, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.tokens[role])
    }

    pub(crate) fn post(&self, role: &str, path: &str, body: &Value) -> RequestBuilder {
        self.request(role, Method::POST, &format!("/api/v1{path}")).json(body)
    }

    pub(crate) async fn get(&self, role: &str, path: &str) -> Response {
        self.request(role, Method::GET, &format!("/api/v1{path}")).send().await.unwrap()
    }

    /// Asks, and expects this status.
    pub(crate) async fn ask(&self, role: &str, path: &str, body: Value, expected: u16) -> Value {
        read(self.post(role, path, &body).send().await.unwrap(), expected).await
    }

    pub(crate) async fn subscribe(&self, topic: &str, consumer: &str, body: Value) {
        let path = format!("/api/v1/subscriptions/{topic}/{consumer}");
        let response = self.request("admin", Method::PUT, &path).json(&body).send().await.unwrap();
        read(response, 200).await;
    }

    pub(crate) async fn publish(&self, event: Value, expected: u16) -> Value {
        self.ask("publisher", "/events", event, expected).await
    }

    pub(crate) async fn show(&self, event_id: &str) -> Value {
        read(self.get("operator", &format!("/events/{event_id}")).await, 200).await
    }

    pub(crate) async fn claim(&self, consumer: &str, max: u32) -> Vec<Value> {
        let claimed = self.ask("consumer", &format!("/consumers/{consumer}/claim"), json!({ "max": max }), 200).await;
        claimed["deliveries"].as_array().unwrap().clone()
    }

    /// A text as a literal of the database's SQL.
    pub(crate) fn literal(&self, text: &str) -> String {
        let text = text.replace('\'', "''");
        match self.store.dialect() {
            Dialect::MySql => format!("'{}'", text.replace('\\', "\\\\")),
            _ => format!("'{text}'"),
        }
    }

    /// Runs a statement on the database.
    pub(crate) async fn execute(&self, sql: &str) {
        self.database.execute(sql).await;
    }

    /// Ends the server, and what it left.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
        self.database.remove().await;
    }
}

/// The JSON of an answer with this status.
pub(crate) async fn read(response: Response, expected: u16) -> Value {
    let status = response.status();
    let is_problem = response.headers().get("content-type").is_some_and(|kind| kind == "application/problem+json");
    let text = response.text().await.unwrap();
    assert_eq!(status.as_u16(), expected, "{text}");
    assert_eq!(is_problem, status.as_u16() >= 400, "{text}");
    if status == StatusCode::NO_CONTENT { Value::Null } else { serde_json::from_str(&text).unwrap() }
}
