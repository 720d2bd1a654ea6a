//! Two services outside of the shop. They claim their events over HTTP, like a program in any other language, and fail in
//! different ways.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::caller::{Answer, Caller};
use super::people::chance;
use super::story;

/// The pause after an error of the server.
const REST: Duration = Duration::from_secs(1);
/// The attempt at which a parcel to the island succeeds.
const FERRY: u64 = 4;

/// A service with one topic.
#[derive(Clone, Copy)]
pub(super) enum Service {
    /// Delivers parcels.
    Carrier,
    /// Sends mail to buyers.
    Newsletter,
}

/// An address to which delivery fails until the event is redriven.
pub(super) const NOWHERE: &str = "nowhere";
/// An address to which delivery takes a few attempts.
pub(super) const ISLAND: &str = "the island";

/// Why an event fails.
struct Trouble {
    code: &'static str,
    message: &'static str,
    will_retry: bool,
}

impl Trouble {
    fn for_now(code: &'static str, message: &'static str) -> Option<Self> {
        Some(Self { code, message, will_retry: true })
    }

    fn for_good(code: &'static str, message: &'static str) -> Option<Self> {
        Some(Self { code, message, will_retry: false })
    }
}

impl Service {
    pub(super) const ALL: [Self; 2] = [Self::Carrier, Self::Newsletter];

    fn name(self) -> &'static str {
        match self {
            Self::Carrier => "carrier",
            Self::Newsletter => "newsletter",
        }
    }

    fn topic(self) -> &'static str {
        match self {
            Self::Carrier => story::PARCEL_TOPIC,
            Self::Newsletter => "order.purchased",
        }
    }

    /// Subscribes, unless there is a subscription already.
    pub(super) async fn subscribe(self, caller: &Caller) -> Result<(), String> {
        let known = caller.get(&format!("/api/v1/subscriptions?topic={}", self.topic())).await?;
        let is_this = |one: &Value| one["consumerId"] == self.name();
        if !known["subscriptions"].as_array().is_some_and(|known| known.iter().any(is_this)) {
            let path = format!("/api/v1/subscriptions/{}/{}", self.topic(), self.name());
            caller.ask(Method::PUT, &path, json!({ "via": "pull" })).await?;
        }
        Ok(())
    }

    /// Claims and settles until it is stopped.
    pub(super) async fn work(self, caller: Caller, fail_rate: f64, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let working = stop.run_until_cancelled(self.take(&caller));
            match working.await {
                // Outside of the cancellation: what was claimed is settled.
                Some(Ok(claimed)) => self.settle(&caller, &claimed, fail_rate).await,
                Some(Err(_)) => drop(stop.run_until_cancelled(tokio::time::sleep(REST)).await),
                None => {}
            }
        }
    }

    async fn take(self, caller: &Caller) -> Answer {
        let wanted = json!({ "max": 20, "leaseSeconds": 30, "waitSeconds": 20 });
        caller.post(&format!("/api/v1/consumers/{}/claim", self.name()), wanted).await
    }

    async fn settle(self, caller: &Caller, claimed: &Value, fail_rate: f64) {
        let mut results = Vec::new();
        for delivery in claimed["deliveries"].as_array().into_iter().flatten() {
            let trouble = self.handle(caller, delivery, fail_rate).await;
            let mut result = json!({
                "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "success": trouble.is_none(),
            });
            if let Some(Trouble { code, message, will_retry }) = trouble {
                result["errorCode"] = code.into();
                result["errorMessage"] = message.into();
                result["willRetry"] = will_retry.into();
            }
            results.push(result);
        }
        if !results.is_empty() {
            // If this is lost, the deliveries come again after their lease.
            let path = format!("/api/v1/consumers/{}/settle", self.name());
            let _ = caller.post(&path, json!({ "results": results })).await;
        }
    }

    async fn handle(self, caller: &Caller, delivery: &Value, fail_rate: f64) -> Option<Trouble> {
        let event = &delivery["event"];
        let to = &event["payload"]["to"];
        match self {
            Self::Carrier if to == NOWHERE => {
                if is_redriven(caller, event).await {
                    return None;
                }
                Trouble::for_now("addressUnknown", "the address is unknown")
            }
            Self::Newsletter if event["payload"]["userId"] == story::BUYER => {
                if is_redriven(caller, event).await {
                    return None;
                }
                Trouble::for_good("mailboxFull", "the mailbox is full")
            }
            Self::Carrier if to == ISLAND && delivery["attempt"].as_u64() < Some(FERRY) => {
                Trouble::for_now("weather", "the ferry does not go in this weather")
            }
            _ if !chance(fail_rate) => None,
            Self::Carrier if chance(0.25) => Trouble::for_good("tooHeavy", "the parcel is too heavy"),
            Self::Carrier => Trouble::for_now("timeout", "the van does not answer"),
            Self::Newsletter if chance(0.25) => Trouble::for_good("mailboxFull", "the mailbox is full"),
            Self::Newsletter => Trouble::for_now("timeout", "the mail server does not answer"),
        }
    }
}

/// Whether the event was redriven, which counts as: the cause is corrected.
async fn is_redriven(caller: &Caller, event: &Value) -> bool {
    let id = event["eventId"].as_str().unwrap_or_default();
    let shown = caller.get(&format!("/api/v1/events/{}", crate::client::escaped(id))).await;
    shown.is_ok_and(|shown| shown["retryCount"].as_u64() > Some(0))
}
