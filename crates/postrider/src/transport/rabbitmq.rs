//! RabbitMQ: one event, many queues. A relay publishes what it claims through a [`Publisher`], with confirms; in another
//! process, or the same, a [`Receiver`] reads the queues of its consumers and has their effects through the same [`Inbox`]
//! that serves them without a broker.
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
//! let sending = Relay::new(store, rabbitmq.publisher()).run(stop());
//! let receiving = rabbitmq.receiver(inbox).run(stop());
//! tokio::try_join!(sending, receiving)?;
//! # Ok(())
//! # }
//! ```

mod link;
mod message;
mod publisher;
mod receipts;
mod receiver;
pub mod topology;

use std::sync::Arc;
use std::time::Duration;

use lapin::uri::AMQPUri;

use crate::error::{Error, Result};
use crate::inbox::Inbox;
use crate::store::{Enlist, Store};
use link::Link;

pub use link::BrokerState;
pub use publisher::Publisher;
pub use receipts::ReceiptCollector;
pub use receiver::{Receiver, ReceiverOptions};

/// A broker. Clones share one connection for publishing, however many relays there are; each [`Receiver`] has one of its
/// own, because a broker in need blocks those that publish and nobody else.
#[derive(Clone)]
pub struct RabbitMq {
    link: Arc<Link>,
}

/// What a user may choose for a broker.
#[derive(Debug, Clone)]
pub struct RabbitMqOptions {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a confirm may take; past that the event counts as not sent, and its connection as dead. Less than the
    /// relay's lease, so that it is known in time.
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

    /// The same with other options than the usual.
    pub fn with_options(url: &str, options: RabbitMqOptions) -> Result<Self> {
        let uri: AMQPUri = url.parse().map_err(|e| {
            Error::Unsupported(format!("the broker's URL is none: {e}. Write amqp://user:password@host:port/%2f"))
        })?;
        Ok(Self { link: Arc::new(Link::new(uri, options, "publishes")) })
    }

    /// A transport that publishes.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(Arc::clone(&self.link))
    }

    /// What reads the queues of an inbox's consumers.
    pub fn receiver<S: Enlist>(&self, inbox: Inbox<S>) -> Receiver<S> {
        Receiver::new(self.publisher(), Arc::new(self.link.another("receives")), inbox)
    }

    /// What writes down the reports of remote consumers, in the store that the events came from.
    pub fn receipts(&self, store: Arc<dyn Store>) -> ReceiptCollector {
        ReceiptCollector::new(Arc::new(self.link.another("collects receipts")), self.publisher(), store)
    }

    /// How it stands with the connection for publishing.
    pub fn state(&self) -> BrokerState {
        self.link.state()
    }
}
