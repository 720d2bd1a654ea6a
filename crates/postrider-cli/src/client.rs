//! The client of a running server.

use std::time::Duration;

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use reqwest::header::IF_MATCH;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use crate::End;

/// The server and the token.
#[derive(Args, Clone)]
pub(crate) struct Remote {
    /// The server
    #[arg(long, global = true, env = "POSTRIDER_SERVER", default_value = "http://127.0.0.1:7070", value_name = "URL")]
    server: String,
    /// The token; in the environment fewer people see it than on the command line
    #[arg(long, global = true, env = "POSTRIDER_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Remote {
    /// Sends a request. The answer is JSON, or null without a body.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, End> {
        self.ask_if(method, path, body, None).await
    }

    /// The same, only if what is changed has this version.
    pub(crate) async fn ask_if(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        version: Option<&str>,
    ) -> Result<Value, End> {
        let url = format!("{}/api/v1{path}", self.server.trim_end_matches('/'));
        // Longer than the longest wait for events.
        let client =
            Client::builder().timeout(Duration::from_secs(90)).build().map_err(|e| End::Wrong(e.to_string()))?;
        let mut request = client.request(method, &url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(version) = version {
            request = request.header(IF_MATCH, version);
        }
        let response = request.send().await.map_err(|error| {
            End::Away(format!(
                "{} does not answer ({}): is `postrider serve` running there?",
                self.server,
                cause(&error)
            ))
        })?;
        let status = response.status();
        let text = response.text().await.map_err(|error| End::Away(error.to_string()))?;
        let answer: Value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or_default() };
        if status.is_success() {
            return Ok(answer);
        }
        let detail = answer["detail"].as_str().map_or_else(|| format!("{} answered {status}", self.server), Into::into);
        Err(match status {
            StatusCode::NOT_FOUND => End::NotFound(detail),
            StatusCode::UNAUTHORIZED if self.token.is_none() => {
                End::NotAllowed("give a token with --token or POSTRIDER_TOKEN".into())
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => End::NotAllowed(detail),
            // A rule forbids it for every caller. An id that is taken is an ordinary error.
            StatusCode::PRECONDITION_FAILED => End::NotAllowed(detail),
            StatusCode::CONFLICT if answer["code"] != "idConflict" => End::NotAllowed(detail),
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                End::Away(detail)
            }
            _ => End::Wrong(detail),
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, End> {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, End> {
        self.ask(Method::POST, path, Some(body)).await
    }
}

/// The last cause of an error.
fn cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// A part of a path or a query, percent-encoded but for what a URL never reserves.
pub(crate) fn escaped(part: &str) -> PercentEncode<'_> {
    const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(part, &RESERVED)
}

/// The rows of a list in an answer.
pub(crate) fn rows(answer: &Value, name: &str) -> Vec<Value> {
    answer[name].as_array().cloned().unwrap_or_default()
}
