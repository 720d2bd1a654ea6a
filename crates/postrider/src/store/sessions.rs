//! Pools that knock once. A pool of sqlx asks a server that refuses it again and again, from ten milliseconds on, until its
//! patience ends, and so does everybody who waits beside it: an outage would become a storm of connections. Here one asks
//! for all, at most once a second, and an answer counts for everybody.
//!
//! A session whose work went well is laid by for the next caller. Given back to the pool of sqlx it would be asked whether it
//! is still there: a round trip for every statement and every transaction.

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

/// Two knocks at a door that stays closed are at least this far apart.
const BETWEEN_KNOCKS: Duration = Duration::from_secs(1);
/// How long after an answer connections are trusted without being asked: a round trip for every statement otherwise.
const TRUSTED: Duration = Duration::from_secs(5);
/// How long a session may be kept from the pool, which knows when it is too old, and when there are too many.
const KEPT: Duration = Duration::from_secs(60);
/// How long a session that was left in the middle of something may take until it is of use again; then it is closed.
const LEFT_BEHIND: Duration = Duration::from_secs(1);
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

/// A pool behind the door. As an [`Executor`] it takes a session for one statement.
#[derive(Debug)]
pub(super) struct Sessions<DB: Database> {
    pool: Pool<DB>,
    door: Arc<Door<DB>>,
    /// When the server last answered; None since it did not.
    answered: Arc<std::sync::Mutex<Option<Instant>>>,
    laid_by: Arc<LaidBy<DB>>,
}

// Derived, it would ask the database's type to be cloned too.
impl<DB: Database> Clone for Sessions<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            door: Arc::clone(&self.door),
            answered: Arc::clone(&self.answered),
            laid_by: Arc::clone(&self.laid_by),
        }
    }
}

impl<DB: Database> Sessions<DB> {
    pub(super) fn new(pool: PoolOptions<DB>, door: &Arc<Door<DB>>) -> Self {
        // We test them ourselves, before we knock.
        let pool = pool.test_before_acquire(false);
        // What is given back was left in the middle of something, and may wait for an answer that never comes: a statement
        // whose caller left while it was prepared does on MySQL. The pool would wait as long, and be one session short.
        let pool = pool.after_release(|session, _| {
            Box::pin(async move {
                match timeout(LEFT_BEHIND, session.ping()).await {
                    Ok(answer) => answer.map(|()| true),
                    Err(_) => Err(closed("no answer")),
                }
            })
        });
        let pool = pool.connect_lazy_with(door.options.clone());
        Self { pool, door: Arc::clone(door), answered: Arc::default(), laid_by: Arc::default() }
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
            // It broke while nobody used it: dropped, and not given back.
            drop(idle.detach());
            if answer.is_err() {
                // Silence: the others may be as silent, and each would cost as much patience.
                self.door.knock().await?;
            }
        }
        let waiting = Waiting::new(&self.laid_by);
        // Laid by since we looked: from here on, what others have done with goes to the pool, where we wait.
        if let Some(idle) = self.laid_by.take()
            && self.is_trusted()
        {
            return Ok(idle);
        }
        if self.pool.size() < self.pool.options().get_max_connections() {
            self.door.knock().await?;
        }
        let session = self.pool.acquire().await?;
        drop(waiting);
        Ok(Session::new(session, &self.laid_by))
    }

    fn idle(&self) -> Option<Session<DB>> {
        self.laid_by.take().or_else(|| Some(Session::new(self.pool.try_acquire()?, &self.laid_by)))
    }

    fn is_trusted(&self) -> bool {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.is_some_and(|at| at.elapsed() < TRUSTED)
    }

    /// Takes note of whether the server answers: one connection that broke makes all of them suspect.
    pub(super) fn note<T, E>(&self, answer: &Result<T, E>) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = answer.is_ok().then(Instant::now);
    }

    /// Ends the use of a session, with this answer.
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

/// Sessions that are idle and known to be clean; the last one used is the next.
#[derive(Debug)]
struct LaidBy<DB: Database>(std::sync::Mutex<Shelf<DB>>);

