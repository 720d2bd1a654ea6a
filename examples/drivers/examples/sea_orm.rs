//! An order and its event in one transaction of SeaORM.
#![allow(unreachable_pub, clippy::print_stdout, reason = "an example prints its steps")]

use postrider::Outbox;
use postrider::outbox::Dialect;
use postrider_drivers::{Arguments, OrderPaid};
use sea_orm::{ActiveModelTrait, ActiveValue, ConnectionTrait, Database, Statement, TransactionTrait};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

mod order {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i64,
        pub status: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Writes the event in the transaction. Every value is text, and the SQL converts what is not.
async fn enqueue(tx: &impl ConnectionTrait, outbox: &Outbox<Dialect>, paid: &OrderPaid) -> Result<(), AnyError> {
    let insert = outbox.statement(paid)?;
    let values = insert.values.into_iter().map(sea_orm::Value::from);
    tx.execute_raw(Statement::from_sql_and_values(tx.get_database_backend(), insert.sql, values)).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let Arguments { url, order_id, fails } = Arguments::read()?;
    let db = Database::connect(url).await?;
    let outbox = Outbox::for_statements(Dialect::Postgres).service("shop");

    let tx = db.begin().await?;
    let order = order::ActiveModel { id: ActiveValue::Set(order_id), status: ActiveValue::Set("PAID".into()) };
    order.insert(&tx).await?;
    enqueue(&tx, &outbox, &OrderPaid { order_id }).await?;
    if fails {
        return Err("the order fails after its event was written: neither is stored".into());
    }
    tx.commit().await?;
    println!("order {order_id} is paid, and order:{order_id}:paid is written with it");
    Ok(())
}
