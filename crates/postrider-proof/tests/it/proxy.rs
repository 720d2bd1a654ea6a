//! The proxy keeps its word at once: a proof that blames a fault stands on the fault being there.

use std::time::Duration;

use postrider_proof::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is said after a link fell silent is not heard, however soon it is said: only what was said before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_said_after_a_stall_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::to(listener.local_addr().unwrap()).await.unwrap();
    for round in 0..2_000 {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.set_nodelay(true).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"before").await.unwrap();
        let mut heard = [0; 6];
        server.read_exact(&mut heard).await.unwrap();

        proxy.stall();
        client.write_all(b"after").await.unwrap();
        if round % 2 == 0 {
            // Given time to be heard, and not.
            tokio::time::sleep(Duration::from_micros(round % 7 * 50)).await;
        }
        proxy.reset();
        let mut rest = Vec::new();
        // Ends with a reset; what matters is what came before it.
        let _ = server.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "round {round}: {}", String::from_utf8_lossy(&rest));
    }
}
