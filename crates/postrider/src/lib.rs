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
//! use postrider::{Aggregate, Enlist, Enqueued, Event, Outbox, Store};
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
//! // Nobody subscribes to `order.paid` yet, so the event is kept until somebody does.
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
//! Then read on, in the order of an event's life:
//!
//! 1. [`event`] and [`envelope`]: what an event is, and what is known about it; [`limits`] bounds all of it.
//! 2. [`outbox`]: how it is written, with a delay, an expiry or an id of your own.
//! 3. [`subscription`]: who hears it. Each consumer has a *lane* of its own.
//! 4. [`store`]: what waits in a lane is claimed under a lease, then settled, retried or buried; [`entry`] is that life
//!    as a pure function, [`retry`] the waiting in between.
//! 5. [`status`]: what all of it amounts to, for people.
//!
//! Beside events: [`idempotency`], operations under a key that happen once, and [`jobs`], work by the clock that one of all
//! instances does.

pub mod clock;
pub mod entry;
pub mod envelope;
pub mod error;
pub mod event;
pub mod idempotency;
pub mod jobs;
pub mod limits;
pub mod outbox;
pub mod retry;
pub mod shard;
pub mod status;
pub mod store;
pub mod subscription;
#[cfg(feature = "testing")]
pub mod testing;

pub use envelope::{Envelope, Initiator};
pub use error::{Error, Result};
pub use event::{Aggregate, Event, EventId};
pub use idempotency::Idempotency;
pub use jobs::{Jobs, Schedule};
pub use outbox::{Draft, Outbox};
pub use shard::Shards;
pub use store::{Enlist, Enqueued, Store, Unheard};
pub use subscription::{Subscription, Via};
