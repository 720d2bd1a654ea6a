//! One connection, opened when it is needed and again after it was lost: by one caller at a time, and with pauses.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lapin::protocol::{AMQPErrorKind, AMQPHardError};
use lapin::tcp::AMQPUriTcpExt;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind};
use time::OffsetDateTime;
use tokio::time::Instant;
use tracing::dispatcher::{self, DefaultGuard, Dispatch};

use super::RabbitMqOptions;
use crate::clock::{Clock, SystemClock};
use crate::presence::{BrokerProbe, BrokerReport, BrokerState};
use crate::retry;

/// The longest pause before a connection that worked is opened again, so that many clients do not reconnect together.
const AT_ONCE: Duration = Duration::from_millis(100);
/// The client library's name for the thread that reads and writes a connection.
const IO_THREAD: &str = "lapin-io-loop";

pub(super) struct Link {
    uri: AMQPUri,
    pub(super) options: RabbitMqOptions,
    /// Its purpose, which the broker's console shows.
    purpose: &'static str,
    state: Mutex<State>,
    /// Held while a connection is opened.
    connecting: tokio::sync::Mutex<()>,
    /// Set when the broker returns a message that no queue is bound for. The reconciler clears it.
    pub(super) unroutable: AtomicBool,
}

/// The state of the connection.
#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Connections that were opened.
    opened: u64,
    /// Connections in a row that could not be opened, or were lost before they were used.
    failures: u32,
    /// When the next connection may be opened.
    rest_until: Option<Instant>,
    last_error: String,
    /// The state that was reported last, and since when it is the same.
    reported: Option<(BrokerState, OffsetDateTime)>,
}

/// The broker cannot be used now, for no event.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the broker is unreachable: {0}")]
pub(super) struct Away(pub(super) String);

impl From<lapin::Error> for Away {
    fn from(error: lapin::Error) -> Self {
        Self(error.to_string())
    }
}

impl State {
    fn broker(&self) -> BrokerState {
        match &self.connection {
            Some(connection) if connection.status().blocked() => BrokerState::Blocked,
            Some(connection) if connection.status().connected() => BrokerState::Connected,
            None if self.rest_until.is_none() => BrokerState::Unused,
            _ => BrokerState::Away,
        }
    }
}

impl Link {
    pub(super) fn new(uri: AMQPUri, options: RabbitMqOptions, purpose: &'static str) -> Self {
        Self {
            uri,
            options,
            purpose,
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            unroutable: AtomicBool::new(false),
        }
    }

