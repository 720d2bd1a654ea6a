//! Pools that knock once. A pool of sqlx asks a server that refuses it again and again, from ten milliseconds on, until its
//! patience ends, and so does everybody who waits beside it: an outage would become a storm of connections. Here one asks
//! for all, at most once a second, and an answer counts for everybody.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::{Connection, Database, Describe, Either, Execute, Executor, Pool, SqlStr, Transaction};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Two knocks at a door that stays closed are at least this far apart.
const BETWEEN_KNOCKS: Duration = Duration::from_secs(1);
/// How long after an answer connections are trusted without being asked: a round trip for every statement otherwise.
const TRUSTED: Duration = Duration::from_secs(5);
/// How long a server, or a connection that lay idle, may take to answer before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(5);

type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// Where the server is, and whether it was at home lately.
#[derive(Debug)]
pub(super) struct Door<DB: Database> {
    options: Options<DB>,
    knocked: Mutex<Knocked>,
}

#[derive(Debug)]
enum Knocked {
    Never,
    Opened(Instant),
    Closed(Instant, String),
}

impl<DB: Database> Door<DB> {
    pub(super) fn new(options: Options<DB>) -> Self {
        Self { options, knocked: Mutex::new(Knocked::Never) }
    }

    /// Asks whether a connection can be made. Whoever comes while another asks gets the same answer.
    pub(super) async fn knock(&self) -> sqlx::Result<()> {
        let came = Instant::now();
        let mut knocked = self.knocked.lock().await;
        match &*knocked {
            Knocked::Opened(at) if *at >= came => return Ok(()),
            Knocked::Closed(at, why) if *at + BETWEEN_KNOCKS > came => return Err(closed(why)),
            _ => {}
        }
        let answer = match timeout(PATIENCE, DB::Connection::connect_with(&self.options)).await {
            Ok(Ok(session)) => session.close().await,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(closed("no answer")),
        };
        *knocked = match &answer {
            Ok(()) => Knocked::Opened(Instant::now()),
            Err(error) => Knocked::Closed(Instant::now(), error.to_string()),
        };
        answer
    }

    /// Where the server is.
    #[cfg(feature = "postgres")]
    pub(super) fn options(&self) -> &Options<DB> {
        &self.options
    }
}

fn closed(why: &str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, why.to_owned()))
}

/// A pool behind the door. As an [`Executor`] it takes a connection for one statement.
#[derive(Debug)]
pub(super) struct Sessions<DB: Database> {
    pool: Pool<DB>,
    door: Arc<Door<DB>>,
    /// When the server last answered; None since it did not.
    answered: Arc<std::sync::Mutex<Option<Instant>>>,
}

// Derived, it would ask the database's type to be cloned too.
impl<DB: Database> Clone for Sessions<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), door: Arc::clone(&self.door), answered: Arc::clone(&self.answered) }
    }
}

impl<DB: Database> Sessions<DB> {
    pub(super) fn new(pool: PoolOptions<DB>, door: &Arc<Door<DB>>) -> Self {
        // We test them ourselves, before we knock.
        let pool = pool.test_before_acquire(false).connect_lazy_with(door.options.clone());
        Self { pool, door: Arc::clone(door), answered: Arc::default() }
    }

    pub(super) async fn acquire(&self) -> sqlx::Result<PoolConnection<DB>> {
        while let Some(mut idle) = self.pool.try_acquire() {
            if self.is_trusted() {
                return Ok(idle);
            }
            let answer = timeout(PATIENCE, idle.ping()).await;
            if let Ok(Ok(())) = answer {
                self.note(&answer);
                return Ok(idle);
            }
            // It broke while nobody used it: dropped, and not given back.
            drop(idle.detach());
            if answer.is_err() {
                // Silence: the others may be as silent, and each would cost as much patience.
                self.door.knock().await?;
            }
        }
        if self.pool.size() < self.pool.options().get_max_connections() {
            self.door.knock().await?;
        }
        self.pool.acquire().await
    }

    fn is_trusted(&self) -> bool {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.is_some_and(|at| at.elapsed() < TRUSTED)
    }

    /// Takes note of whether the server answers: one connection that broke makes all of them suspect.
    fn note<T, E>(&self, answer: &Result<T, E>) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = answer.is_ok().then(Instant::now);
    }

    /// The pool itself, for what takes no less.
    #[cfg(feature = "postgres")]
    pub(super) async fn pool(&self) -> sqlx::Result<&Pool<DB>> {
        self.door.knock().await?;
        Ok(&self.pool)
    }

    pub(super) async fn begin(&self) -> sqlx::Result<Transaction<'static, DB>> {
        Transaction::begin(self.acquire().await?, None).await
    }
}

impl<'p, DB: Database> Executor<'p> for &'p Sessions<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    type Database = DB;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Either<DB::QueryResult, DB::Row>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        // All at once: a claim's rows are few, and nobody may hold a session while it thinks about them.
        let fetched = async move {
            let fetched = self.acquire().await?.fetch_many(query).try_collect::<Vec<_>>().await;
            self.note(&fetched);
            fetched
        };
        stream::once(fetched).map_ok(|rows| stream::iter(rows.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<DB::Row>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        Box::pin(async move {
            let fetched = self.acquire().await?.fetch_optional(query).await;
            self.note(&fetched);
            fetched
        })
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [DB::TypeInfo]) -> BoxFuture<'e, sqlx::Result<DB::Statement>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.acquire().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<DB>>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.acquire().await?.describe(sql).await })
    }
}
