//! Every way to a consumer, held to the suite: inside the process, and through a RabbitMQ.

use std::future::Future;

use postrider::alert::Alert;
use postrider::{Enlist, Inbox, RabbitMq, Relay};
use postrider_conformance::{Carrier, InProcess};
use uuid::Uuid;

/// A virtual host of the broker's for each case.
#[derive(Clone)]
pub(crate) struct Broker {
    rabbitmq: RabbitMq,
    vhost: String,
    /// Where the broker is managed over HTTP.
    http: String,
}

impl Broker {
    pub(crate) async fn fresh() -> Self {
        let url = std::env::var("POSTRIDER_TEST_RABBITMQ").unwrap_or_else(|_| {
            panic!("POSTRIDER_TEST_RABBITMQ is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
        });
        let (place, _) = url.rsplit_once('/').expect("a virtual host");
        let vhost = format!("case-{}", Uuid::new_v4().simple());
        let http = management(place);
        ask(reqwest::Method::PUT, format!("{http}/api/vhosts/{vhost}"), "{}").await;
        let all = r#"{"configure":".*","write":".*","read":".*"}"#;
        ask(reqwest::Method::PUT, format!("{http}/api/permissions/{vhost}/guest"), all).await;
        Self { rabbitmq: RabbitMq::new(&format!("{place}/{vhost}")).expect("a URL"), vhost, http }
    }
}

/// Our servers' management is three ports above the broker; others are named.
fn management(place: &str) -> String {
    std::env::var("POSTRIDER_TEST_RABBITMQ_HTTP").unwrap_or_else(|_| {
        let (_, address) = place.rsplit_once('@').expect("a user");
        let (host, port) = address.rsplit_once(':').expect("a port");
        format!("http://guest:guest@{host}:{}", port.parse::<u16>().expect("a port") + 3)
    })
}

async fn ask(method: reqwest::Method, url: String, body: &'static str) {
    let asked = reqwest::Client::new().request(method, &url).header("content-type", "application/json").body(body);
    let answer = asked.send().await.expect("the broker's management answers");
    assert!(answer.status().is_success(), "{url}: {}", answer.status());
}

impl Carrier for Broker {
    /// A relay that publishes, and a receiver.
    fn carry<S: Enlist>(
        &self,
        store: S,
        inbox: Inbox<S>,
        alert: impl Alert,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = postrider::Result<()>> + Send + 'static {
        let publisher = self.rabbitmq.publisher();
        let receiver = self.rabbitmq.receiver(inbox).alert(alert);
        async move {
            // Whatever is published before a queue is there does not get into it.
            receiver.declare().await?;
            let (stopping, stopped) = tokio::sync::watch::channel(());
            let wait = |mut stopped: tokio::sync::watch::Receiver<()>| async move {
                let _ = stopped.changed().await;
            };
            let relay = Relay::new(store, publisher).run(wait(stopped.clone()));
            let receiving = receiver.run(wait(stopped));
            let stop = async {
                stop.await;
                drop(stopping);
                Ok(())
            };
            tokio::try_join!(relay, receiving, stop).map(|_| ())
        }
    }

    fn way_to(&self, consumer: &str) -> (String, String) {
        ("rabbitmq".into(), consumer.into())
    }

    async fn finish(self) {
        ask(reqwest::Method::DELETE, format!("{}/api/vhosts/{}", self.http, self.vhost), "").await;
    }
}

mod in_process_on_sqlite {
    postrider_conformance::transport_suite!(crate::sqlite::Sqlite::fresh().await, super::InProcess);
}

mod in_process_on_postgres {
    postrider_conformance::transport_suite!(crate::postgres::Postgres::fresh().await, super::InProcess);
}

mod rabbitmq_on_sqlite {
    postrider_conformance::transport_suite!(crate::sqlite::Sqlite::fresh().await, super::Broker::fresh().await);
}

mod rabbitmq_on_postgres {
    postrider_conformance::transport_suite!(crate::postgres::Postgres::fresh().await, super::Broker::fresh().await);
}
