//! Connection pools with one shared reconnect gate. When a server refuses connections, each caller of an sqlx pool
//! retries on its own, from ten milliseconds on, until its timeout. In an outage that becomes a storm of connections.
//! Here one caller tries for all, at most once a second, and all callers share the result.
//!
//! A session whose work succeeded is kept for the next caller. The sqlx pool would ping it on return: one more round
//! trip for every statement and every transaction.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::{Connection, Database, Describe, Either, Execute, Executor, Pool, SqlStr};
use sqlx_core::transaction::TransactionManager;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Minimum time between two attempts to connect to a server that refuses.
const BETWEEN_CONNECTS: Duration = Duration::from_secs(1);
/// How long after a successful answer connections are used without a ping, which would cost a round trip per
/// statement.
const TRUSTED: Duration = Duration::from_secs(5);
/// How long a session may be kept outside the pool. The pool limits the age and the number of sessions.
const KEPT: Duration = Duration::from_secs(60);
/// How long a session that was dropped in the middle of a statement may take to recover. Then it is closed.
const LEFT_BEHIND: Duration = Duration::from_secs(1);
/// How long a server, or an idle connection, may take to answer before it counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(5);

type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// The server's address, and whether it was reachable lately.
#[derive(Debug)]
pub(super) struct Gate<DB: Database> {
    options: Options<DB>,
    last_try: Mutex<LastTry>,
}

#[derive(Debug)]
enum LastTry {
    Never,
    Opened(Instant),
    Closed(Instant, String),
}

impl<DB: Database> Gate<DB> {
    pub(super) fn new(options: Options<DB>) -> Self {
        Self { options, last_try: Mutex::new(LastTry::Never) }
    }

    /// Tries to connect. Concurrent callers share the result.
    pub(super) async fn try_connect(&self) -> sqlx::Result<()> {
        let came = Instant::now();
        let mut last_try = self.last_try.lock().await;
        match &*last_try {
            LastTry::Opened(at) if *at >= came => return Ok(()),
            LastTry::Closed(at, why) if *at + BETWEEN_CONNECTS > came => return Err(closed(why)),
            _ => {}
        }
        let answer = match timeout(PATIENCE, DB::Connection::connect_with(&self.options)).await {
            Ok(Ok(session)) => session.close().await,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(closed("no answer")),
        };
        *last_try = match &answer {
            Ok(()) => LastTry::Opened(Instant::now()),
            Err(error) => LastTry::Closed(Instant::now(), error.to_string()),
        };
        answer
    }

    /// The connection options of the server.
    #[cfg(feature = "postgres")]
    pub(super) fn options(&self) -> &Options<DB> {
        &self.options
    }
}

fn closed(why: &str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, why.to_owned()))
}

/// A pool with a shared reconnect gate. As an [`Executor`] it takes a session for one statement.
#[derive(Debug)]
pub(super) struct Sessions<DB: Database> {
    pool: Pool<DB>,
    gate: Arc<Gate<DB>>,
    /// When the server last answered; `None` after a failure.
    answered: Arc<std::sync::Mutex<Option<Instant>>>,
    idle_pool: Arc<IdlePool<DB>>,
}

// `derive` would require `DB: Clone`.
impl<DB: Database> Clone for Sessions<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            gate: Arc::clone(&self.gate),
            answered: Arc::clone(&self.answered),
            idle_pool: Arc::clone(&self.idle_pool),
        }
    }
}

impl<DB: Database> Sessions<DB> {
    pub(super) fn new(pool: PoolOptions<DB>, gate: &Arc<Gate<DB>>) -> Self {
        // `acquire` tests idle connections itself, before it tries to connect.
        let pool = pool.test_before_acquire(false);
        // A session that comes back here was dropped in the middle of something, and may wait for an answer that
        // never comes. On MySQL that happens if the caller is dropped while a statement is prepared. The pool would
        // wait too, and have one session less.
        let pool = pool.after_release(|session, _| {
            Box::pin(async move {
                match timeout(LEFT_BEHIND, session.ping()).await {
                    Ok(answer) => answer.map(|()| true),
                    Err(_) => Err(closed("no answer")),
                }
            })
        });
        let pool = pool.connect_lazy_with(gate.options.clone());
        Self { pool, gate: Arc::clone(gate), answered: Arc::default(), idle_pool: Arc::default() }
    }

