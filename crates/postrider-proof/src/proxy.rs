//! A TCP proxy with faults on command: it closes, resets or stalls connections
//! and refuses new ones. It does not parse the protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards every connection to one address. Dropping it closes all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Mutex<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    to: SocketAddr,
    connections: AtomicUsize,
    /// The text of requests whose responses are held back; empty for none.
    unanswered: Mutex<Vec<u8>>,
    /// Both under one lock, so that no connection is accepted between `refuse` and `cut`.
    state: Mutex<(Acceptance, Vec<Arc<Link>>)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, (Acceptance, Vec<Arc<Link>>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happens to a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acceptance {
    Open,
    /// Reset after it is accepted. A closed port could not count them.
    Refusing,
    /// Forwarded, but stalled from the start.
    Silent,
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Forwarding,
    /// Requests are forwarded; responses are held back.
    Unanswered,
    /// Nothing is forwarded in either direction, and neither side is notified.
    Stalled,
    Closed,
    Reset,
}

#[derive(Debug)]
struct Link {
    /// The client port that the server sees, by which a server identifies
    /// the connection. 0 until the server is connected.
    port: AtomicU16,
    state: watch::Sender<State>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to `to`.
    pub async fn to(to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            to,
            connections: AtomicUsize::new(0),
            unanswered: Mutex::default(),
            state: Mutex::new((Acceptance::Open, Vec::new())),
        });
        let accepting = Mutex::new(tokio::spawn(accept(listener, Arc::clone(&shared))));
        Ok(Self { address, shared, accepting })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of accepted connections, including refused ones.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Closes every connection, like a server that shuts down.
    pub fn cut(&self) {
        self.all(State::Closed);
    }

    /// Resets every connection, like a server that crashed.
    pub fn reset(&self) {
        self.all(State::Reset);
    }

    /// Stalls every connection: open, but nothing is forwarded.
    pub fn stall(&self) {
        self.all(State::Stalled);
    }

    /// Stalls one connection, found by the port that the server sees. Returns false if there is none.
    pub fn stall_one(&self, port: u16) -> bool {
        let (_, links) = &*self.shared.state();
        let link = links.iter().find(|link| link.port.load(Ordering::SeqCst) == port);
        link.is_some_and(|link| link.state.send(State::Stalled).is_ok())
    }

    /// From now on a connection forwards the first request with this text, and then no more responses.
    pub fn hold_answers_to(&self, request: &str) {
        *self.shared.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = request.as_bytes().into();
    }

    /// Forwards requests and holds responses back.
    pub fn hold_answers(&self) {
        self.all(State::Unanswered);
    }

    /// Resumes stalled connections; held bytes are forwarded.
    pub fn resume(&self) {
        self.all(State::Forwarding);
    }

    /// Resets new connections after accepting them.
    pub fn refuse(&self) {
        self.shared.state().0 = Acceptance::Refusing;
    }

    /// Accepts new connections, stalled from the start.
    pub fn swallow(&self) {
        self.shared.state().0 = Acceptance::Silent;
    }

    /// Accepts and forwards new connections again.
    pub fn accept(&self) {
        self.shared.state().0 = Acceptance::Open;
    }

    /// Closes the port: the kernel refuses new connections, and they are not counted. Existing connections stay.
    pub async fn close(&self) {
        let accepting = {
            let mut accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *accepting, tokio::spawn(async {}))
        };
        accepting.abort();
        // The task ends only by this abort. The port is closed after that.
        let _ = accepting.await;
    }

    /// Opens the port again.
    pub async fn open(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&self.shared)));
        *self.accepting.lock().unwrap_or_else(PoisonError::into_inner) = accepting;
        Ok(())
    }

    fn all(&self, state: State) {
        for link in &self.shared.state().1 {
            // Fails only if the connection has already ended.
            let _ = link.state.send(state);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.lock().unwrap_or_else(PoisonError::into_inner).abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Fails only if the process is out of file descriptors; the test then fails anyway.
    while let Ok((client, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let (link, changes) = {
            let (acceptance, links) = &mut *shared.state();
            let first = match acceptance {
                Acceptance::Open => State::Forwarding,
                Acceptance::Silent => State::Stalled,
                Acceptance::Refusing => {
                    // A socket dropped with zero linger sends a reset.
                    let _ = client.set_zero_linger();
                    continue;
                }
            };
            let (state, changes) = watch::channel(first);
            let link = Arc::new(Link { port: AtomicU16::new(0), state });
            links.push(Arc::clone(&link));
            (link, changes)
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // If the server cannot be reached, the client sees its connection closed.
            if let Ok(server) = TcpStream::connect(shared.to).await {
                link.port.store(server.local_addr().map_or(0, |address| address.port()), Ordering::SeqCst);
                let on_request = |request: &[u8]| {
                    let text = shared.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    if !text.is_empty() && request.windows(text.len()).any(|part| *part == *text) {
                        let _ = link.state.send(State::Unanswered);
                    }
                };
                carry(client, server, changes, on_request).await;
            }
            shared.state().1.retain(|other| !Arc::ptr_eq(other, &link));
        });
    }
}

/// Forwards bytes both ways until either side ends or the state is `Closed` or `Reset`.
async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    changes: watch::Receiver<State>,
    on_request: impl Fn(&[u8]),
) {
    // For speed only; errors are ignored.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        tokio::select! {
            () = pump(from_client, to_server, changes.clone(), &[State::Forwarding, State::Unanswered], on_request) => {}
            () = pump(from_server, to_client, changes.clone(), &[State::Forwarding], |_| {}) => {}
        }
    }
    if *changes.borrow() == State::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Forwards bytes one way while the connection is in one of the `open` states. Returns when it ends.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut changes: watch::Receiver<State>,
    open: &[State],
    on_bytes: impl Fn(&[u8]),
) {
    let mut buffer = vec![0; 16 * 1024];
    while opened(&mut changes, open).await {
        let read = tokio::select! {
            _ = changes.changed() => continue,
            read = from.read(&mut buffer) => read,
        };
        let Ok(n @ 1..) = read else { return };
        on_bytes(&buffer[..n]);
        // Checked again: bytes may be read in the moment the state changes, and those must not be forwarded.
        if !opened(&mut changes, open).await || to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

/// Waits until the connection is in one of the `open` states. Returns false if it has ended.
async fn opened(changes: &mut watch::Receiver<State>, open: &[State]) -> bool {
    let ended = [State::Closed, State::Reset];
    let state = changes.wait_for(|state| open.contains(state) || ended.contains(state)).await;
    state.is_ok_and(|state| open.contains(&state))
}
