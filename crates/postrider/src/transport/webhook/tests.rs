//! Tests of webhooks: what an answer means, and which addresses are called.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::dns::Resolve as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::address::Lookup;
use super::*;

#[test]
fn answers_decide_what_follows() {
    let answer = |status: u16, after: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        headers.extend(after.map(|text| (RETRY_AFTER, HeaderValue::from_static(text))));
        judged(StatusCode::from_u16(status).expect("a status"), &headers)
    };
    assert!(answer(200, None).is_ok() && answer(204, None).is_ok());
    assert!(matches!(answer(301, None), Err(Failure::Retry(_))), "no redirect is followed");
    assert!(matches!(answer(500, None), Err(Failure::Retry(_))));
    assert!(matches!(answer(410, None), Err(Failure::Reject(_))));
    let wait = Duration::from_secs(7);
    assert!(matches!(answer(429, Some("7")), Err(Failure::RetryAfter(after, _)) if after == wait));
    assert!(matches!(answer(503, Some("tomorrow")), Err(Failure::Retry(_))));
}

/// F62: a wait in seconds or until a date, also one that has passed, and a number that no type holds.
#[test]
fn a_receiver_asks_for_a_wait_in_seconds_or_until_a_date() {
    let asks = |after: &'static str| {
        let headers = [(RETRY_AFTER, after), (DATE, "Wed, 18 Nov 2026 08:00:00 GMT")];
        let headers = headers.map(|(name, text)| (name, HeaderValue::from_static(text)));
        match judged(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::from_iter(headers)) {
            Err(Failure::RetryAfter(wait, _)) => Some(wait),
            _ => None,
        }
    };
    assert_eq!(asks("0"), Some(Duration::ZERO));
    assert_eq!(asks(" 90 "), Some(Duration::from_secs(90)));
    assert_eq!(asks("99999999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
    assert_eq!(asks("Wed, 18 Nov 2026 08:05:00 GMT"), Some(Duration::from_secs(300)));
    assert_eq!(asks("Tue, 17 Nov 2026 08:00:00 GMT"), Some(Duration::ZERO));
    for nothing in ["", "-1", "1.5", "soon"] {
        assert_eq!(asks(nothing), None, "{nothing}");
    }
}

/// S17, S18: https, and public addresses, also where they are written oddly.
#[test]
fn private_and_plain_endpoints_are_refused_unless_their_host_is_allowed() {
    let with = |hosts: &[&str]| {
        let allow_hosts = hosts.iter().map(ToString::to_string).collect();
        Webhooks::new(WebhookOptions { allow_hosts, ..WebhookOptions::default() }).expect("a client")
    };
    let strict = with(&[]);
    for good in ["https://example.org/hook", "https://93.184.216.34/", "https://[2606:2800:220:1::1]/"] {
        assert!(strict.checked(good).is_ok(), "{good}");
    }
    for bad in [
        "http://example.org/hook",
        "ftp://example.org/",
        "file:///etc/passwd",
        "not a url",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
    ] {
        assert!(strict.checked(bad).is_err(), "{bad}");
    }
    let local = with(&["127.0.0.1", "hooks.internal"]);
    assert!(local.checked("http://127.0.0.1:8080/").is_ok());
    assert!(local.checked("http://hooks.internal/").is_ok());
    assert!(local.checked("http://127.0.0.2/").is_err());
    assert!(local.checked("http://hooks.internal.evil.example/").is_err());
}

/// S18: spellings of private addresses, metadata services and this machine, as browsers, curl and libc read them. None passes.
const SPELLINGS: [&str; 48] = [
    "https://127.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "https://0.0.0.0/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0x7F.1/",
    "https://017700000001/",
    "https://0177.0.0.1/",
    "https://0177.0x0.0.1/",
    "https://00000177.1/",
    "https://127.0.0.1./",
    "https://127.0.0.1:443/",
    "https://user:pass@127.0.0.1/",
    "https://example.org@127.0.0.1/",
    "https://example.org:443@127.0.0.1/",
    "https://127.0.0.1#@example.org/",
    "https://127.0.0.1?@example.org/",
    "https://127.0.0.1\\@example.org/",
    "https:\\\\127.0.0.1\\",
    "https:/127.0.0.1/",
    "https:127.0.0.1/",
    "https://127.0.\t0.1/",
    "https://127.0.0.\n1/",
    " https://127.0.0.1/ ",
    "HTTPS://127.0.0.1/",
    "https://%31%32%37.0.0.1/",
    "https://127。0。0。1/",
    "https://１２７.0.0.1/",
    "https://①②⑦.⓪.⓪.①/",
    "https://10.0.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://100.100.100.200/",
    "https://169.254.169.254/latest/meta-data",
    "https://2852039166/",
    "https://0xA9FEA9FE/",
    "https://0251.0376.0251.0376/",
    "https://192.0.0.192/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[fd00:ec2::254]/",
];

#[tokio::test]
async fn no_spelling_of_a_private_address_passes() {
    for spelling in SPELLINGS.iter().chain(&["https://localhost/", "https://LOCALHOST/"]) {
        let refused = check_endpoint(spelling, &[]).await;
        assert!(refused.as_ref().is_err_and(|why| why.contains("private")), "{spelling}: {refused:?}");
    }
    for (good, why) in [("https://93.184.216.34/", "public"), ("https://[2606:2800:220:1::1]/", "public")] {
        assert_eq!(check_endpoint(good, &[]).await, Ok(()), "{why}");
    }
}

/// A look-up that gives these addresses in turn, and counts.
fn in_turn(answers: Vec<SocketAddr>) -> (Lookup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |_: String| {
        let turn = counted.fetch_add(1, Ordering::Relaxed);
        let answer = answers[turn.min(answers.len() - 1)];
        Box::pin(async move { Ok(vec![answer]) })
    });
    (lookup, asked)
}

