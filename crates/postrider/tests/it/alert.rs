//! Alarms over HTTP.

use postrider::alert::{Alarm, Alert, WebhookAlert};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn dead() -> Alarm {
    Alarm::Dead {
        event_id: "order:7:paid".into(),
        topic: "order.paid".into(),
        trace_id: None,
        request_id: None,
        key: Some("7".into()),
        lane: "points".into(),
        attempts: 10,
        error: "no such account".into(),
        code: None,
        held: Some(3),
    }
}

/// Answers one request with `status`, and returns what was sent.
async fn answer(listener: TcpListener, status: &str) -> String {
    let (mut stream, _) = listener.accept().await.expect("is called");
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&request).contains("attempts\":10") {
        let n = stream.read(&mut buffer).await.expect("reads");
        assert!(n > 0, "the request ended early: {}", String::from_utf8_lossy(&request));
        request.extend_from_slice(&buffer[..n]);
    }
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nlocation: http://127.0.0.1:1/\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.expect("answers");
    String::from_utf8_lossy(&request).into_owned()
}

/// A.5: an alarm names the event, the place and the reason, for programs and for people.
#[tokio::test]
async fn a_webhook_gets_the_alarm_as_json() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let alert = WebhookAlert::new(&format!("http://{}/hook", listener.local_addr().expect("bound"))).expect("a URL");
    let alarm = dead();
    let (request, told) = tokio::join!(answer(listener, "204 No Content"), alert.alert(&alarm));
    told.expect("is passed on");
    assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
    let body = request.split("\r\n\r\n").nth(1).expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["alarm"]["kind"], "dead");
    assert_eq!(body["alarm"]["eventId"], "order:7:paid");
    assert_eq!(body["alarm"]["key"], "7");
    assert!(body["alarm"].get("code").is_none(), "there is none");
    assert_eq!(body["text"], "order.paid order:7:paid is DEAD for points after 10 attempts: no such account");
}

/// An alarm that could not be sent is an error, and a redirect is not followed.
#[tokio::test]
async fn a_webhook_that_refuses_is_an_error() {
    for status in ["500 Internal Server Error", "302 Found"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let alert = WebhookAlert::new(&format!("http://{}/", listener.local_addr().expect("bound"))).expect("a URL");
        let alarm = dead();
        let (_, told) = tokio::join!(answer(listener, status), alert.alert(&alarm));
        assert!(told.is_err(), "{status}");
    }
    let refused = WebhookAlert::new("ftp://example.org").expect_err("no HTTP");
    assert_eq!(refused.to_string(), "alert url must begin with https:// or http://, is \"ftp://example.org\"");
}
