//! Where a server may listen, and TLS in front of it.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::connections::{ConnectionLimits, Limited};

/// Why a server does not start to listen.
#[derive(Debug)]
pub struct ListenError(String);

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ListenError {}

/// Refuses an address that other machines can reach, unless requests are encrypted: by us, or by a proxy in front.
pub fn check(address: SocketAddr, encrypted: bool) -> Result<(), ListenError> {
    if address.ip().is_loopback() || encrypted {
        Ok(())
    } else {
        Err(ListenError(format!(
            "{address} can be reached from outside, and tokens would travel unencrypted: listen on 127.0.0.1, set \
             `tls.cert` and `tls.key`, or set `behind-proxy` if a proxy in front encrypts"
        )))
    }
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

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
        Ok(Self(Arc::new(config)))
    }
}

/// Serves until `shutdown` is ready, then finishes open requests for as long as the limits allow.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    limits: ConnectionLimits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let handle = Handle::<SocketAddr>::new();
    let stopping = handle.clone();
    let shutdown = tokio::spawn(async move {
        shutdown.await;
        stopping.graceful_shutdown(Some(limits.shutdown));
    });
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    let limited = Limited::new(limits);
    let mut server = axum_server::Server::from_listener(listener).handle(handle);
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(limits.header);
    let served = match tls {
        None => server.acceptor(limited).http1_only().serve(router).await,
        Some(Tls(config)) => {
            let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(config)).handshake_timeout(limits.header);
            server.acceptor(acceptor.acceptor(limited)).http1_only().serve(router).await
        }
    };
    shutdown.abort();
    served
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
