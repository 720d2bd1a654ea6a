//! Customers that choose their actions pseudo-randomly and retry until they get an answer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::process::TIMEOUT;

/// A customer, who follows the shop to its current address.
pub(crate) struct Customer {
    base: watch::Receiver<String>,
    client: reqwest::Client,
}

impl Customer {
    pub(crate) fn new(base: watch::Receiver<String>) -> Self {
        Self { base, client: reqwest::Client::new() }
    }

    /// Creates one order and acts on it pseudo-randomly.
    pub(crate) async fn buy(&self, chance: &mut Chance, wanted: Value) {
        let order = self.post("/shop/orders", wanted).await;
        let path = format!("/shop/orders/{}", order["orderId"].as_str().unwrap());
        if chance.percent() < 3 {
            return;
        }
        self.post(&format!("{path}/checkout"), json!({})).await;
        if chance.percent() < 12 {
            self.post(&format!("{path}/cancel"), json!({"by": "USER"})).await;
        }
        let payment = self.post(&format!("{path}/payments"), json!({})).await;
        let Some(payment) = payment["paymentId"].as_str() else { return };
        if chance.percent() < 5 {
            return;
        }
        let callback = json!({"paymentId": payment, "success": chance.percent() < 88});
        let (pay, cancel) = ("/shop/payments/callback", format!("{path}/cancel"));
        match chance.percent() {
            0..50 => drop(self.post(pay, callback.clone()).await),
            50..75 => drop(tokio::join!(
                self.post(pay, callback.clone()),
                self.post(pay, callback.clone()),
                self.post(pay, callback.clone())
            )),
            _ => drop(tokio::join!(self.post(pay, callback.clone()), self.post(&cancel, json!({"by": "USER"})))),
        }
        if chance.percent() < 20 {
            self.post(pay, callback).await;
        }
        if chance.percent() < 35 {
            let refund = format!("{path}/refund");
            tokio::join!(self.post(&refund, json!({})), self.post(&refund, json!({})));
        }
        // Includes the refunds that the shop opened by itself.
        for refund in self.ask(&path, None).await["refunds"].as_array().unwrap() {
            let callback = json!({"refundId": refund["refundId"], "success": chance.percent() < 85});
            let path = "/shop/refunds/callback";
            tokio::join!(self.post(path, callback.clone()), self.post(path, callback));
        }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.ask(path, Some(body)).await
    }

    /// Retries until there is an answer, because it is unknown whether a
    /// failed request was processed. A refusal is an answer.
    async fn ask(&self, path: &str, body: Option<Value>) -> Value {
        let asking = async {
            loop {
                let url = format!("{}{path}", *self.base.borrow());
                let request = match &body {
                    Some(body) => self.client.post(url).json(body),
                    None => self.client.get(url),
                };
                match request.send().await {
                    Ok(answer) if answer.status().as_u16() < 500 => {
                        if let Ok(answer) = answer.json().await {
                            return answer;
                        }
                    }
                    Ok(answer) => assert_eq!(answer.status(), 503, "{path}"),
                    Err(_) => {}
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, asking).await.unwrap_or_else(|_| panic!("{path} has no answer"))
    }
}

/// A generator seeded by the order number, so that every run is the same.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn of(number: usize) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1))
    }

    pub(crate) fn percent(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 100
    }
}