#[derive(Debug)]
struct Shelf<DB: Database> {
    sessions: Vec<Lying<DB>>,
    /// Who waits for the pool; nothing is laid by meanwhile.
    waiting: usize,
}

#[derive(Debug)]
struct Lying<DB: Database> {
    connection: PoolConnection<DB>,
    /// Since when the pool has not seen it, and since when it lies here.
    taken: Instant,
    laid: Instant,
}

impl<DB: Database> Default for LaidBy<DB> {
    fn default() -> Self {
        Self(std::sync::Mutex::new(Shelf { sessions: Vec::new(), waiting: 0 }))
    }
}

impl<DB: Database> LaidBy<DB> {
    fn shelf(&self) -> MutexGuard<'_, Shelf<DB>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>) -> Option<Session<DB>> {
        let Lying { connection, taken, .. } = self.shelf().sessions.pop()?;
        Some(Session { connection, taken, laid_by: Arc::clone(self) })
    }

    /// Lays a session by; those that are of no use here go to the pool.
    fn put(&self, connection: PoolConnection<DB>, taken: Instant) {
        let now = Instant::now();
        let mut shelf = self.shelf();
        if shelf.waiting == 0 && taken + KEPT > now {
            shelf.sessions.push(Lying { connection, taken, laid: now });
        }
        // More than are needed: the oldest lies in front.
        if shelf.sessions.first().is_some_and(|lying| lying.laid + KEPT < now) {
            shelf.sessions.remove(0);
        }
    }
}

impl<DB: Database> Drop for LaidBy<DB> {
    fn drop(&mut self) {
        // Not given back to the pool, which would need a runtime for that.
        for lying in self.shelf().sessions.drain(..) {
            drop(lying.connection.detach());
        }
    }
}

/// Somebody who waits for the pool.
struct Waiting<'s, DB: Database>(&'s LaidBy<DB>);

impl<'s, DB: Database> Waiting<'s, DB> {
    fn new(laid_by: &'s LaidBy<DB>) -> Self {
        laid_by.shelf().waiting += 1;
        Self(laid_by)
    }
}

impl<DB: Database> Drop for Waiting<'_, DB> {
    fn drop(&mut self) {
        self.0.shelf().waiting -= 1;
    }
}

/// A connection, the caller's for now. Dropped, it goes to the pool, which finds out what state it is in, or closes it.
#[derive(Debug)]
pub(super) struct Session<DB: Database> {
    connection: PoolConnection<DB>,
    taken: Instant,
    laid_by: Arc<LaidBy<DB>>,
}

impl<DB: Database> Session<DB> {
    fn new(connection: PoolConnection<DB>, laid_by: &Arc<LaidBy<DB>>) -> Self {
        Self { connection, taken: Instant::now(), laid_by: Arc::clone(laid_by) }
    }

    /// The caller has done with it, and all went well.
    pub(super) fn done(self) {
        self.laid_by.put(self.connection, self.taken);
    }

    /// Takes it away from the pool.
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
    /// A session of the store's.
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
    /// There until it is committed.
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
            // Sent by the pool, before anyone else gets the session.
            Some(mut session) if self.begun => DB::TransactionManager::start_rollback(&mut session),
            // The caller left while it began: a transaction may be open there, so the session is closed.
            Some(session) => drop(session.detach()),
            None => {}
        }
    }
}

/// Where transactions with the user's own statements run.
#[derive(Debug)]
pub(super) enum Transactions<DB: Database> {
    /// On a pool that the store made.
    Ours(Sessions<DB>),
    /// On the pool that the user gave to `from_pool`.
    Users(Pool<DB>),
}

// Derived, it would ask the database's type to be cloned too.
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
        // All at once: a claim's rows are few, and nobody may hold a session while it thinks about them.
        let fetched = async move {
            let mut session = self.acquire().await?;
            let fetched = session.fetch_many(query).try_collect::<Vec<_>>().await;
            self.end(session, &fetched);
            fetched
        };
        stream::once(fetched).map_ok(|rows| stream::iter(rows.into_iter().map(Ok))).try_flatten().boxed()
    }

    // Not by way of `fetch_many`, which would hand every row from stream to stream.
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
