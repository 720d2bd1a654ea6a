//! How many connections there may be, and which one makes room for a new one.
//!
//! A connection costs a client nothing until it has sent the head of a request. So if all places are taken, the oldest
//! connection without a complete head is closed. If every connection has sent one, the new connection is refused.

use std::collections::BTreeMap;
use std::future::Ready;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Request;
use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address.
    pub per_peer: usize,
    /// How long the head of a request may take to arrive, and how long a connection may be idle.
    pub header: Duration,
    /// How long a body may take to arrive.
    pub body: Duration,
    /// How long open requests may take to finish at a shutdown before their connections are closed.
    pub shutdown: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_peer: 512,
            header: Duration::from_secs(10),
            body: Duration::from_secs(30),
            shutdown: Duration::from_secs(25),
        }
    }
}

/// An acceptor that keeps the limits.
#[derive(Clone)]
pub(crate) struct Limited {
    open: Arc<Mutex<Open>>,
}

/// All open connections, the oldest first.
struct Open {
    limits: ConnectionLimits,
    next: u64,
    by_age: BTreeMap<u64, Arc<Connection>>,
}

struct Connection {
    peer: IpAddr,
    has_sent_a_head: AtomicBool,
    close: CancellationToken,
}

impl Limited {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self { open: Arc::new(Mutex::new(Open { limits, next: 0, by_age: BTreeMap::new() })) }
    }

    fn admit(&self, peer: IpAddr) -> Option<Place> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = open.by_age.values().filter(|one| one.peer == peer).count();
        if of_peer >= open.limits.per_peer {
            open.make_room(|one| one.peer == peer)?;
        } else if open.by_age.len() >= open.limits.connections {
            open.make_room(|_| true)?;
        }
        let (number, close) = (open.next, CancellationToken::new());
        let connection = Arc::new(Connection { peer, has_sent_a_head: AtomicBool::new(false), close });
        open.by_age.insert(number, Arc::clone(&connection));
        open.next += 1;
        Some(Place { open: Arc::clone(&self.open), number, connection })
    }
}

impl Open {
    /// Closes the oldest of these connections that has not sent a head. Returns `None` if there is none.
    fn make_room(&mut self, among: impl Fn(&Connection) -> bool) -> Option<()> {
        let is_idle = |one: &Connection| !one.has_sent_a_head.load(Ordering::Relaxed) && among(one);
        let number = *self.by_age.iter().find(|(_, one)| is_idle(one))?.0;
        self.by_age.remove(&number)?.close.cancel();
        Some(())
    }
}

/// The place of one connection, which is free again when it is dropped.
struct Place {
    open: Arc<Mutex<Open>>,
    number: u64,
    connection: Arc<Connection>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).by_age.remove(&self.number);
    }
}

impl<S> Accept<TcpStream, S> for Limited {
    type Stream = LimitedStream;
    type Service = NotesHead<S>;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let accepted = stream.peer_addr().and_then(|peer| {
            let place = self.admit(peer.ip().to_canonical()).ok_or(io::ErrorKind::ConnectionRefused)?;
            let service = NotesHead { connection: Arc::clone(&place.connection), service };
            let closed = Box::pin(place.connection.close.clone().cancelled_owned());
            Ok((LimitedStream { stream, closed, place }, service))
        });
        std::future::ready(accepted)
    }
}

/// A stream that ends when its connection has to make room.
pub(crate) struct LimitedStream {
    stream: TcpStream,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    place: Place,
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // Only a connection without a head is closed, so the others need not be woken for it.
        let may_be_closed = !self.place.connection.has_sent_a_head.load(Ordering::Relaxed);
        if may_be_closed && self.closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A service that is called once the head of a request is complete.
#[derive(Clone)]
pub(crate) struct NotesHead<S> {
    connection: Arc<Connection>,
    service: S,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for NotesHead<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        self.connection.has_sent_a_head.store(true, Ordering::Relaxed);
        self.service.call(request)
    }
}
