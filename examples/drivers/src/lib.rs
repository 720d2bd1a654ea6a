//! The event that the programs in `examples/` publish. Each of them writes an order and the event in one transaction of
//! its own driver:
//!
//! | program | driver |
//! |---|---|
//! | `tokio_postgres.rs` | tokio-postgres |
//! | `diesel.rs` | Diesel, with diesel-async |
//! | `sea_orm.rs` | SeaORM |
//!
//! ```console
//! $ postrider migrate up --store postgres://postgres@localhost/shop
//! $ cargo run --locked -p postrider-drivers --example diesel -- postgres://postgres@localhost/shop 7
//! order 7 is paid, and order:7:paid is written with it
//! ```

use postrider::Event;
use serde::{Deserialize, Serialize};

/// An order was paid.
#[derive(Serialize, Deserialize)]
pub struct OrderPaid {
    /// The order.
    pub order_id: i64,
}

impl Event for OrderPaid {
    const TOPIC: &'static str = "order.paid";

    fn event_id(&self) -> Option<String> {
        Some(format!("order:{}:paid", self.order_id))
    }
}

/// The arguments of each program: the URL of a database, the number of an order, and `fail` to end with an error before
/// the commit.
pub struct Arguments {
    /// The database.
    pub url: String,
    /// The order.
    pub order_id: i64,
    /// Whether the transaction fails after the event was written.
    pub fails: bool,
}

impl Arguments {
    /// Reads the command line.
    pub fn read() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut words = std::env::args().skip(1);
        let url = words.next().ok_or("name a database: postgres://user@host/database")?;
        let order_id = words.next().ok_or("name an order: 7")?.parse()?;
        Ok(Self { url, order_id, fails: words.next().as_deref() == Some("fail") })
    }
}

/// The page's program is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/other-drivers.md")]
mod page {}
