//! Webhooks: consumers that are called over HTTP. Each call is signed as Standard Webhooks defines it, so that its receiver
//! can verify the sender. Redirects are not followed, and private addresses are refused unless they are allowed.
//!
//! Endpoints change at run time. [`Webhooks::run`] reads the subscriptions every second. A changed endpoint is used at once;
//! after a consumer was added or removed, a new relay takes over with the new lanes, while the last one ends its calls. What waits for a
//! subscription when it is removed is still sent to its last endpoint.

mod address;
mod signature;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use address::is_public;
pub use signature::WebhookSecret;

use super::{Lane, LaneOptions, Outcome, Parcel, Transport};
use crate::clock::{Clock, SystemClock};
use crate::consumer::Failure;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::observe;
use crate::relay::{Relay, RelayOptions};
use crate::store::{IntoStore, Store};
use crate::subscription::{EVERY_TOPIC, StoredSubscription, Subscription, Via};
use address::Resolver;

/// How often the subscriptions are read.
const LOOK: Duration = Duration::from_secs(1);
/// How long the look-up of a new endpoint's name may take.
const LOOK_UP: Duration = Duration::from_secs(2);

/// The options of webhooks.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// The secrets that sign: the current one, and the previous one during a rotation. Without any, nothing is sent.
    pub secrets: Vec<WebhookSecret>,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// Hosts that may be called without TLS and at private addresses.
    pub allow_hosts: Vec<String>,
    /// How each consumer is served.
    pub lanes: LaneOptions,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            secrets: Vec::new(),
            timeout: Duration::from_secs(15),
            allow_hosts: Vec::new(),
            lanes: LaneOptions::default(),
        }
    }
}

/// What is called for one subscription.
#[derive(Debug, Clone)]
struct Receiver {
    url: String,
    /// Its own secrets; `None`: those of the options sign.
    secrets: Option<Vec<WebhookSecret>>,
}

/// By consumer and topic.
type Endpoints = BTreeMap<String, BTreeMap<String, Receiver>>;

/// The transport of consumers that are called.
#[derive(Clone)]
pub struct Webhooks(Arc<WebhooksInner>);

struct WebhooksInner {
    client: Client,
    options: WebhookOptions,
    endpoints: RwLock<Endpoints>,
}

impl Webhooks {
    /// A transport without endpoints: [`Webhooks::run`] reads them.
    pub fn new(options: WebhookOptions) -> Result<Self> {
        let resolver = Resolver::new(options.allow_hosts.clone());
        Self::with_resolver(options, resolver)
    }

    fn with_resolver(options: WebhookOptions, resolver: Resolver) -> Result<Self> {
        let client = Client::builder()
            .timeout(options.timeout)
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would resolve names itself, past the check of addresses.
            .no_proxy()
            .dns_resolver(Arc::new(resolver))
            .user_agent("postrider")
            .build()
            .map_err(|e| Error::Unsupported(e.to_string()))?;
        Ok(Self(Arc::new(WebhooksInner { client, options, endpoints: RwLock::default() })))
    }

    /// Serves the webhooks of a store until `shutdown` is ready.
    pub async fn run(
        self,
        store: impl IntoStore,
        options: RelayOptions,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let store = store.into_store();
        let mut shutdown = std::pin::pin!(shutdown);
        self.read(&*store).await?;
        // F67: one relay with the present lanes, and those before it, until their last calls have ended. A receiver that does
        // not answer delays its own call only.
        let mut relays = JoinSet::new();
        // Only a panic ends the task of a relay early.
        let result = |ended: Result<Result<()>, JoinError>| {
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
        };
        loop {
            let lanes = self.served();
            let stop = CancellationToken::new();
            if !lanes.is_empty() {
                let relay = Relay::new(Arc::clone(&store), self.clone()).options(options.clone());
                relays.spawn(relay.run(stop.clone().cancelled_owned()));
            }
            let over = loop {
                tokio::select! {
                    Some(ended) = relays.join_next() => result(ended)?,
                    () = &mut shutdown => break true,
                    () = self.until_changed(&*store, &lanes) => break false,
                }
            };
            stop.cancel();
            if over {
                while let Some(ended) = relays.join_next().await {
                    result(ended)?;
                }
                return Ok(());
            }
        }
    }

