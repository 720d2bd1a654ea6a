//! Slow and half-sent requests: they cost others nothing, and a shutdown does not wait for them.

use std::net::SocketAddr;
use std::time::Duration;

use postrider_server::{ConnectionLimits, Options};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::desk::{Desk, read};

/// Far longer than anything here takes, so that only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
const HALF_A_HEAD: &str = "GET /livez HTTP/1.1\r\nhost: desk\r\nx-slow: ";
const HALF_A_BODY: &str =
    "POST /api/v1/login HTTP/1.1\r\nhost: desk\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"tok";

async fn desk(limits: ConnectionLimits) -> Desk {
    Desk::with(Options { connections: limits, ..Options::default() }).await
}

async fn send(desk: &Desk, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(desk)).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

fn address(desk: &Desk) -> SocketAddr {
    desk.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// What the server answers before it closes the connection.
async fn answer_until_closed(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset is an end, too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes the connection");
    String::from_utf8(answer).unwrap()
}

/// F57: half a request, and an answer that is never read, do not delay the shutdown beyond its limit.
#[tokio::test]
async fn a_half_sent_request_does_not_stop_the_shutdown() {
    let desk = desk(ConnectionLimits { shutdown: Duration::from_millis(300), ..ConnectionLimits::default() }).await;
    let half = send(&desk, HALF_A_BODY).await;
    let head = send(&desk, HALF_A_HEAD).await;
    let document = "GET /openapi.json HTTP/1.1\r\nhost: desk\r\n\r\n".repeat(200);
    let unread = send(&desk, &document).await;
    unread.readable().await.unwrap();
    timeout(PATIENCE, desk.close()).await.expect("it ends in time");
    drop((half, head, unread));
}

/// F58, S14: a head and a body have their time.
#[tokio::test]
async fn slow_heads_and_bodies_are_cut() {
    let soon = Duration::from_millis(200);
    let desk = desk(ConnectionLimits { header: soon, body: soon, ..ConnectionLimits::default() }).await;
    let head = send(&desk, HALF_A_HEAD).await;
    let nothing = send(&desk, "").await;
    let body = send(&desk, HALF_A_BODY).await;
    assert!(!answer_until_closed(head).await.contains("200 OK"));
    assert_eq!(answer_until_closed(nothing).await, "");
    let answer = answer_until_closed(body).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    desk.close().await;
}

/// F58: if all places are taken, the oldest connection without a head makes room.
#[tokio::test]
async fn half_sent_heads_make_room_for_others() {
    let limits = ConnectionLimits { connections: 8, per_peer: 8, header: PATIENCE * 2, ..ConnectionLimits::default() };
    let desk = desk(limits).await;
    let mut slow = Vec::new();
    for _ in 0..30 {
        slow.push(send(&desk, HALF_A_HEAD).await);
    }
    let alive = timeout(PATIENCE, desk.client.get(format!("{}/livez", desk.url)).send()).await.unwrap().unwrap();
    assert_eq!(alive.status(), 200);
    assert_eq!(answer_until_closed(slow.remove(0)).await, "");
    // The newest still has its place: the rest of its head is answered.
    let mut newest = slow.pop().unwrap();
    newest.write_all(b"no\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(answer_until_closed(newest).await.starts_with("HTTP/1.1 200 OK"));
    drop(slow);
    desk.close().await;
}

/// S14: one address cannot take the places of others, even with complete requests.
#[tokio::test]
async fn one_peer_does_not_take_every_connection() {
    let limits = ConnectionLimits { connections: 8, per_peer: 2, ..ConnectionLimits::default() };
    let desk = desk(limits).await;
    let bodies = [send(&desk, HALF_A_BODY).await, send(&desk, HALF_A_BODY).await];
    // Both have sent a head, so neither makes room. Their heads are read once a third connection is refused.
    let refused = async {
        let livez = "GET /livez HTTP/1.1\r\nhost: desk\r\nconnection: close\r\n\r\n";
        while !answer_until_closed(send(&desk, livez).await).await.is_empty() {}
    };
    timeout(PATIENCE, refused).await.expect("the third is refused");
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(address(&desk)).await.unwrap();
    other.write_all(b"GET /livez HTTP/1.1\r\nhost: desk\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(answer_until_closed(other).await.starts_with("HTTP/1.1 200 OK"));
    drop(bodies);
    desk.close().await;
}

/// S14: a route without a token takes 4 KiB.
#[tokio::test]
async fn a_login_takes_four_kibibytes() {
    let desk = Desk::open().await;
    let login = async |bytes: usize, expected| {
        let head = r#"{"token":""#;
        let body = format!("{head}{}\"}}", "a".repeat(bytes - head.len() - 2));
        let request = desk.client.post(format!("{}/api/v1/login", desk.url));
        let request = request.header("content-type", "application/json").body(body);
        read(request.send().await.unwrap(), expected).await
    };
    login(4096, 401).await;
    assert_eq!(login(4097, 413).await["code"], json!("tooLarge"));
    desk.close().await;
}
