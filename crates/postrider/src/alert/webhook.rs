//! Alerts by webhook, signed as Standard Webhooks defines it.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url, redirect};

use super::notice::Notice;
use super::watch::Notify;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::transport::webhook::WebhookSecret;

/// How long a receiver may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Posts alerts as JSON to a URL, signed. Redirects are not followed.
#[derive(Debug, Clone)]
pub struct NotifyWebhook {
    url: Url,
    secret: WebhookSecret,
    client: Client,
}

impl NotifyWebhook {
    /// Alerts go to `url`. Its address may be private: an operator has set it, and no request changes it.
    pub fn new(url: &str, secret: WebhookSecret) -> Result<Self> {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| Error::invalid("alert url", "must begin with https:// or http://".into()))?;
        let client = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent("postrider")
            .build()
            .map_err(|e| Error::Unsupported(e.to_string()))?;
        Ok(Self { url, secret, client })
    }
}

#[async_trait]
impl Notify for NotifyWebhook {
    async fn notify(
        &self,
        message_id: &str,
        notice: &Notice,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let body = serde_json::to_vec(notice)?;
        let timestamp = SystemClock.now().unix_timestamp();
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let request = request
            .header("webhook-id", message_id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.secret.sign(message_id, timestamp, &body))
            .body(body);
        // The URL may contain a secret, and errors are shown.
        let status = request.send().await.map_err(reqwest::Error::without_url)?.status();
        if !status.is_success() {
            return Err(format!("the receiver of alerts answered {status}").into());
        }
        Ok(())
    }
}
