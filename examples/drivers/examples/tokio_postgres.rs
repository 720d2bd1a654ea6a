//! An order and its event in one transaction of tokio-postgres.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its steps")]

use postrider::Outbox;
use postrider::outbox::Dialect;
use postrider_drivers::{Arguments, OrderPaid};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Transaction};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Writes the event in the transaction. Every value is text, and the SQL converts what is not.
async fn enqueue(tx: &Transaction<'_>, outbox: &Outbox<Dialect>, paid: &OrderPaid) -> Result<(), AnyError> {
    let insert = outbox.statement(paid)?;
    let values: Vec<_> = insert.values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
    tx.execute(&insert.sql, &values).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let Arguments { url, order_id, fails } = Arguments::read()?;
    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(async move {
        if let Err(e) = connection.await {
            eprintln!("the connection ended: {e}");
        }
    });
    let outbox = Outbox::for_statements(Dialect::Postgres).service("shop");

    let tx = client.transaction().await?;
    tx.execute("INSERT INTO orders (id, status) VALUES ($1, 'PAID')", &[&order_id]).await?;
    enqueue(&tx, &outbox, &OrderPaid { order_id }).await?;
    if fails {
        return Err("the order fails after its event was written: neither is stored".into());
    }
    tx.commit().await?;
    println!("order {order_id} is paid, and order:{order_id}:paid is written with it");
    Ok(())
}
