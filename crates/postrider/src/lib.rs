//! **Events that ride in your transaction.**
//!
//! Write your business change and the event that announces it in one database transaction: both exist, or neither.
//!
//! # A tour
//!
//! An event is a type with a topic. An [`Outbox`] writes it on *your* connection; you begin and commit:
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # mod tour {
//! use postrider::store::sqlite::SqliteStore;
//! use postrider::prelude::*;
//! use postrider::{Aggregate, Enqueued, Event, Outbox};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct OrderPaid { order_id: i64, amount_cents: i64 }
//!
//! impl Event for OrderPaid {
//!     const TOPIC: &'static str = "order.paid";
//!     fn aggregate(&self) -> Option<Aggregate> { Some(Aggregate::new("ORDER", self.order_id)) }
//!     fn key(&self) -> Option<String> { Some(self.order_id.to_string()) } // orders events of one key
//! }
//!
//! # pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("postrider-tour-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let url = format!("sqlite://{}", folder.join("shop.db").display());
//! let store = SqliteStore::connect(&url).await?;
//! store.migrate().await?;
//! let outbox = Outbox::new(store.clone()).service("shop");
//!
//! let mut tx = store.begin().await?;
//! sqlx::query("create table orders (id integer primary key, status text)").execute(&mut *tx).await?;
//! sqlx::query("insert into orders values (7, 'PAID')").execute(&mut *tx).await?;
//! let paid = outbox.enqueue(&mut tx, &OrderPaid { order_id: 7, amount_cents: 9_900 }).await?;
//! tx.commit().await?;
//!
//! // `order.paid` has no subscriber yet, so the event is kept until there is one.
//! assert!(matches!(paid, Enqueued::Unheard(_)));
//! let found = store.find(paid.event_id().as_str()).await?.expect("it was committed");
//! assert_eq!(found.envelope.payload, r#"{"order_id":7,"amount_cents":9900}"#);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! # }
//! # #[cfg(feature = "sqlite")]
//! # fn main() { tokio::runtime::Runtime::new().unwrap().block_on(tour::main()).unwrap() }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! A [`Consumer`] has the effect, in a transaction that also records the event: exactly once, even after a crash. An
//! [`Inbox`] holds the consumers of this process, and a [`Relay`] delivers to them:
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # mod tour {
//! # use postrider::store::sqlite::SqliteStore;
//! # use postrider::prelude::*;
//! # use postrider::{Event, Outbox};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)]
//! # struct OrderPaid { order_id: i64, amount_cents: i64 }
//! # impl Event for OrderPaid {
//! #     const TOPIC: &'static str = "order.paid";
//! #     fn event_id(&self) -> Option<String> { Some(format!("order:{}:paid", self.order_id)) }
//! # }
//! use postrider::{Consumer, Failure, Inbox, Received, Relay};
//! use sqlx::SqliteConnection;
//!
//! struct CommitCoupon;
//!
//! impl Consumer<SqliteStore> for CommitCoupon {
//!     const NAME: &'static str = "coupon";
//!     type Event = OrderPaid;
//!
//!     async fn handle(&self, tx: &mut SqliteConnection, paid: Received<OrderPaid>) -> Result<(), Failure> {
//!         // The inbox row, this effect, and any event enqueued here commit together.
//!         let commit = sqlx::query("update coupons set used = used + 1 where order_id = ?1").bind(paid.order_id);
//!         commit.execute(&mut *tx).await?; // any error: rolled back, and tried again later
//!         Ok(())
//!     }
//! }
//!
//! # pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("postrider-tour-consumer-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let store = SqliteStore::connect(&format!("sqlite://{}", folder.join("shop.db").display())).await?;
//! # store.migrate().await?;
//! # let outbox = Outbox::new(store.clone()).service("shop");
//! # let mut tx = store.begin().await?;
//! # sqlx::query("create table coupons (order_id integer primary key, used integer)").execute(&mut *tx).await?;
//! # sqlx::query("insert into coupons values (7, 0)").execute(&mut *tx).await?;
//! # outbox.enqueue(&mut tx, &OrderPaid { order_id: 7, amount_cents: 9_900 }).await?;
//! # tx.commit().await?;
//! // Works until nothing is due. A service calls `run` instead, which works until it is stopped.
//! let inbox = Inbox::new(store.clone()).consumer(CommitCoupon);
//! Relay::new(store.clone(), inbox).drain().await?;
//!
//! // Delivered again, as after a crash, the event has no second effect.
//! store.redrive("order:7:paid", "coupon", None).await?;
//! let inbox = Inbox::new(store.clone()).consumer(CommitCoupon);
//! Relay::new(store.clone(), inbox).drain().await?;
//! let used: i64 = sqlx::query_scalar("select used from coupons").fetch_one(store.pool()).await?;
//! assert_eq!(used, 1);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! # }
//! # #[cfg(feature = "sqlite")]
//! # fn main() { tokio::runtime::Runtime::new().unwrap().block_on(tour::main()).unwrap() }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! `examples/shop.rs` is a complete program with this, an effect outside the database and an event that causes
//! another.
//!
//! Then continue in the order of an event's life:
//!
//! 1. [`event`] and [`envelope`]: what an event is; [`limits`]: its maximum sizes.
//! 2. [`outbox`]: how it is written, with a delay, an expiry or an id of your own; [`bus`]: the same without a
//!    transaction.
//! 3. [`subscription`]: who receives it. Each consumer has its own *lane*.
//! 4. [`consumer`]: what happens when it arrives. There are three kinds, depending on where the effect is.
//! 5. [`inbox`]: how the effect happens once, inside this process; [`transport`]: the contract of any way to a
//!    consumer, and the options of a lane.
//! 6. [`relay`]: what delivers it; [`wake`]: how the relay learns of it at once.
//! 7. [`store`]: deliveries of a lane are claimed under a lease, then settled, retried or buried; [`entry`]: these
//!    states as a pure function; [`retry`]: the waits between attempts.
//! 8. [`alert`]: what an operator must know at once; [`observe`]: every metric and log line; [`presence`]: which
//!    processes run what.
//! 9. [`status`]: the status of an event, for people; [`rollup`]: the stored status for lists; [`retention`]: how
//!    long all of it is kept.
//!
//! [`service`] runs all of these loops together.
//!
//! Beside events: [`idempotency`], operations with a key that happen once, and [`jobs`], scheduled work that one of
//! all instances does. `postrider::testing`, behind the feature of that name, helps your own tests.

