//! The HTTP client of the demo's actors.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::Value;

use crate::End;

/// Longer than the longest wait for events.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer, or the text of the error.
pub(super) type Answer = Result<Value, String>;

/// A client with a token.
#[derive(Clone)]
pub(super) struct Caller {
    client: Client,
    url: String,
    token: String,
}

impl Caller {
    pub(super) fn new(url: &str, token: String) -> Result<Self, End> {
        let client = Client::builder().timeout(PATIENCE).build().map_err(|e| End::Wrong(e.to_string()))?;
        Ok(Self { client, url: url.to_owned(), token })
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, Value::Null).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, body).await
    }

    /// Sends one request. A refusal becomes text: the demo cannot handle it.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Value) -> Answer {
        let request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        let request = if body.is_null() { request } else { request.json(&body) };
        let response = request.send().await.map_err(|error| format!("{path}: {error}"))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| format!("{path}: {error}"))?;
        if status.is_success() {
            return Ok(serde_json::from_str(&text).unwrap_or_default());
        }
        tracing::debug!(path, %status, text, "refused");
        Err(format!("{path}: {status} {text}"))
    }
}
