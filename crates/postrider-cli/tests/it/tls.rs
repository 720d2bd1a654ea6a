//! Whom the programs trust: servers with the right certificate only, unless the configuration says otherwise.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::process::{Database, Kind, Process};
use crate::{postrider, stderr, stdout};

/// A certificate that is its own authority, for these names. Returns its file.
fn certificate(folder: &Path, name: &str, names: &str) -> PathBuf {
    let config = folder.join(format!("{name}.cnf"));
    let text = format!(
        "[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN={name}\n[ext]\n\
         basicConstraints=critical,CA:FALSE\nsubjectAltName={names}\n"
    );
    std::fs::write(&config, text).unwrap();
    let (cert, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"])
        .arg("-config")
        .arg(&config)
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    cert
}

/// What a client says before it speaks TLS.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    Postgres,
    MySql,
}

/// Speaks TLS with a certificate in front of a real server.
struct Front {
    port: u16,
    /// Clients that trusted it.
    trusted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Front {
    async fn open(before: Before, cert: &Path, server: String) -> Self {
        let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
        let key = PrivateKeyDer::from_pem_file(cert.with_extension("key")).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let (port, trusted) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&trusted);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, server, counted) = (acceptor.clone(), server.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    // A client that does not trust it ends the connection.
                    let _ = forward(before, stream, &acceptor, &server, &counted).await;
                });
            }
        });
        Self { port, trusted, task }
    }

    fn trusted(&self) -> usize {
        self.trusted.load(Ordering::Relaxed)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(
    before: Before,
    mut client: TcpStream,
    acceptor: &TlsAcceptor,
    server: &str,
    trusted: &AtomicUsize,
) -> std::io::Result<()> {
    match before {
        Before::Nothing => {}
        Before::Postgres => {
            // SSLRequest, which may also be the beginning of a plain session.
            let mut request = [0; 8];
            client.read_exact(&mut request).await?;
            if request[4..] != [0x04, 0xd2, 0x16, 0x2f] {
                let mut server = TcpStream::connect(server).await?;
                server.write_all(&request).await?;
                return join(client, server).await;
            }
            client.write_all(b"S").await?;
        }
        Before::MySql => {
            // The greeting of the real server, which also offers TLS.
            let mut real = TcpStream::connect(server).await?;
            let mut head = [0; 4];
            real.read_exact(&mut head).await?;
            let mut greeting = vec![0; usize::from(head[0]) | usize::from(head[1]) << 8];
            real.read_exact(&mut greeting).await?;
            let version = greeting.iter().skip(1).position(|byte| *byte == 0).unwrap();
            greeting[1 + version + 1 + 4 + 8 + 1 + 1] |= 0x08;
            client.write_all(&head).await?;
            client.write_all(&greeting).await?;
            let mut request = [0; 36];
            client.read_exact(&mut request).await?;
        }
    }
    let client = acceptor.accept(client).await?;
    trusted.fetch_add(1, Ordering::Relaxed);
    // The packets of MySQL are numbered, and one of them was for this program: it ends here.
    if let Before::MySql = before {
        return Ok(());
    }
    join(client, TcpStream::connect(server).await?).await
}

async fn join(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
) -> std::io::Result<()> {
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// The right certificate, one for another host, and one that is not known.
struct Certificates {
    right: PathBuf,
    other_host: PathBuf,
    unknown: PathBuf,
}

impl Certificates {
    fn make(folder: &Path) -> Self {
        Self {
            right: certificate(folder, "right", "DNS:localhost,IP:127.0.0.1"),
            other_host: certificate(folder, "other", "DNS:other.example"),
            unknown: certificate(folder, "unknown", "DNS:localhost,IP:127.0.0.1"),
        }
    }
}

/// The host and port, and the rest, of the URL of a server.
fn place(variable: &str) -> (String, String, String) {
    let url = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run `make services`"));
    let (scheme, rest) = url.split_once("://").unwrap();
    let (login, rest) = rest.rsplit_once('@').unwrap();
    let (place, path) = rest.split_once('/').unwrap();
    (format!("{scheme}://{login}"), place.into(), path.into())
}

/// What `doctor` finds about a store.
fn finding(store: &str) -> String {
    let doctor = postrider(&["doctor", "--store", store, "-o", "json"]);
    let found: Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    let store = found.as_array().unwrap().iter().find(|one| one["check"] == "store").unwrap();
    format!("{} {}", store["ok"], store["finding"].as_str().unwrap())
}

/// S23: PostgreSQL with the right certificate is trusted; with that of another authority or another host it is refused, by default
/// if other machines are on the way. An insecure mode is written in the URL, and is a warning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_of_postgres_is_refused() {
    let database = Database::make(Kind::Sqlite).await;
    let certificates = Certificates::make(database.folder());
    let (login, server, path) = place("POSTRIDER_TEST_POSTGRES");
    let url = |front: &Front, host: &str, options: &str| format!("{login}@{host}:{}/{path}?{options}", front.port);
    let verify = |ca: &Path| format!("sslmode=verify-full&sslrootcert={}", ca.display());

    let front = Front::open(Before::Postgres, &certificates.right, server.clone()).await;
    let found = finding(&url(&front, "localhost", &verify(&certificates.right)));
    assert!(found.starts_with("true") && front.trusted() > 0, "{found}");
    let trusted = front.trusted();
    let found = finding(&url(&front, "localhost", &verify(&certificates.unknown)));
    assert!(found.starts_with("false") && front.trusted() == trusted, "another authority: {found}");
    let found = finding(&url(&front, "0.0.0.0", ""));
    assert!(
        found.starts_with("false") && found.contains("sslmode=verify-full") && front.trusted() == trusted,
        "{found}"
    );
    let other = Front::open(Before::Postgres, &certificates.other_host, server).await;
    let found = finding(&url(&other, "localhost", &verify(&certificates.other_host)));
    assert!(found.starts_with("false") && other.trusted() == 0, "another host: {found}");

    let real = Database::make(Kind::Postgres).await;
    let (_, name) = real.url.rsplit_once('/').unwrap();
    let insecure = format!("{login}@0.0.0.0:{}/{name}?sslmode=require", other.port);
    let server = Process::start(&Database::at(insecure, database.folder()), &[]);
    server.stop();
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    assert!(other.trusted() > 0 && log.contains("certificate of the database is not verified"), "{log}");
    real.drop().await;
    database.drop().await;
}

/// S23: the same for MySQL and MariaDB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_of_mysql_is_refused() {
    let database = Database::make(Kind::Sqlite).await;
    let certificates = Certificates::make(database.folder());
    let (login, server, path) = place("POSTRIDER_TEST_MYSQL");
    let url = |front: &Front, host: &str, options: &str| format!("{login}@{host}:{}/{path}?{options}", front.port);
    let verify = |ca: &Path| format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={}", ca.display());

    let front = Front::open(Before::MySql, &certificates.right, server.clone()).await;
    finding(&url(&front, "localhost", &verify(&certificates.right)));
    let trusted = front.trusted();
    assert!(trusted > 0, "the right one is trusted");
    let found = finding(&url(&front, "localhost", &verify(&certificates.unknown)));
    assert!(found.starts_with("false") && front.trusted() == trusted, "another authority: {found}");
    let found = finding(&url(&front, "0.0.0.0", ""));
    assert!(found.contains("ssl-mode=VERIFY_IDENTITY") && front.trusted() == trusted, "by default: {found}");
    let other = Front::open(Before::MySql, &certificates.other_host, server).await;
    let found = finding(&url(&other, "localhost", &verify(&certificates.other_host)));
    assert!(found.starts_with("false") && other.trusted() == 0, "another host: {found}");
    finding(&url(&other, "0.0.0.0", "ssl-mode=REQUIRED"));
    assert!(other.trusted() > 0, "an insecure mode is spelled out");
    database.drop().await;
}

