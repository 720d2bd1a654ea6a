//! One event as a plain `INSERT`, for a driver that Postrider does not know.

use time::OffsetDateTime;

use super::{Draft, IntoDraft, Outbox, complete};
use crate::envelope::{Encoding, JSON};
use crate::error::Result;
use crate::event::EventId;
use crate::store::NewEvent;

/// The SQL of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

/// What an [`Outbox`] can write statements for: a SQL store, or only the name of a [`Dialect`].
pub trait HasDialect {
    /// The dialect.
    fn dialect(&self) -> Dialect;
}

impl HasDialect for Dialect {
    fn dialect(&self) -> Dialect {
        *self
    }
}

/// One `INSERT` into `postrider_event`. Run it in your transaction, with any driver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The id of the event.
    pub event_id: EventId,
    /// The SQL. Its placeholders are `$1`, `$2` … on PostgreSQL and `?` elsewhere.
    pub sql: String,
    /// The values of the placeholders, in order. Every one is text; the SQL converts it where a column needs that.
    pub values: Vec<String>,
}

impl Outbox<Dialect> {
    /// An outbox without a store, for a process that only publishes, with a driver of its own.
    ///
    /// ```
    /// use postrider::outbox::{Dialect, Draft, Outbox};
    ///
    /// let outbox = Outbox::for_statements(Dialect::Postgres).service("shop");
    /// let insert = outbox.statement(Draft::json("order.paid", &7)?.event_id("order:7:paid"))?;
    /// assert!(insert.sql.starts_with("INSERT INTO postrider_event (event_id, topic, payload, "));
    /// assert_eq!(insert.values[..3], ["order:7:paid", "order.paid", "7"]);
    /// # Ok::<_, postrider::Error>(())
    /// ```
    pub fn for_statements(dialect: Dialect) -> Self {
        Self::on(dialect)
    }
}

impl<S: HasDialect> Outbox<S> {
    /// The `INSERT` that writes this event, for a transaction of tokio-postgres, Diesel, SeaORM or any other driver.
    ///
    /// It differs from [`Outbox::enqueue`] in what `docs/sql-contract.md` says of a plain `INSERT`: an id that exists is an
    /// error of the unique index, the deliveries are written by the router of a relay, and only `enqueue` keeps the order
    /// of a key without gaps.
    pub fn statement(&self, event: impl IntoDraft) -> Result<Statement> {
        let draft: Draft = event.into_draft()?;
        let new = complete(draft, self.service.as_deref(), self.clock.now())?;
        Ok(insert(self.store.dialect(), &new))
    }
}

/// How a value becomes one of its column's type.
enum Kind {
    Text,
    Number,
    /// Milliseconds since 1970.
    Time,
    /// Milliseconds from now, by the database's clock.
    FromNow,
}

fn insert(dialect: Dialect, new: &NewEvent) -> Statement {
    let e = &new.envelope;
    let (mut columns, mut places, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut set = |column: &'static str, kind: Kind, value: String| {
        values.push(value);
        columns.push(column);
        places.push(place(dialect, &kind, values.len()));
    };
    let initiator = e.initiator_json();
    let texts = [
        ("event_id", Some(e.event_id.as_str())),
        ("topic", Some(e.topic.as_str())),
        ("payload", Some(&*e.payload)),
        ("payload_type", (e.payload_type != JSON).then_some(&*e.payload_type)),
        ("payload_encoding", (e.payload_encoding == Encoding::Base64).then_some("base64")),
        ("event_key", e.key.as_deref()),
        ("trace_id", e.trace_id.as_deref()),
        ("span_id", e.span_id.as_deref()),
        ("parent_event_id", e.parent_event_id.as_ref().map(EventId::as_str)),
        ("aggregate_type", e.aggregate.as_ref().map(|it| &*it.kind)),
        ("aggregate_id", e.aggregate.as_ref().map(|it| &*it.id)),
        ("tenant_id", e.tenant_id.as_deref()),
        ("store_id", e.store_id.as_deref()),
        ("initiator", (!initiator.is_empty()).then_some(&*initiator)),
        ("metadata", e.metadata.as_deref()),
        ("exchange", e.exchange.as_deref()),
        ("routing_key", e.routing_key.as_deref()),
    ];
    for (column, value) in texts {
        if let Some(value) = value {
            set(column, Kind::Text, value.to_owned());
        }
    }
    set("occurred_at", Kind::Time, milliseconds(e.occurred_at));
    for (column, from_now, at) in
        [("deliver_at", new.delay, e.deliver_at), ("expire_at", new.expire_after, e.expire_at)]
    {
        match (from_now, at) {
            (Some(from_now), _) => set(column, Kind::FromNow, from_now.as_millis().to_string()),
            (None, Some(at)) => set(column, Kind::Time, milliseconds(at)),
            (None, None) => {}
        }
    }
    if let Some(attempts) = e.max_attempts {
        set("max_attempts", Kind::Number, attempts.to_string());
    }
    let sql = format!("INSERT INTO postrider_event ({}) VALUES ({})", columns.join(", "), places.join(", "));
    Statement { event_id: e.event_id.clone(), sql, values }
}

fn milliseconds(time: OffsetDateTime) -> String {
    (time.unix_timestamp_nanos() / 1_000_000).to_string()
}

/// The placeholder with its conversion.
fn place(dialect: Dialect, kind: &Kind, number: usize) -> String {
    match (dialect, kind) {
        (Dialect::Postgres, Kind::Text) => format!("${number}"),
        (Dialect::Postgres, Kind::Number) => format!("${number}::text::smallint"),
        (Dialect::Postgres, Kind::Time) => {
            format!("timestamptz 'epoch' + ${number}::text::bigint * interval '1 ms'")
        }
        (Dialect::Postgres, Kind::FromNow) => format!("now() + ${number}::text::bigint * interval '1 ms'"),
        (_, Kind::Text) => "?".into(),
        (Dialect::MySql, Kind::Number) => "CAST(? AS SIGNED)".into(),
        (Dialect::MySql, Kind::Time) => {
            "CAST('1970-01-01' AS DATETIME(6)) + INTERVAL CAST(? AS SIGNED) * 1000 MICROSECOND".into()
        }
        (Dialect::MySql, Kind::FromNow) => "UTC_TIMESTAMP(6) + INTERVAL CAST(? AS SIGNED) * 1000 MICROSECOND".into(),
        (Dialect::Sqlite, Kind::Number | Kind::Time) => "CAST(? AS INTEGER)".into(),
        (Dialect::Sqlite, Kind::FromNow) => "(SELECT now FROM postrider_clock) + CAST(? AS INTEGER)".into(),
    }
}
