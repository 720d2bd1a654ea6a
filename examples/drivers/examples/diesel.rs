//! An order and its event in one transaction of Diesel. With the blocking `PgConnection` it is the same, without `await`.
#![allow(missing_docs, clippy::print_stdout, reason = "an example prints its steps")]

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use postrider::Outbox;
use postrider::outbox::Dialect;
use postrider_drivers::{Arguments, OrderPaid};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

diesel::table! {
    orders (id) {
        id -> BigInt,
        status -> Text,
    }
}

/// Writes the event in the transaction. Every value is text, and the SQL converts what is not.
async fn enqueue(conn: &mut AsyncPgConnection, outbox: &Outbox<Dialect>, paid: &OrderPaid) -> Result<(), AnyError> {
    let insert = outbox.statement(paid)?;
    let query = diesel::sql_query(insert.sql).into_boxed::<Pg>();
    let query = insert.values.into_iter().fold(query, |query, value| query.bind::<Text, _>(value));
    query.execute(conn).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let Arguments { url, order_id, fails } = Arguments::read()?;
    let mut conn = AsyncPgConnection::establish(&url).await?;
    let outbox = Outbox::for_statements(Dialect::Postgres).service("shop");

    conn.transaction::<_, AnyError, _>(async |conn| {
        let order = (orders::id.eq(order_id), orders::status.eq("PAID"));
        diesel::insert_into(orders::table).values(order).execute(conn).await?;
        enqueue(conn, &outbox, &OrderPaid { order_id }).await?;
        if fails {
            return Err("the order fails after its event was written: neither is stored".into());
        }
        Ok(())
    })
    .await?;
    println!("order {order_id} is paid, and order:{order_id}:paid is written with it");
    Ok(())
}
