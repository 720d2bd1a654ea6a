//! A TCP proxy that fails when told to: links are closed, reset or fall silent, new ones are refused. It knows nothing of
//! what it carries.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards every connection to one address. Dropped, it cuts all of them.
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
    /// Both under one lock, so that nobody slips in between `refuse` and `cut`.
    state: Mutex<(Door, Vec<Arc<Link>>)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, (Door, Vec<Arc<Link>>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of those who knock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Open,
    /// Reset as soon as they are there. They are counted, which a closed port could not do.
    Refusing,
    /// Forwarded, in silence.
    Silent,
}

/// How a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Forwarding,
    /// What the client says is passed on; what it is told is kept back.
    Unanswered,
    /// Nothing is passed on either way, and nobody is told.
    Stalled,
    Closed,
    Reset,
}

#[derive(Debug)]
struct Link {
    /// Our port as the server sees it: by this a server can say which link it means. 0 until we are through to it.
    port: AtomicU16,
    state: watch::Sender<State>,
}

impl Proxy {
    /// Listens on a port of its own on loopback, and forwards to `to`.
    pub async fn to(to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { to, connections: AtomicUsize::new(0), state: Mutex::new((Door::Open, Vec::new())) });
        let accepting = Mutex::new(tokio::spawn(accept(listener, Arc::clone(&shared))));
        Ok(Self { address, shared, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made, refused ones included.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Closes every link, as a server does that ends in peace.
    pub fn cut(&self) {
        self.all(State::Closed);
    }

    /// Resets every link, as a server does that is gone.
    pub fn reset(&self) {
        self.all(State::Reset);
    }

    /// Lets every link fall silent: open, and nothing comes through.
    pub fn stall(&self) {
        self.all(State::Stalled);
    }

    /// The same for one link, by the port that the server sees. False: there is none.
    pub fn stall_one(&self, port: u16) -> bool {
        let (_, links) = &*self.shared.state();
        let link = links.iter().find(|link| link.port.load(Ordering::SeqCst) == port);
        link.is_some_and(|link| link.state.send(State::Stalled).is_ok())
    }

    /// Passes on what clients say, and keeps back what they are told.
    pub fn hold_answers(&self) {
        self.all(State::Unanswered);
    }

    /// Lets silent links talk again; what was kept back arrives.
    pub fn resume(&self) {
        self.all(State::Forwarding);
    }

    /// Resets new connections as soon as they are made.
    pub fn refuse(&self) {
        self.shared.state().0 = Door::Refusing;
    }

    /// Takes new connections, which are silent from the start.
    pub fn swallow(&self) {
        self.shared.state().0 = Door::Silent;
    }

    /// Takes and forwards new connections again.
    pub fn accept(&self) {
        self.shared.state().0 = Door::Open;
    }

    /// Closes the port: the kernel refuses new connections, and nobody counts them. Links that are up stay.
    pub async fn close(&self) {
        let accepting = {
            let mut accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *accepting, tokio::spawn(async {}))
        };
        accepting.abort();
        // Ends in no other way than by this; then the port is closed.
        let _ = accepting.await;
    }

    /// Opens it again.
    pub async fn open(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&self.shared)));
        *self.accepting.lock().unwrap_or_else(PoisonError::into_inner) = accepting;
        Ok(())
    }

    fn all(&self, state: State) {
        for link in &self.shared.state().1 {
            // A link that has ended listens to nobody.
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
    // Fails only if the process is out of file descriptors; the test then fails by itself.
    while let Ok((client, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let (link, told) = {
            let (door, links) = &mut *shared.state();
            let first = match door {
                Door::Open => State::Forwarding,
                Door::Silent => State::Stalled,
                Door::Refusing => {
                    // Dropped without time to linger, a socket sends a reset.
                    let _ = client.set_zero_linger();
                    continue;
                }
            };
            let (state, told) = watch::channel(first);
            let link = Arc::new(Link { port: AtomicU16::new(0), state });
            links.push(Arc::clone(&link));
            (link, told)
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A server that cannot be reached looks to the client like one that hangs up.
            if let Ok(server) = TcpStream::connect(shared.to).await {
                link.port.store(server.local_addr().map_or(0, |address| address.port()), Ordering::SeqCst);
                carry(client, server, told).await;
            }
            shared.state().1.retain(|other| !Arc::ptr_eq(other, &link));
        });
    }
}

/// Carries bytes both ways until either side ends, or the link is told to.
async fn carry(mut client: TcpStream, mut server: TcpStream, told: watch::Receiver<State>) {
    // Only a matter of speed.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        tokio::select! {
            () = pump(from_client, to_server, told.clone(), &[State::Forwarding, State::Unanswered]) => {}
            () = pump(from_server, to_client, told.clone(), &[State::Forwarding]) => {}
        }
    }
    if *told.borrow() == State::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Carries bytes one way while the link is in one of the `open` states, and ends with the link.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut told: watch::Receiver<State>,
    open: &[State],
) {
    let mut buffer = vec![0; 16 * 1024];
    while opened(&mut told, open).await {
        let read = tokio::select! {
            _ = told.changed() => continue,
            read = from.read(&mut buffer) => read,
        };
        let Ok(n @ 1..) = read else { return };
        // Asked again: bytes may be read at the very moment in which the link is told, and these are not passed on.
        if !opened(&mut told, open).await || to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

/// Waits until the link is in one of the `open` states. False: it has ended.
async fn opened(told: &mut watch::Receiver<State>, open: &[State]) -> bool {
    let ended = [State::Closed, State::Reset];
    let state = told.wait_for(|state| open.contains(state) || ended.contains(state)).await;
    state.is_ok_and(|state| open.contains(&state))
}