/// S23: the broker is trusted with the right certificate only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_of_rabbitmq_is_refused() {
    let database = Database::make(Kind::Sqlite).await;
    let certificates = Certificates::make(database.folder());
    let (login, server, path) = place("POSTRIDER_TEST_RABBITMQ");
    let login = login.replace("amqp://", "amqps://");
    for (shown, known, is_trusted) in [
        (&certificates.right, &certificates.right, true),
        (&certificates.right, &certificates.unknown, false),
        (&certificates.other_host, &certificates.other_host, false),
    ] {
        let front = Front::open(Before::Nothing, shown, server.clone()).await;
        let broker = format!("{login}@localhost:{}/{path}", front.port);
        let variables = [("SSL_CERT_FILE", known.to_str().unwrap())];
        let store = Database::make(Kind::Sqlite).await;
        let server = Process::start_with_environment(&store, &["--broker", &broker], &variables);
        let wanted = if is_trusted { "connected" } else { "away" };
        let asking = async {
            loop {
                let health = server.admin(Method::GET, "/health", Value::Null, 200).await;
                if health["broker"]["state"] == wanted {
                    return health;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        let health = tokio::time::timeout(std::time::Duration::from_secs(60), asking).await.expect(wanted);
        assert_eq!(front.trusted() > 0, is_trusted, "{health}");
        server.kill();
        store.drop().await;
    }
    database.drop().await;
}

/// S23: a webhook is sent to a receiver with the right certificate only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_of_a_webhook_is_refused() {
    let database = Database::make(Kind::Sqlite).await;
    let certificates = Certificates::make(database.folder());
    let secret = format!("webhook.secret=whsec_{}", crate::webhooks::SECRET);
    for (shown, known, is_trusted) in [
        (&certificates.right, &certificates.right, true),
        (&certificates.right, &certificates.unknown, false),
        (&certificates.other_host, &certificates.other_host, false),
    ] {
        let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = Front::open(Before::Nothing, shown, receiver.local_addr().unwrap().to_string()).await;
        let variables = [("SSL_CERT_FILE", known.to_str().unwrap())];
        let store = Database::make(Kind::Sqlite).await;
        let set = ["--set", &secret, "--set", "webhook.allow-hosts=localhost"];
        let server = Process::start_with_environment(&store, &set, &variables);
        let endpoint = json!({ "endpoint": format!("https://localhost:{}/hook", front.port) });
        server.admin(Method::PUT, "/subscriptions/order.paid/mailer", endpoint, 200).await;
        server
            .admin(Method::POST, "/events", json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202)
            .await;
        let sent = async {
            if is_trusted {
                crate::webhooks::receive(&receiver, "204 No Content").await;
                return;
            }
            loop {
                let shown = server.admin(Method::GET, "/events/e", Value::Null, 200).await;
                if shown["lastError"].as_str().is_some_and(|error| error.contains("certificate")) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), sent).await.expect("an attempt");
        assert_eq!(front.trusted() > 0, is_trusted);
        server.kill();
        store.drop().await;
    }
    database.drop().await;
}
