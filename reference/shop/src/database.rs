//! How the shop talks to its database, and its tables. Statements stand beside the code that means them, in the SQL that
//! all databases have in common; what differs is here. They follow three rules:
//!
//! - values are `$1`, `$2` …, each used once and in order, so that a database that only knows `?` is given that;
//! - columns that are read are whole numbers or texts; times are milliseconds since 1970, by the database's clock;
//! - a row is locked by writing to it, since not every database has `FOR UPDATE`.

use std::future::Future;
use std::vec;

use postrider::Enlist;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySqlConnection, PgConnection, SqliteConnection};

/// A store that also holds the shop's tables.
pub trait Database: Enlist {
    /// Makes the tables where they are missing.
    fn make_tables(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The database's clock.
    fn clock(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<i64>> + Send;

    /// What is read from now on in this transaction is of one moment. The first statement of it.
    fn snapshot(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Runs a statement; returns how many rows it changed.
    fn execute(
        conn: &mut Self::Conn,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Reads rows.
    fn rows(
        conn: &mut Self::Conn,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = sqlx::Result<Vec<Row>>> + Send;

    /// Reads the first row, if there is one.
    fn row(
        conn: &mut Self::Conn,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = sqlx::Result<Option<Row>>> + Send {
        async move { Ok(Self::rows(conn, sql, values).await?.into_iter().next()) }
    }
}

/// A value of a statement.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A whole number.
    Int(i64),
    /// A text, or none.
    Text(Option<&'a str>),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

#[derive(Debug)]
enum Cell {
    Int(i64),
    Text(String),
    Null,
}

/// A row: its columns are read from left to right.
#[derive(Debug)]
pub struct Row(vec::IntoIter<Cell>);

impl Row {
    /// The next column, a number.
    pub fn int(&mut self) -> sqlx::Result<i64> {
        self.maybe_int()?.ok_or_else(|| sqlx::Error::Decode("a number is missing".into()))
    }

    /// The next column, a number or nothing.
    pub fn maybe_int(&mut self) -> sqlx::Result<Option<i64>> {
        match self.0.next() {
            Some(Cell::Int(number)) => Ok(Some(number)),
            Some(Cell::Null) => Ok(None),
            other => Err(sqlx::Error::Decode(format!("{other:?} is no number").into())),
        }
    }

    /// The next column, a text.
    pub fn text(&mut self) -> sqlx::Result<String> {
        self.maybe_text()?.ok_or_else(|| sqlx::Error::Decode("a text is missing".into()))
    }

    /// The next column, a text or nothing.
    pub fn maybe_text(&mut self) -> sqlx::Result<Option<String>> {
        match self.0.next() {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            other => Err(sqlx::Error::Decode(format!("{other:?} is no text").into())),
        }
    }
}

// A macro, because the drivers have no common type that could run one text with its values.
macro_rules! database {
    ($store:ty, $make_tables:path, $now:expr, $snapshot:expr, $text:path) => {
        impl Database for $store {
            async fn make_tables(conn: &mut Self::Conn) -> sqlx::Result<()> {
                $make_tables(conn).await
            }

            async fn clock(conn: &mut Self::Conn) -> sqlx::Result<i64> {
                sqlx::query_scalar($now).fetch_one(conn).await
            }

            async fn snapshot(conn: &mut Self::Conn) -> sqlx::Result<()> {
                sqlx::raw_sql($snapshot).execute(conn).await?;
                Ok(())
            }

            async fn execute(conn: &mut Self::Conn, sql: &'static str, values: &[Value<'_>]) -> sqlx::Result<u64> {
                let mut query = sqlx::query($text(sql));
                for value in values {
                    query = match *value {
                        Value::Int(number) => query.bind(number),
                        Value::Text(text) => query.bind(text.map(str::to_owned)),
                    };
                }
                Ok(query.execute(conn).await?.rows_affected())
            }

            async fn rows(conn: &mut Self::Conn, sql: &'static str, values: &[Value<'_>]) -> sqlx::Result<Vec<Row>> {
                use sqlx::Row as _;
                let mut query = sqlx::query($text(sql));
                for value in values {
                    query = match *value {
                        Value::Int(number) => query.bind(number),
                        Value::Text(text) => query.bind(text.map(str::to_owned)),
                    };
                }
                let rows = query.fetch_all(conn).await?;
                let cells = |row: &_| {
                    let row: &<<Self::Conn as sqlx::Connection>::Database as sqlx::Database>::Row = row;
                    let cell = |at| match row.try_get::<Option<i64>, usize>(at) {
                        Ok(Some(number)) => Ok(Cell::Int(number)),
                        Ok(None) => Ok(Cell::Null),
                        Err(_) => row.try_get::<String, usize>(at).map(Cell::Text),
                    };
                    let cells: sqlx::Result<Vec<_>> = (0..row.len()).map(cell).collect();
                    Ok(Row(cells?.into_iter()))
                };
                rows.iter().map(cells).collect()
            }
        }
    };
}

database!(SqliteStore, sqlite_tables, SQLITE_NOW, SQLITE_SNAPSHOT, as_it_is);
database!(PostgresStore, postgres_tables, POSTGRES_NOW, POSTGRES_SNAPSHOT, as_it_is);
database!(MySqlStore, mysql_tables, MYSQL_NOW, MYSQL_SNAPSHOT, with_question_marks);

// As text first: a fraction of a day has too few digits for milliseconds.
const SQLITE_NOW: &str = "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000 \
    + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER)";
const POSTGRES_NOW: &str = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)";
const MYSQL_NOW: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";

// One writer at a time: whatever a transaction reads is of one moment.
const SQLITE_SNAPSHOT: &str = "SELECT 1";
const POSTGRES_SNAPSHOT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
// The level cannot be changed inside a transaction, so there is another one; the next is at the session's level again.
const MYSQL_SNAPSHOT: &str = "ROLLBACK; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
    START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// Balances have CHECKs: a mistake in the program is an error, never a negative balance.
const TABLES: &str = include_str!("tables.sql");
const INDEXES: &str = include_str!("indexes.sql");

// Two processes that make the same table at the same time would refuse each other, IF NOT EXISTS or not.
const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(7081)";
// The server's own, so it has the database in its name. Ten minutes are longer than anybody takes.
const MYSQL_LOCK: &str = "SELECT GET_LOCK(CONCAT('shop ', SHA1(DATABASE())), 600)";
const MYSQL_UNLOCK: &str = "SELECT RELEASE_LOCK(CONCAT('shop ', SHA1(DATABASE())))";
/// An index of this name is there.
const MYSQL_INDEX_EXISTS: u16 = 1061;

async fn sqlite_tables(conn: &mut SqliteConnection) -> sqlx::Result<()> {
    for tables in [TABLES, INDEXES] {
        sqlx::raw_sql(tables).execute(&mut *conn).await?;
    }
    Ok(())
}

async fn postgres_tables(conn: &mut PgConnection) -> sqlx::Result<()> {
    for tables in [POSTGRES_LOCK, TABLES, INDEXES] {
        sqlx::raw_sql(tables).execute(&mut *conn).await?;
    }
    Ok(())
}

/// A CREATE commits by itself: all of them can be run again.
async fn mysql_tables(conn: &mut MySqlConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(MYSQL_LOCK).execute(&mut *conn).await?;
    let made = mysql_tables_alone(conn).await;
    sqlx::raw_sql(MYSQL_UNLOCK).execute(conn).await?;
    made
}

async fn mysql_tables_alone(conn: &mut MySqlConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(TABLES).execute(&mut *conn).await?;
    for index in INDEXES.lines().filter(|line| line.starts_with("CREATE")) {
        let index = index.replace(" IF NOT EXISTS", "");
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(index)).execute(&mut *conn).await
            && mysql_number(&error) != Some(MYSQL_INDEX_EXISTS)
        {
            return Err(error);
        }
    }
    Ok(())
}

fn mysql_number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// Whether the database has ended the transaction for the sake of another, or one of its statements did not get a lock:
/// nothing of it stays, and it can be run again whole.
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    // What both PostgreSQL and MySQL call a deadlock or a conflict; then MySQL's lock that did not come, and its snapshot
    // that is too old to write on.
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("40001" | "40P01")) || matches!(mysql_number(error), Some(1205 | 1020))
}

fn as_it_is(sql: &'static str) -> &'static str {
    sql
}

/// `$1`, `$2` … as `?`: each stands once, in order.
fn with_question_marks(sql: &'static str) -> AssertSqlSafe<String> {
    let mut parts = sql.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('?');
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    AssertSqlSafe(text)
}