    pub(super) async fn acquire(&self) -> sqlx::Result<Session<DB>> {
        while let Some(mut idle) = self.idle() {
            if self.is_trusted() {
                return Ok(idle);
            }
            let answer = timeout(PATIENCE, idle.ping()).await;
            if let Ok(Ok(())) = answer {
                self.note(&answer);
                return Ok(idle);
            }
            // It broke while it was idle: drop it instead of giving it back.
            drop(idle.detach());
            if answer.is_err() {
                // No answer: other connections may be silent too, and each would cost a whole timeout.
                self.gate.try_connect().await?;
            }
        }
        let waiting = Waiting::new(&self.idle_pool);
        // One may have been kept since the first look. From here on, other callers return sessions to the pool, where
        // we wait.
        if let Some(idle) = self.idle_pool.take()
            && self.is_trusted()
        {
            return Ok(idle);
        }
        if self.pool.size() < self.pool.options().get_max_connections() {
            self.gate.try_connect().await?;
        }
        let session = self.pool.acquire().await?;
        drop(waiting);
        Ok(Session::new(session, &self.idle_pool))
    }

    fn idle(&self) -> Option<Session<DB>> {
        self.idle_pool.take().or_else(|| Some(Session::new(self.pool.try_acquire()?, &self.idle_pool)))
    }

    fn is_trusted(&self) -> bool {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.is_some_and(|at| at.elapsed() < TRUSTED)
    }

    /// Records whether the server answers. After one broken connection all of them are tested.
    pub(super) fn note<T, E>(&self, answer: &Result<T, E>) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = answer.is_ok().then(Instant::now);
    }

    /// Ends the use of a session, with this result.
    pub(super) fn end<T, E>(&self, session: Session<DB>, answer: &Result<T, E>) {
        self.note(answer);
        if answer.is_ok() {
            session.done();
        }
    }

    pub(super) async fn begin(&self) -> sqlx::Result<Tx<DB>> {
        Ok(Tx(On::Session(SessionTx::begin(self.acquire().await?).await?)))
    }
}

/// Idle, clean sessions. The last one used is the next one taken.
#[derive(Debug)]
struct IdlePool<DB: Database>(std::sync::Mutex<IdleSessions<DB>>);

#[derive(Debug)]
struct IdleSessions<DB: Database> {
    sessions: Vec<IdleSession<DB>>,
    /// Callers that wait for the pool. Nothing is kept here while there are any.
    waiting: usize,
}

#[derive(Debug)]
struct IdleSession<DB: Database> {
    connection: PoolConnection<DB>,
    /// When it was taken from the pool, and when it was kept here.
    taken: Instant,
    since: Instant,
}

impl<DB: Database> Default for IdlePool<DB> {
    fn default() -> Self {
        Self(std::sync::Mutex::new(IdleSessions { sessions: Vec::new(), waiting: 0 }))
    }
}

impl<DB: Database> IdlePool<DB> {
    fn lock(&self) -> MutexGuard<'_, IdleSessions<DB>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>) -> Option<Session<DB>> {
        let IdleSession { connection, taken, .. } = self.lock().sessions.pop()?;
        Some(Session { connection, taken, idle_pool: Arc::clone(self) })
    }

    /// Keeps a session, or returns it to the pool if it is too old or a caller waits there.
    fn put(&self, connection: PoolConnection<DB>, taken: Instant) {
        let now = Instant::now();
        let mut idle = self.lock();
        if idle.waiting == 0 && taken + KEPT > now {
            idle.sessions.push(IdleSession { connection, taken, since: now });
        }
        // More than are needed: the oldest is at the front.
        if idle.sessions.first().is_some_and(|session| session.since + KEPT < now) {
            idle.sessions.remove(0);
        }
    }
}

impl<DB: Database> Drop for IdlePool<DB> {
    fn drop(&mut self) {
        // Not returned to the pool, because that needs a runtime.
        for session in self.lock().sessions.drain(..) {
            drop(session.connection.detach());
        }
    }
}

/// A caller that waits for the pool.
struct Waiting<'s, DB: Database>(&'s IdlePool<DB>);

impl<'s, DB: Database> Waiting<'s, DB> {
    fn new(idle_pool: &'s IdlePool<DB>) -> Self {
        idle_pool.lock().waiting += 1;
        Self(idle_pool)
    }
}

impl<DB: Database> Drop for Waiting<'_, DB> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

/// A connection that the caller holds. When dropped it returns to the pool, which checks its state or closes it.
#[derive(Debug)]
pub(super) struct Session<DB: Database> {
    connection: PoolConnection<DB>,
    taken: Instant,
    idle_pool: Arc<IdlePool<DB>>,
}

impl<DB: Database> Session<DB> {
    fn new(connection: PoolConnection<DB>, idle_pool: &Arc<IdlePool<DB>>) -> Self {
        Self { connection, taken: Instant::now(), idle_pool: Arc::clone(idle_pool) }
    }

    /// Ends a successful use.
    pub(super) fn done(self) {
        self.idle_pool.put(self.connection, self.taken);
    }

    /// Removes it from the pool.
    pub(super) fn detach(self) -> DB::Connection {
        self.connection.detach()
    }
}

impl<DB: Database> Deref for Session<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: Database> DerefMut for Session<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