fn client(allow_hosts: &[&str], lookup: Lookup) -> Client {
    let allow_hosts: Vec<_> = allow_hosts.iter().map(ToString::to_string).collect();
    let resolver = Resolver::new(allow_hosts.clone()).look_up(lookup);
    let options = WebhookOptions { allow_hosts, ..WebhookOptions::default() };
    Webhooks::with_resolver(options, resolver).expect("a client").0.client.clone()
}

/// S18: a name that is public when it is checked and private when it is called (DNS rebinding) is not called. The address that
/// was checked is the one that is connected to: a call looks its name up once.
#[tokio::test]
async fn a_name_that_becomes_private_is_not_called() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let local = listener.local_addr().expect("its address");
    let public = SocketAddr::from(([93, 184, 216, 34], 0));
    let (lookup, asked) = in_turn(vec![public, local]);
    let checked =
        Resolver::new(Vec::new()).look_up(Arc::clone(&lookup)).resolve("rebind.example".parse().expect("a name"));
    assert_eq!(checked.await.expect("it is public").collect::<Vec<_>>(), [public]);
    let called = client(&[], lookup).post(format!("https://rebind.example:{}/", local.port())).send().await;
    let error = Failure::from(called.expect_err("it is refused")).to_string();
    assert!(error.contains("no address that may be called"), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let came = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(came.is_err(), "nothing connects");

    // A second look-up would give an address where nothing listens.
    let (lookup, asked) = in_turn(vec![local, SocketAddr::from(([127, 0, 0, 2], 1))]);
    let client = client(&["rebind.example"], lookup);
    let calling = client.post(format!("http://rebind.example:{}/", local.port())).send();
    let (answered, ()) = tokio::join!(calling, answer_once(&listener, "204 No Content"));
    assert_eq!(answered.expect("it is answered").status().as_u16(), 204);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

async fn answer_once(listener: &TcpListener, status: &str) {
    let (mut stream, _) = listener.accept().await.expect("a call");
    let mut head = [0; 4096];
    let _ = stream.read(&mut head).await.expect("a request");
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.expect("an answer");
}

/// S17, S18: a redirect is a failure, wherever it leads.
#[tokio::test]
async fn no_redirect_is_followed() {
    let [listener, elsewhere] =
        [TcpListener::bind("127.0.0.1:0").await.expect("one"), TcpListener::bind("127.0.0.1:0").await.expect("other")];
    let url = format!("http://{}/", listener.local_addr().expect("its address"));
    let other = format!("http://{}/", elsewhere.local_addr().expect("its address"));
    let client = Webhooks::new(WebhookOptions::default()).expect("a client").0.client.clone();
    for status in
        ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        for location in [other.as_str(), "http://169.254.169.254/latest/meta-data", "file:///etc/passwd"] {
            let status = format!("{status}\r\nlocation: {location}");
            let (answered, ()) = tokio::join!(client.post(&url).send(), answer_once(&listener, &status));
            let answered = answered.expect("it is answered");
            assert!(answered.status().is_redirection());
            assert!(matches!(judged(answered.status(), answered.headers()), Err(Failure::Retry(_))));
        }
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await.is_err(), "nothing connects");
}
