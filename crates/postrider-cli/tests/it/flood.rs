//! Clients that send slowly, or too much, and have no token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::{Database, Kind, Process};

const HALF_OPEN: usize = 2_000;
const STALLED: usize = 300;
const CHUNKED: usize = 100;
const CHUNKED_BYTES: usize = 1 << 30;
/// The limits of F58 and of the text of S14.
const MEMORY_MIB: u64 = 300;
const ANSWER: Duration = Duration::from_secs(1);

/// F57, F58, S14: `/livez` answers within a second throughout, memory stays small, and SIGTERM ends the process in time.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the figures are for people who read the test's output")]
async fn a_flood_without_a_token_does_not_slow_other_callers() {
    let database = Database::make(Kind::Sqlite).await;
    std::fs::write(database.folder().join("postrider.toml"), "[server]\nshutdown-seconds = 2\n").unwrap();
    let server = Process::start(&database, &[]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();

    let over = Arc::new(AtomicBool::new(false));
    let probe = tokio::spawn(slowest_answer(server.url.clone(), Arc::clone(&over)));
    let mut open = Vec::new();
    for _ in 0..HALF_OPEN {
        open.push(send(&address, "GET /livez HTTP/1.1\r\nhost: bus\r\nx-slow: ").await);
    }
    for _ in 0..STALLED {
        let head = "POST /api/v1/login HTTP/1.1\r\nhost: bus\r\ncontent-type: application/json\r\n";
        open.push(send(&address, &format!("{head}content-length: 4194304\r\n\r\n{}", " ".repeat(64 * 1024))).await);
    }
    let chunked: Vec<_> = (0..CHUNKED).map(|_| tokio::spawn(send_chunks(address.clone()))).collect();
    let mut taken = 0;
    for one in chunked {
        taken += one.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let (slowest, answers) = probe.await.unwrap();
    let memory = server.peak_memory_mib();
    let began = Instant::now();
    server.stop();
    let stopped = began.elapsed();
    drop(open);
    println!(
        "{HALF_OPEN} half-open, {STALLED} stalled, {CHUNKED} × 1 GiB (of which {} MiB were taken): {answers} answers, the slowest after \
         {slowest:?}; {memory} MiB at most; ended {stopped:?} after SIGTERM",
        taken >> 20
    );
    assert!(slowest < ANSWER, "/livez took {slowest:?}");
    assert!(memory < MEMORY_MIB, "{memory} MiB");
    assert!(stopped < Duration::from_secs(10), "{stopped:?}");
    database.drop().await;
}

/// Asks `/livez` on new connections until it is over. Returns the slowest answer and the number of answers.
async fn slowest_answer(url: String, over: Arc<AtomicBool>) -> (Duration, usize) {
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let (mut slowest, mut answers) = (Duration::ZERO, 0);
    // Slower than the rate limit of one address.
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    while !over.load(Ordering::Relaxed) {
        pace.tick().await;
        let began = Instant::now();
        assert_eq!(client.get(format!("{url}/livez")).send().await.unwrap().status(), 200);
        slowest = slowest.max(began.elapsed());
        answers += 1;
    }
    (slowest, answers)
}

async fn send(address: &str, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have closed it already.
    let _ = stream.write_all(bytes.as_bytes()).await;
    stream
}

/// Sends a body of a gibibyte in chunks, until the server does not take more. Returns how many bytes it took.
async fn send_chunks(address: String) -> usize {
    let head = "POST /api/v1/events HTTP/1.1\r\nhost: bus\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stream = send(&address, head).await;
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let (mut reader, mut writer) = stream.split();
    let mut taken = 0;
    let write = async {
        while taken < CHUNKED_BYTES && writer.write_all(chunk.as_bytes()).await.is_ok() {
            taken += 0x10000;
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        () = write => {}
        _ = reader.read_to_end(&mut answer) => {}
    }
    taken
}
