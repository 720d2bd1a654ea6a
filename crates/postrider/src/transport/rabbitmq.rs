//! RabbitMQ: one event, many queues. A relay publishes what it claims through a [`Publisher`], with confirms. In another
//! process, or the same, a [`Receiver`] reads the queues of its consumers and passes the events to the same [`Inbox`] that
//! serves them without a broker.
//!
//! Delivery through a broker is at least once. The *effect* is exactly once, because inbox row and effect are one
//! transaction in the consumer's database, and the message is acknowledged after it.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn example(
//! #     store: postrider::store::sqlite::SqliteStore,
//! #     inbox: postrider::Inbox<postrider::store::sqlite::SqliteStore>,
//! # ) -> postrider::Result<()> {
//! use postrider::{RabbitMq, Relay};
//!
//! let rabbitmq = RabbitMq::new("amqp://guest:guest@localhost/%2f")?;
//! let stop = || async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! let sending = Relay::new(store, rabbitmq.publisher().every_topic()).run(stop());
//! let receiving = rabbitmq.receiver(inbox).run(stop());
//! tokio::try_join!(sending, receiving)?;
//! # Ok(())
//! # }
//! ```

mod handle;
mod link;
mod message;
mod publisher;
mod receipts;
mod receiver;
mod reconciler;
pub mod topology;

use std::sync::Arc;
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri};

use crate::error::{Error, Result};
use crate::host::is_this_machine;
use crate::inbox::Inbox;
use crate::store::{Enlist, IntoStore};
use link::Link;

pub use crate::presence::BrokerState;
pub use publisher::{Publisher, TOGETHER};
pub use receipts::ReceiptCollector;
#[cfg(feature = "testing")]
pub(crate) use receipts::reread as reread_receipt;
pub use receiver::{Receiver, ReceiverOptions};
pub use reconciler::Reconciler;

/// A broker. Clones share one connection for publishing, however many relays there are. Each [`Receiver`] has a connection
/// of its own, because a broker that is short of memory or disk blocks only the connections that publish.
#[derive(Clone)]
pub struct RabbitMq {
    link: Arc<Link>,
}

/// The options of a broker.
#[derive(Debug, Clone)]
pub struct RabbitMqOptions {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a confirm may take. After that the event counts as not sent, and its connection as dead. It has to be
    /// shorter than the relay's lease.
    pub confirm_timeout: Duration,
}

impl Default for RabbitMqOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(5), confirm_timeout: Duration::from_secs(10) }
    }
}

impl RabbitMq {
    /// The broker that a URL names, as `amqp://user:password@host:port/vhost`. Connects when it is first used.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(url, RabbitMqOptions::default())
    }

    /// The same with options.
    pub fn with_options(url: &str, options: RabbitMqOptions) -> Result<Self> {
        let uri: AMQPUri = url.parse().map_err(|e| {
            Error::Unsupported(format!(
                "the broker's URL cannot be read: {e}. Write amqp://user:password@host:port/%2f"
            ))
        })?;
        if uri.scheme == AMQPScheme::AMQP && !is_this_machine(&uri.authority.host) {
            let host = &uri.authority.host;
            tracing::warn!(
                host,
                "the connection to the broker is not encrypted: write amqps:// if the broker has a certificate"
            );
        }
        Ok(Self { link: Arc::new(Link::new(uri, options, "publishes")) })
    }

    /// A transport that publishes.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(Arc::clone(&self.link))
    }

    /// A receiver for the queues of an inbox's consumers.
    pub fn receiver<S: Enlist>(&self, inbox: Inbox<S>) -> Receiver<S> {
        Receiver::new(self.publisher(), Arc::new(self.link.another("receives")), inbox)
    }

    /// A collector that writes the reports of remote consumers to the store that the events came from.
    pub fn receipts(&self, store: impl IntoStore) -> ReceiptCollector {
        ReceiptCollector::new(Arc::new(self.link.another("collects receipts")), self.publisher(), store.into_store())
    }

    /// A reconciler that makes the broker agree with the subscriptions of a store.
    pub fn reconciler(&self, store: impl IntoStore) -> Reconciler {
        Reconciler::new(Arc::clone(&self.link), Arc::new(self.link.another("declares")), store.into_store())
    }

    /// The state of the connection for publishing.
    pub fn state(&self) -> BrokerState {
        self.link.state()
    }
}