// `#[doc(hidden)]` marks what only `postrider-server` needs: its consumers over HTTP settle without a relay, and have the metrics,
// spans and log lines of one.

// The build with every database finds what is unused. With fewer of them some shared code has no user.
#![cfg_attr(
    not(all(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(dead_code, unused_imports, unused_variables)
)]

pub mod alert;
pub mod bus;
pub mod clock;
pub mod consumer;
pub mod effect;
pub mod entry;
pub mod envelope;
pub mod error;
pub mod event;
pub mod facets;
pub mod failures;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "rabbitmq"))]
mod host;
pub mod idempotency;
pub mod inbox;
pub mod jobs;
pub mod limits;
pub mod lineage;
pub mod observe;
pub mod operations;
pub mod outbox;
pub mod presence;
pub mod promises;
pub mod redrive;
pub mod relay;
pub mod retention;
pub mod retry;
pub mod rollup;
pub mod scope;
pub mod search;
pub mod service;
pub mod shard;
pub mod status;
pub mod store;
pub mod story;
pub mod subscription;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transport;
pub mod wake;

/// The traits of a store, so that its methods can be called: `use postrider::prelude::*;`.
pub mod prelude {
    pub use crate::store::{
        Access, Alerts, AuditLog, Deliveries, Enlist, Events, Figures, Instances, JobRuns, KeyOrder, Keys, Leases,
        OperationRuns, PromiseChecks, Redrives, Schema, Store, Stories, Subscriptions, Transactions, Upkeep, Wakeups,
    };
}

/// The driver of the SQL stores. Its version must be the one of the program: transactions and pools are its types.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use sqlx;

pub use bus::Bus;
pub use consumer::{BatchConsumer, Consumer, Failure, OutsideConsumer, Received};
pub use effect::Effect;
pub use envelope::{Envelope, Initiator};
pub use error::{Error, Obstacle, Result};
pub use event::{Aggregate, Event, EventId, RawEvent};
pub use idempotency::Idempotency;
pub use inbox::Inbox;
pub use jobs::{Jobs, Schedule};
pub use outbox::{Draft, Outbox};
pub use promises::Promises;
pub use relay::{Relay, RelayOptions};
pub use retention::Retention;
pub use retry::RetryPolicy;
pub use rollup::{Rollup, RollupOptions};
pub use scope::Scope;
pub use service::Service;
pub use shard::Shards;
pub use store::{Enlist, Enqueued, Store, Unheard};
pub use subscription::{Subscription, Via};
#[cfg(feature = "rabbitmq")]
pub use transport::rabbitmq::RabbitMq;
pub use transport::{LaneOptions, Transport};

/// The README's program is compiled with the doc tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
mod readme {}