    /// Reads the endpoints.
    async fn read(&self, store: &dyn Store) -> Result<()> {
        let (present, removed) = (store.subscriptions(None).await?, store.removed_subscriptions().await?);
        let others: BTreeSet<_> = present.iter().map(|stored| stored.subscription.consumer.clone()).collect();
        let mut endpoints = endpoints_of(present);
        let mut removed = endpoints_of(removed);
        // A consumer without a subscription is served while something waits for it.
        let gone: Vec<_> = removed.keys().filter(|consumer| !others.contains(*consumer)).cloned().collect();
        let dues = store.next_due(&gone.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        let waiting = gone.into_iter().zip(dues).filter_map(|(consumer, due)| due.map(|_| consumer));
        endpoints.extend(waiting.map(|consumer| (consumer, BTreeMap::new())).collect::<Vec<_>>());
        for (consumer, topics) in &mut endpoints {
            for (topic, endpoint) in removed.remove(consumer).unwrap_or_default() {
                topics.entry(topic).or_insert(endpoint);
            }
        }
        if !endpoints.is_empty() {
            for own in store.webhook_secrets().await? {
                if let Some(receiver) = endpoints.get_mut(&own.consumer).and_then(|topics| topics.get_mut(&own.topic)) {
                    receiver.secrets = Some(own.secrets.iter().map(WebhookSecret::from).collect());
                }
            }
        }
        *self.0.endpoints.write().unwrap_or_else(PoisonError::into_inner) = endpoints;
        Ok(())
    }

    /// The topics of each consumer: its lane.
    fn served(&self) -> BTreeMap<String, Vec<String>> {
        let endpoints = self.0.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        endpoints.iter().map(|(consumer, topics)| (consumer.clone(), topics.keys().cloned().collect())).collect()
    }

    async fn until_changed(&self, store: &dyn Store, lanes: &BTreeMap<String, Vec<String>>) {
        while self.served() == *lanes {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = self.read(store).await {
                tracing::warn!(%error, "the subscriptions could not be read: the known endpoints are used");
            }
        }
    }

    /// The endpoint of a consumer for a topic.
    fn receiver(&self, consumer: &str, topic: &str) -> Option<Receiver> {
        let endpoints = self.0.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        let topics = endpoints.get(consumer)?;
        topics.get(topic).or_else(|| topics.get(EVERY_TOPIC)).cloned()
    }

    /// Whether the consumer is still called: a moment ago it may have got another `via`.
    fn serves(&self, consumer: &str) -> bool {
        self.0.endpoints.read().unwrap_or_else(PoisonError::into_inner).contains_key(consumer)
    }

    async fn call(&self, lane: &Lane, parcel: &Parcel) -> Result<(), Failure> {
        let envelope = &*parcel.envelope;
        let receiver = self
            .receiver(&lane.name, &envelope.topic)
            .ok_or_else(|| Failure::retry("no endpoint is known for this topic").code("noEndpoint"))?;
        let url = self.checked(&receiver.url)?;
        let sent_at = SystemClock.now();
        let body = envelope.message(sent_at).map_err(|e| Failure::reject(e).code("encode"))?;
        let secrets = receiver.secrets.as_deref().unwrap_or(&self.0.options.secrets);
        let headers = headers(secrets, envelope, sent_at.unix_timestamp(), &body)?;
        let mut request = self.0.client.post(url).headers(headers).body(body);
        if let Some(timeout) = lane.options.of_topic(&envelope.topic).timeout {
            request = request.timeout(timeout);
        }
        // The URL may contain a secret, and errors are shown.
        let response = request.send().await.map_err(|e| unreachable(e.without_url()))?;
        judged(response.status(), response.headers())
    }

    /// Refuses an endpoint that must not be called. Host names are checked when they are resolved.
    fn checked(&self, endpoint: &str) -> Result<Url, Failure> {
        let refused = |why: String| Failure::retry(format!("the endpoint {why}")).code("endpointRefused");
        check_url(endpoint, &self.0.options.allow_hosts).map_err(refused)
    }
}

/// Whether an endpoint may be called, also by the addresses that its name has now; each call checks them again. Returns
/// what is wrong with it.
pub async fn check_endpoint(endpoint: &str, allow_hosts: &[String]) -> Result<(), String> {
    let url = check_url(endpoint, allow_hosts)?;
    let Some(host) = url.host_str().filter(|host| !allow_hosts.iter().any(|one| one == host)) else { return Ok(()) };
    // A name that cannot be resolved now may get an address before the first call.
    let found = tokio::time::timeout(LOOK_UP, tokio::net::lookup_host((host, 0))).await;
    let found: Vec<_> = found.ok().and_then(Result::ok).map(Iterator::collect).unwrap_or_default();
    if found.is_empty() || found.iter().any(|address| is_public(address.ip())) {
        return Ok(());
    }
    Err("has private addresses only, which are not allowed (webhook.allow-hosts)".into())
}

fn check_url(endpoint: &str, allow_hosts: &[String]) -> Result<Url, String> {
    let url = Url::parse(endpoint).map_err(|_| "is no URL")?;
    let host = url.host_str().ok_or("names no host")?;
    let allowed = allow_hosts.iter().any(|one| one == host);
    match url.scheme() {
        "https" => {}
        "http" if allowed => {}
        _ => return Err("must begin with https://, unless its host is allowed (webhook.allow-hosts)".into()),
    }
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
    if let Ok(address) = literal
        && !allowed
        && !is_public(address)
    {
        return Err("is a private address, which is not allowed (webhook.allow-hosts)".into());
    }
    Ok(url)
}

/// An endpoint without the password in it, for people who may not see it.
pub fn without_password(endpoint: &str) -> String {
    match Url::parse(endpoint) {
        Ok(mut url) if url.password().is_some() => {
            // Fails only for URLs that cannot have a password.
            let _ = url.set_password(Some("***"));
            url.into()
        }
        _ => endpoint.into(),
    }
}

fn headers(secrets: &[WebhookSecret], envelope: &Envelope, timestamp: i64, body: &[u8]) -> Result<HeaderMap, Failure> {
    if secrets.is_empty() {
        return Err(Failure::retry("there is no secret to sign webhooks with: set webhook.secret").code("noSecret"));
    }
    let id = envelope.event_id.as_str();
    let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect();
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| -> Result<(), Failure> {
        let value = HeaderValue::from_bytes(value.as_bytes());
        headers.insert(name, value.map_err(|e| Failure::reject(e).code("encode"))?);
        Ok(())
    };
    set("webhook-id", id)?;
    set("webhook-timestamp", &timestamp.to_string())?;
    set("webhook-signature", &signatures.join(" "))?;
    if let Some(header) = observe::header(envelope) {
        set("traceparent", &header)?;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(headers)
}

fn endpoints_of(stored: Vec<StoredSubscription>) -> Endpoints {
    let mut endpoints = Endpoints::new();
    for Subscription { topic, consumer, via, endpoint, .. } in stored.into_iter().map(|stored| stored.subscription) {
        if let (Via::Webhook, Some(endpoint)) = (via, endpoint) {
            endpoints.entry(consumer).or_default().insert(topic, Receiver { url: endpoint, secrets: None });
        }
    }
    endpoints
}

/// The result of an answer. Its body is not read.
fn judged(status: StatusCode, headers: &HeaderMap) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    let answer = format!("the receiver answered {status}");
    let code = format!("http{}", status.as_u16());
    let failure = match (status, retry_after(headers)) {
        (StatusCode::GONE, _) => Failure::reject(answer),
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(wait)) => {
            Failure::retry_after(wait, answer)
        }
        _ => Failure::retry(answer),
    };
    Err(failure.code(code))
}