    /// Another connection to the same broker.
    pub(super) fn another(&self, purpose: &'static str) -> Self {
        Self::new(self.uri.clone(), self.options.clone(), purpose)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> BrokerState {
        self.lock().broker()
    }

    /// The state with its time and reason.
    fn report(&self) -> BrokerReport {
        let now = SystemClock.now();
        let mut state = self.lock();
        let broker = state.broker();
        let since = state.reported.filter(|(before, _)| *before == broker).map_or(now, |(_, since)| since);
        state.reported = Some((broker, since));
        BrokerReport { state: broker, since, error: (broker == BrokerState::Away).then(|| state.last_error.clone()) }
    }

    /// A new channel.
    pub(super) async fn channel(&self) -> Result<Channel, Away> {
        let connection = self.connection().await?;
        match tokio::time::timeout(self.options.connect_timeout, connection.create_channel()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => {
                self.lost(&error.to_string());
                Err(error.into())
            }
            Err(_) => {
                self.lost("it does not open a channel");
                Err(Away("it does not open a channel".into()))
            }
        }
    }

    /// How many connections were opened. It grows with every reconnect.
    pub(super) fn opened(&self) -> u64 {
        self.lock().opened
    }

    /// The connection; opens one if there is none.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, Away> {
        if let Some(connection) = self.usable()? {
            return Ok(connection);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connection) = self.usable()? {
            return Ok(connection);
        }
        let name = format!("postrider {}", self.purpose);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let connecting = connect(self.uri.clone(), properties);
        let made = match tokio::time::timeout(self.options.connect_timeout, connecting).await {
            Ok(Ok(connection)) => Ok(Arc::new(connection)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {:?}", self.options.connect_timeout)),
        };
        let place = format!("{}:{}", self.uri.authority.host, self.uri.authority.port);
        let mut state = self.lock();
        match made {
            Ok(connection) => {
                tracing::info!(broker = place, purpose = self.purpose, "connected to the broker");
                state.connection = Some(Arc::clone(&connection));
                state.opened += 1;
                Ok(connection)
            }
            Err(error) => {
                state.failed(&error);
                tracing::warn!(broker = place, error, failures = state.failures, "the broker cannot be reached");
                Err(Away(error))
            }
        }
    }

    /// The open connection. Returns `None` if a new one may be opened now.
    fn usable(&self) -> Result<Option<Arc<Connection>>, Away> {
        let mut state = self.lock();
        if let Some(connection) = &state.connection {
            if connection.status().connected() {
                return Ok(Some(Arc::clone(connection)));
            }
            state.drop_connection("the connection was lost");
        }
        match state.rest_until {
            Some(until) if until > Instant::now() => Err(Away(state.last_error.clone())),
            _ => Ok(None),
        }
    }

    /// A message came through: the connection works.
    pub(super) fn worked(&self) {
        self.lock().failures = 0;
    }

    /// Drops a connection that does not work any more, although it may look open.
    pub(super) fn lost(&self, error: &str) {
        self.lock().drop_connection(error);
    }

    /// How long to wait before the next try.
    pub(super) fn rest(&self) -> Duration {
        let until = self.lock().rest_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}

#[async_trait]
impl BrokerProbe for Link {
    /// Nothing may be waiting to be sent, so that only this finds out that the broker is back.
    async fn probe(&self) -> BrokerReport {
        if self.state() == BrokerState::Away {
            // The link keeps the error.
            let _: Result<_, Away> = self.connection().await;
        }
        self.report()
    }
}

/// Connects as `Connection::connect_uri` does, and silences the log of the connection's thread. The client library logs
/// returned messages there with their payload, at WARN, and every frame at TRACE. Its errors come back as results.
async fn connect(uri: AMQPUri, properties: ConnectionProperties) -> lapin::Result<Connection> {
    let runtime = lapin::runtime::default_runtime()?;
    // The library calls this on the connection's thread, before it reads the first byte.
    let open = async |uri: AMQPUri, runtime| {
        silence_io_thread();
        Ok(uri.connect_async(&runtime).await?)
    };
    Connection::connector(uri, runtime, open, properties).await
}

fn silence_io_thread() {
    thread_local! {
        /// Lives as long as the thread.
        static SILENCE: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
    }
    if std::thread::current().name() == Some(IO_THREAD) {
        SILENCE.set(Some(dispatcher::set_default(&Dispatch::none())));
    }
}

impl State {
    fn drop_connection(&mut self, error: &str) {
        if self.connection.take().is_some() {
            self.failed(error);
        }
    }

    fn failed(&mut self, error: &str) {
        let rest = match self.failures {
            0 => AT_ONCE.mul_f64(retry::chance()),
            failures => retry::pause(failures),
        };
        self.failures = self.failures.saturating_add(1);
        self.rest_until = Some(Instant::now() + rest);
        self.last_error = error.into();
    }
}

/// Whether the broker refuses what it was sent, rather than being unreachable.
pub(super) fn is_objection(error: &lapin::Error) -> bool {
    match error.kind() {
        ErrorKind::ProtocolError(error) => {
            // An administrator closed the connection, or the broker shuts down: the message is not the cause.
            *error.kind() != AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED)
        }
        ErrorKind::SerialisationError(_) => true,
        _ => false,
    }
}
