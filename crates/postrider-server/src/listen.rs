//! Where a server may listen, and TLS in front of it.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes that are done and wait to be served.
const DONE: usize = 128;

/// Why a server does not start to listen.
#[derive(Debug)]
pub struct ListenError(String);

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ListenError {}

/// Refuses an address that others can reach, unless what they send is encrypted: by us, or by a proxy in front.
pub fn check(address: SocketAddr, encrypted: bool) -> Result<(), ListenError> {
    match address.ip().is_loopback() || encrypted {
        true => Ok(()),
        false => Err(ListenError(format!(
            "{address} can be reached from outside, and tokens would travel in the clear: listen on 127.0.0.1, give \
             `tls.cert` and `tls.key`, or say `behind-proxy` if a proxy in front encrypts"
        ))),
    }
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Reads them from PEM files.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, ListenError> {
        let refused = |path: &Path, what: &str, error: &dyn std::fmt::Display| {
            ListenError(format!("{} holds no {what} in PEM: {error}", path.display()))
        };
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|e| refused(certificate, "certificate", &e))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|e| refused(key, "private key", &e))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|e| ListenError(format!("{} and its key do not serve: {e}", certificate.display())))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// A listener whose connections have shaken hands, each in its own time.
    pub(crate) fn over(self, listener: TcpListener) -> TlsListener {
        let address = listener.local_addr();
        let (done, shaken) = mpsc::channel(DONE);
        let accepting = tokio::spawn(async move {
            let mut listener = listener;
            loop {
                let (stream, peer) = axum::serve::Listener::accept(&mut listener).await;
                let (acceptor, done) = (self.0.clone(), done.clone());
                tokio::spawn(async move {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        // Nobody takes it any more: the server has stopped.
                        let _ = done.send((stream, peer)).await;
                    }
                });
            }
        });
        TlsListener { address, shaken, accepting }
    }
}

pub(crate) struct TlsListener {
    address: io::Result<SocketAddr>,
    shaken: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.shaken.recv().await {
            Some(shaken) => shaken,
            // Its task never ends by itself.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.address {
            Ok(address) => Ok(*address),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1
    #[test]
    fn an_address_that_others_can_reach_needs_encryption() {
        let check = |address: &str, encrypted| check(address.parse().expect("an address"), encrypted).is_ok();
        for near in ["127.0.0.1:7070", "127.9.9.9:1", "[::1]:7070"] {
            assert!(check(near, false) && check(near, true), "{near}");
        }
        for far in ["0.0.0.0:7070", "10.0.0.1:7070", "192.0.2.1:80", "[::]:7070", "[2001:db8::1]:7070"] {
            assert!(!check(far, false), "{far}");
            assert!(check(far, true), "{far}");
        }
    }
}
