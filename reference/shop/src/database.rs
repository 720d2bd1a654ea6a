//! Database access and tables of the shop. Statements are next to the code that uses them, in SQL that all supported
//! databases accept. The differences are in this file. Statements follow three rules:
//!
//! - Values are `$1`, `$2` …, each used once and in order, so that they can be replaced by `?`.
//! - Columns that are read are integers or text. Times are milliseconds since 1970, by the database clock.
//! - A row is locked by an update, because not every database has `FOR UPDATE`.

use std::future::Future;
use std::vec;

use postrider::store::Keys;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySqlConnection, PgConnection, SqliteConnection};

/// A store whose database also contains the shop's tables.
pub trait Database: Keys {
    /// Creates missing tables.
    fn make_tables(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The database's clock.
    fn clock(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<i64>> + Send;

    /// Makes all reads of this transaction see one snapshot. Must be the first statement.
    fn snapshot(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Runs a statement and returns the number of changed rows.
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

    /// Reads the first row, if any.
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
    /// An integer.
    Int(i64),
    /// A text or NULL.
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

/// A row. Its columns are read from left to right.
#[derive(Debug)]
pub struct Row(vec::IntoIter<Cell>);

impl Row {
    /// The next column, an integer.
    pub fn int(&mut self) -> sqlx::Result<i64> {
        self.maybe_int()?.ok_or_else(|| sqlx::Error::Decode("a number is missing".into()))
    }

    /// The next column, an integer or NULL.
    pub fn maybe_int(&mut self) -> sqlx::Result<Option<i64>> {
        match self.0.next() {
            Some(Cell::Int(number)) => Ok(Some(number)),
            Some(Cell::Null) => Ok(None),
            other => Err(sqlx::Error::Decode(format!("{other:?} is not a number").into())),
        }
    }

    /// The next column, a text.
    pub fn text(&mut self) -> sqlx::Result<String> {
        self.maybe_text()?.ok_or_else(|| sqlx::Error::Decode("a text is missing".into()))
    }

    /// The next column, a text or NULL.
    pub fn maybe_text(&mut self) -> sqlx::Result<Option<String>> {
        match self.0.next() {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            other => Err(sqlx::Error::Decode(format!("{other:?} is not a text").into())),
        }
    }
}

// A macro, because the drivers share no type that runs a statement with its values.
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

// Formatted as text: a Julian day as a float has too few digits for exact milliseconds.
const SQLITE_NOW: &str = "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000 \
    + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER)";
const POSTGRES_NOW: &str = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)";
const MYSQL_NOW: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";

// SQLite has one writer, so all reads of a transaction see one snapshot.
const SQLITE_SNAPSHOT: &str = "SELECT 1";
const POSTGRES_SNAPSHOT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
// MySQL cannot change the isolation level inside a transaction, so this begins another one. Later transactions use the
// session's level.
const MYSQL_SNAPSHOT: &str = "ROLLBACK; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
    START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// The balances have CHECK constraints: a bug is an error, never a negative balance.
const TABLES: &str = include_str!("tables.sql");
const INDEXES: &str = include_str!("indexes.sql");

// Concurrent CREATE TABLE IF NOT EXISTS statements can fail in PostgreSQL, so this lock serializes them.
const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(7081)";
// A lock of the whole server, so its name contains the database. Ten minutes are longer than any migration takes.
const MYSQL_LOCK: &str = "SELECT GET_LOCK(CONCAT('shop ', SHA1(DATABASE())), 600)";
const MYSQL_UNLOCK: &str = "SELECT RELEASE_LOCK(CONCAT('shop ', SHA1(DATABASE())))";
/// ER_DUP_KEYNAME: the index exists.
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

/// MySQL commits each CREATE by itself, so every statement must be repeatable.
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

fn as_it_is(sql: &'static str) -> &'static str {
    sql
}

/// Replaces `$1`, `$2` … by `?`. Each is used once, in order.
fn with_question_marks(sql: &'static str) -> AssertSqlSafe<String> {
    let mut parts = sql.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('?');
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    AssertSqlSafe(text)
}
