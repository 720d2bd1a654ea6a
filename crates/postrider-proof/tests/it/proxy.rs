//! The proxy applies a fault at once. The other tests depend on that.

use std::time::Duration;

use postrider_proof::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes sent after a stall do not arrive, however soon after it they are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_sent_after_a_stall_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::to(listener.local_addr().unwrap()).await.unwrap();
    for round in 0..2_000 {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.set_nodelay(true).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"before").await.unwrap();
        let mut received = [0; 6];
        server.read_exact(&mut received).await.unwrap();

        proxy.stall();
        client.write_all(b"after").await.unwrap();
        if round % 2 == 0 {
            // Gives the bytes time to arrive.
            tokio::time::sleep(Duration::from_micros(round % 7 * 50)).await;
        }
        proxy.reset();
        let mut rest = Vec::new();
        // The read ends with a reset. Only the bytes before it matter.
        let _ = server.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "round {round}: {}", String::from_utf8_lossy(&rest));
    }
}
