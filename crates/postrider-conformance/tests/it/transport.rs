//! Runs the transport suite in the process and through RabbitMQ.

use std::future::Future;

use postrider::alert::Alert;
use postrider::{Enlist, Inbox, RabbitMq, Relay};
use postrider_conformance::{Carrier, InProcess};
use postrider_proof::broker::VirtualHost;

/// A fresh virtual host of the broker for each case.
#[derive(Clone)]
pub(crate) struct Broker {
    rabbitmq: RabbitMq,
    host: VirtualHost,
}

impl Broker {
    pub(crate) async fn fresh() -> Self {
        let host = VirtualHost::fresh().await;
        Self { rabbitmq: RabbitMq::new(host.url()).expect("a URL"), host }
    }
}

impl Carrier for Broker {
    /// Nothing to do: events stay in the store until `carry` has declared the queues.
    async fn prepare<S: Enlist>(&self, _: &S, _: &Inbox<S>) -> postrider::Result<()> {
        Ok(())
    }

    /// Runs a relay that publishes, and a receiver.
    fn carry<S: Enlist>(
        &self,
        store: S,
        inbox: Inbox<S>,
        alert: impl Alert,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = postrider::Result<()>> + Send + 'static {
        let publisher = self.rabbitmq.publisher().every_topic();
        let receiver = self.rabbitmq.receiver(inbox).also_alert(alert);
        async move {
            // A message published before its queue exists is not in the queue.
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

    fn way_to(&self, consumer: &str) -> (String, Option<String>) {
        ("rabbitmq".into(), Some(consumer.into()))
    }

    async fn finish(self) {
        self.host.remove().await;
    }
}

mod in_process_on_sqlite {
    postrider_conformance::transport_suite!(crate::sqlite::Sqlite::fresh().await, super::InProcess);
}

mod in_process_on_postgres {
    postrider_conformance::transport_suite!(crate::postgres::Postgres::fresh().await, super::InProcess);
}

mod in_process_on_mysql {
    postrider_conformance::transport_suite!(crate::mysql::MySql::fresh().await, super::InProcess);
}

mod rabbitmq_on_sqlite {
    postrider_conformance::transport_suite!(crate::sqlite::Sqlite::fresh().await, super::Broker::fresh().await);
}

mod rabbitmq_on_postgres {
    postrider_conformance::transport_suite!(crate::postgres::Postgres::fresh().await, super::Broker::fresh().await);
}

mod rabbitmq_on_mysql {
    postrider_conformance::transport_suite!(crate::mysql::MySql::fresh().await, super::Broker::fresh().await);
}