/// A transaction: `&mut *tx` is the connection that statements run on. It rolls back when dropped.
#[derive(Debug)]
pub struct Tx<DB: Database>(On<DB>);

#[derive(Debug)]
enum On<DB: Database> {
    /// A session of the store.
    Session(SessionTx<DB>),
    /// A connection of the user's pool.
    Pool(sqlx::Transaction<'static, DB>),
}

impl<DB: Database> Tx<DB> {
    /// Commits it. After an error it is unknown whether it was committed, unless the database says so.
    pub async fn commit(self) -> sqlx::Result<()> {
        match self.0 {
            On::Session(tx) => tx.commit().await,
            On::Pool(tx) => tx.commit().await,
        }
    }

    /// Rolls it back, and waits until that is done.
    pub async fn rollback(self) -> sqlx::Result<()> {
        match self.0 {
            On::Session(tx) => tx.rollback().await,
            On::Pool(tx) => tx.rollback().await,
        }
    }
}

impl<DB: Database> Deref for Tx<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        match &self.0 {
            On::Session(tx) => tx.session.as_ref().expect(COMMITTED),
            On::Pool(tx) => tx,
        }
    }
}

impl<DB: Database> DerefMut for Tx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        match &mut self.0 {
            On::Session(tx) => tx.session.as_mut().expect(COMMITTED),
            On::Pool(tx) => tx,
        }
    }
}

#[derive(Debug)]
struct SessionTx<DB: Database> {
    /// `Some` until the commit.
    session: Option<Session<DB>>,
    /// Whether the database has confirmed the beginning.
    begun: bool,
}

const COMMITTED: &str = "a transaction is consumed by its commit";

impl<DB: Database> SessionTx<DB> {
    async fn begin(session: Session<DB>) -> sqlx::Result<Self> {
        let mut tx = Self { session: Some(session), begun: false };
        DB::TransactionManager::begin(tx.session.as_mut().expect(COMMITTED), None).await?;
        tx.begun = true;
        Ok(tx)
    }

    async fn commit(mut self) -> sqlx::Result<()> {
        DB::TransactionManager::commit(self.session.as_mut().expect(COMMITTED)).await?;
        self.end();
        Ok(())
    }

    async fn rollback(mut self) -> sqlx::Result<()> {
        DB::TransactionManager::rollback(self.session.as_mut().expect(COMMITTED)).await?;
        self.end();
        Ok(())
    }

    fn end(&mut self) {
        if let Some(session) = self.session.take() {
            session.done();
        }
    }
}

impl<DB: Database> Drop for SessionTx<DB> {
    fn drop(&mut self) {
        match self.session.take() {
            // The pool sends the rollback before another caller gets the session.
            Some(mut session) if self.begun => DB::TransactionManager::start_rollback(&mut session),
            // The caller was dropped during `BEGIN`: a transaction may be open, so the session is closed.
            Some(session) => drop(session.detach()),
            None => {}
        }
    }
}

/// Where transactions with the user's own statements run.
#[derive(Debug)]
pub(super) enum Transactions<DB: Database> {
    /// On a pool of the store.
    Ours(Sessions<DB>),
    /// On the pool that the user gave to `from_pool`.
    Users(Pool<DB>),
}

// `derive` would require `DB: Clone`.
impl<DB: Database> Clone for Transactions<DB> {
    fn clone(&self) -> Self {
        match self {
            Self::Ours(sessions) => Self::Ours(sessions.clone()),
            Self::Users(pool) => Self::Users(pool.clone()),
        }
    }
}

impl<DB: Database> Transactions<DB> {
    pub(super) async fn begin(&self) -> sqlx::Result<Tx<DB>> {
        match self {
            Self::Ours(sessions) => sessions.begin().await,
            Self::Users(pool) => Ok(Tx(On::Pool(pool.begin().await?))),
        }
    }

    pub(super) fn pool(&self) -> &Pool<DB> {
        match self {
            Self::Ours(sessions) => &sessions.pool,
            Self::Users(pool) => pool,
        }
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
        // All rows at once: a claim has few, and a caller must not hold a session while it processes them.
        let fetched = async move {
            let mut session = self.acquire().await?;
            let fetched = session.fetch_many(query).try_collect::<Vec<_>>().await;
            self.end(session, &fetched);
            fetched
        };
        stream::once(fetched).map_ok(|rows| stream::iter(rows.into_iter().map(Ok))).try_flatten().boxed()
    }

    // Not through `fetch_many`, which would pass every row through two streams.
    fn fetch_all<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Vec<DB::Row>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        Box::pin(async move {
            let mut session = self.acquire().await?;
            let fetched = session.fetch_all(query).await;
            self.end(session, &fetched);
            fetched
        })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<DB::Row>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        Box::pin(async move {
            let mut session = self.acquire().await?;
            let fetched = session.fetch_optional(query).await;
            self.end(session, &fetched);
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