/// The wait that a receiver asks for: in seconds, or until a date by its own clock. The lane's policy limits it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let date = |text: &str| OffsetDateTime::parse(text, &Rfc2822).ok();
    let asked = text(RETRY_AFTER)?;
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large to read is a wait of any length.
        return Some(Duration::from_secs(asked.parse().unwrap_or(u64::MAX)));
    }
    let now = text(DATE).and_then(date).unwrap_or_else(|| SystemClock.now());
    Some((date(asked)? - now).try_into().unwrap_or_default())
}

#[async_trait]
impl Transport for Webhooks {
    fn lanes(&self) -> Vec<Lane> {
        let lane = |(consumer, topics): (String, Vec<String>)| Lane {
            name: consumer.into(),
            // No topics: every event wakes the lane.
            topics: if topics.iter().any(|topic| topic == EVERY_TOPIC) { Vec::new() } else { topics },
            at_once: 1,
            options: self.0.options.lanes.clone(),
        };
        self.served().into_iter().map(lane).collect()
    }

    fn via(&self) -> Option<Via> {
        Some(Via::Webhook)
    }

    async fn prepare(&self, _store: &dyn Store) -> Result<()> {
        Ok(())
    }

    async fn deliver(&self, lane: &Lane, parcels: &[Parcel]) -> Vec<Outcome> {
        // One call at a time: each may take long, and the relay must be able to stop in between.
        let Some(parcel) = parcels.first() else { return Vec::new() };
        if !self.serves(&lane.name) {
            return vec![Outcome::NotTried];
        }
        vec![match self.call(lane, parcel).await {
            Ok(()) => Outcome::Done,
            Err(failure) => Outcome::Failed(failure),
        }]
    }
}

/// F13: an endpoint that was connected and did not answer may have had the event.
fn unreachable(error: reqwest::Error) -> Failure {
    let sent = !error.is_connect() && !error.is_builder();
    let failure = Failure::from(error);
    let failure = if sent { Failure::retry(format!("{failure}: it may have been delivered")) } else { failure };
    failure.code("unreachable")
}

#[cfg(test)]
mod tests;
