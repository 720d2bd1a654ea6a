//! The client of a running server.

use std::time::Duration;

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use reqwest::header::IF_MATCH;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Map, Value};

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
        // Longer than the longest wait for events.
        let mut request = self.request(Client::builder().timeout(Duration::from_secs(90)), method, path)?;
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(version) = version {
            request = request.header(IF_MATCH, version);
        }
        self.answer(self.send(request).await?).await
    }

    /// Opens a stream of server-sent events.
    pub(crate) async fn open(&self, path: &str) -> Result<Response, End> {
        // The server sends a comment every 15 seconds.
        let request = self.request(Client::builder().read_timeout(Duration::from_secs(60)), Method::GET, path)?;
        let response = self.send(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.answer(response).await.err().unwrap_or_else(|| End::Wrong("the stream has ended".into())))
    }

    fn request(&self, client: ClientBuilder, method: Method, path: &str) -> Result<RequestBuilder, End> {
        let url = format!("{}/api/v1{path}", self.server.trim_end_matches('/'));
        let client = client.build().map_err(|error| End::Wrong(error.to_string()))?;
        let request = client.request(method, &url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, End> {
        request.send().await.map_err(|error| {
            End::Away(format!(
                "{} does not answer ({}): is `postrider serve` running there?",
                self.server,
                cause(&error)
            ))
        })
    }

    /// What the server says, or why it refuses.
    async fn answer(&self, response: Response) -> Result<Value, End> {
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

    /// Up to `limit` rows of a list with cursors.
    pub(crate) async fn pages(
        &self,
        path: &str,
        name: &str,
        filter: &Map<String, Value>,
        limit: usize,
    ) -> Result<Vec<Value>, End> {
        let pairs =
            filter.iter().map(|(name, value)| format!("&{name}={}", escaped(value.as_str().unwrap_or_default())));
        let query: String = pairs.collect();
        let (mut all, mut cursor) = (Vec::new(), String::new());
        while all.len() < limit {
            let most = (limit - all.len()).min(500);
            let page = self.get(&format!("{path}?limit={most}{query}{cursor}")).await?;
            all.extend(rows(&page, name));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={}", escaped(next)),
                None => break,
            }
        }
        Ok(all)
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

/// The parameters that were given.
pub(crate) fn given<const N: usize>(values: [(&str, &Option<String>); N]) -> Map<String, Value> {
    values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into()))).collect()
}

/// The rows of a list in an answer.
pub(crate) fn rows(answer: &Value, name: &str) -> Vec<Value> {
    answer[name].as_array().cloned().unwrap_or_default()
}
