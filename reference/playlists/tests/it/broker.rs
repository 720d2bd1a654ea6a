//! A virtual host for each test, because queues have fixed names and tests run in parallel.

use reqwest::Method;

use crate::database::from_environment;

pub(crate) struct Broker {
    url: String,
    vhost: String,
    /// The URL of the broker's management API.
    http: String,
}

impl Broker {
    pub(crate) async fn fresh() -> Self {
        let server = from_environment("POSTRIDER_TEST_RABBITMQ");
        let (place, _) = server.rsplit_once('/').unwrap();
        let vhost = format!("playlists-{}", uuid::Uuid::new_v4().simple());
        let broker = Self { url: format!("{place}/{vhost}"), http: management(place), vhost };
        broker.manage(Method::PUT, "vhosts", "", "{}").await;
        let all = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
        broker.manage(Method::PUT, "permissions", "/guest", all).await;
        broker
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Cleans up after a passed test.
    pub(crate) async fn finish(self) {
        self.manage(Method::DELETE, "vhosts", "", "").await;
    }

    async fn manage(&self, method: Method, what: &str, rest: &str, body: &'static str) {
        let url = format!("{}/api/{what}/{}{rest}", self.http, self.vhost);
        let request = reqwest::Client::new().request(method, url).header("content-type", "application/json");
        let answer = request.body(body).send().await.expect("the broker's management answers");
        assert!(answer.status().is_success(), "{what}{rest}: {}", answer.status());
    }
}

/// The management port of our brokers is three above the AMQP port. `POSTRIDER_TEST_RABBITMQ_HTTP` overrides the URL.
fn management(place: &str) -> String {
    std::env::var("POSTRIDER_TEST_RABBITMQ_HTTP").unwrap_or_else(|_| {
        let (_, address) = place.split_once("://").unwrap();
        let (address, port) = address.rsplit_once(':').unwrap();
        format!("http://{address}:{}", port.parse::<u16>().unwrap() + 3)
    })
}
