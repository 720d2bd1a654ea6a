//! The schema and its version.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{AFTER_PROBE, Conn, KIND, MIGRATIONS, SqlStore, Time, time};
use crate::error::{Error, Result};
use crate::store::sql::{self, Migration};
use crate::store::{About, Leases, Schema, SchemaVersion};

/// The lease whose row a probe writes.
const PROBE: &str = "postrider.probe";
const PROBED: Duration = Duration::from_secs(5);

#[async_trait]
impl Schema for SqlStore {
    async fn migrate(&self) -> Result<()> {
        // A role that may not create tables can call this when there is nothing to do.
        if is_up_to_date(self.schema_version().await?, &self.url)? {
            return Ok(());
        }
        let mut session = self.begin_migrating().await?;
        sqlx::raw_sql(sql!("schema/migrations_table")).execute(&mut *session).await?;
        let applied = applied(&mut session).await?;
        // Another instance may have migrated while this one waited for the lock.
        if !is_up_to_date(sql::version(MIGRATIONS, &applied, &self.url)?, &self.url)? {
            for migration in MIGRATIONS.iter().filter(|next| !applied.iter().any(|(done, _)| *done == next.version())) {
                apply(&mut session, migration).await?;
            }
        }
        Self::end_migrating(session).await
    }

    async fn schema_version(&self) -> Result<SchemaVersion> {
        let mut session = self.snapshot().await?;
        let tables: i64 = sqlx::query_scalar(sql!("schema/schema_table")).fetch_one(&mut *session).await?;
        let applied = if tables == 0 { Vec::new() } else { applied(&mut session).await? };
        sql::version(MIGRATIONS, &applied, &self.url)
    }

    fn name(&self) -> &str {
        &self.url
    }

    async fn about(&self) -> Result<About> {
        let version = sqlx::query_scalar(sql!("schema/server_version")).fetch_one(self.reader()).await?;
        let sizes: Vec<(String, i64)> = sqlx::query_as(sql!("schema/sizes")).fetch_all(self.reader()).await?;
        let sizes = sizes.into_iter().map(|(name, bytes)| (name, bytes.unsigned_abs())).collect();
        Ok(About { kind: KIND, version, sizes })
    }

    async fn probe(&self) -> Result<()> {
        // If another instance holds it, it has just written. A process that dies in between leaves it to its end.
        if let Some(token) = self.acquire_lease(PROBE, "probe", PROBED).await? {
            self.release_lease(PROBE, token).await?;
        }
        if let Some(sql) = AFTER_PROBE {
            sqlx::query(sql).fetch_optional(self.reader()).await?;
        }
        Ok(())
    }

    async fn now(&self) -> Result<OffsetDateTime> {
        let now: Time = sqlx::query_scalar(text!("SELECT ", now!())).fetch_one(self.reader()).await?;
        Ok(time(now))
    }
}

fn is_up_to_date(version: SchemaVersion, store: &str) -> Result<bool> {
    match version.check(store) {
        Err(Error::SchemaOutOfDate { .. }) => Ok(false),
        other => other.map(|()| true),
    }
}

async fn applied(conn: &mut Conn) -> Result<Vec<(i64, Vec<u8>)>> {
    let query = sqlx::query_as(text!("SELECT version, checksum FROM postrider_migrations WHERE success"));
    Ok(query.fetch_all(conn).await?)
}

/// Marks a migration as unfinished first. If the database commits each DDL statement, an interrupted migration is run
/// again.
async fn apply(conn: &mut Conn, migration: &Migration) -> Result<()> {
    sqlx::query(text!(
        "INSERT INTO postrider_migrations (version, description, success, checksum, execution_time) \
         VALUES ($1, $2, false, $3, 0)"
    ))
    .bind(migration.version())
    .bind(migration.name())
    .bind(migration.checksum())
    .execute(&mut *conn)
    .await?;
    sqlx::raw_sql(migration.sql).execute(&mut *conn).await?;
    let query = sqlx::query(text!("UPDATE postrider_migrations SET success = true WHERE version = $1"));
    query.bind(migration.version()).execute(conn).await?;
    Ok(())
}
