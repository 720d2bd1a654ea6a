//! Named leases.

use std::time::Duration;

use async_trait::async_trait;

use super::SqlStore;
use crate::error::Result;
use crate::store::batch::millis;
use crate::store::sql::{is_new, retrying};
use crate::store::{Leases, Token};

#[async_trait]
impl Leases for SqlStore {
    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>> {
        let token = Token::fresh();
        let take_over = text!(
            "UPDATE postrider_lease SET owner = $1, token = $2, lock_time = ",
            now!(),
            ", lock_until = ",
            later!("$3"),
            " WHERE name = $4 AND lock_until <= ",
            now!()
        );
        let taken = retrying(|| async {
            let query = sqlx::query(take_over).bind(owner).bind(token.0).bind(millis(lease)).bind(name);
            Ok(query.execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await?;
        if taken {
            return Ok(Some(token));
        }
        let insert = text!(
            "INSERT INTO postrider_lease (name, owner, token, lock_time, lock_until) VALUES ($1, $2, $3, ",
            now!(),
            ", ",
            later!("$4"),
            ")"
        );
        let made = retrying(|| async {
            let query = sqlx::query(insert).bind(name).bind(owner).bind(token.0).bind(millis(lease));
            is_new(query.execute(self.writer()?).await)
        })
        .await?;
        Ok(made.then_some(token))
    }

    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        let sql = text!("UPDATE postrider_lease SET lock_until = ", later!("$1"), " WHERE name = $2 AND token = $3");
        retrying(|| async {
            let query = sqlx::query(sql).bind(millis(lease)).bind(name).bind(token.0);
            Ok(query.execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await
    }

    async fn release_lease(&self, name: &str, token: Token) -> Result<bool> {
        let sql = text!("DELETE FROM postrider_lease WHERE name = $1 AND token = $2");
        retrying(|| async {
            Ok(sqlx::query(sql).bind(name).bind(token.0).execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await
    }
}
