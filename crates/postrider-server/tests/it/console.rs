//! The web console as static files: its page, its base path, its headers. The files are the test's own, so that it needs no Node.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use postrider_server::{BasePath, Console, Options};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::desk::{Desk, read};

const INDEX: &str = "<!doctype html><base href=\"/\" /><title>Postrider</title>";
const SCRIPT: &str = "console.log('a script')";

fn packed(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

fn console() -> Option<Console> {
    let files = [("index.html", INDEX), ("favicon.svg", "<svg/>"), ("assets/index-1a2b.js", SCRIPT)];
    Console::new(files.map(|(name, text)| (name.to_owned(), packed(text).into())))
}

async fn desk(base: &str) -> Desk {
    Desk::with(Options { console: console(), base_path: BasePath::parse(base).unwrap(), ..Options::default() }).await
}

/// What a browser asks for when a person opens an address.
fn open(desk: &Desk, path: &str) -> RequestBuilder {
    desk.client.get(format!("{}{path}", desk.url)).header(ACCEPT, "text/html,application/xhtml+xml,*/*;q=0.8")
}

async fn text(request: RequestBuilder, status: u16) -> String {
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), status);
    response.text().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers()[name].to_str().unwrap()
}

/// D.13: every address outside of the API that is no file is the page; the API and other clients get problems.
#[tokio::test]
async fn an_address_of_the_console_is_its_page() {
    let desk = desk("/").await;
    for path in ["/", "/events", "/events/order-1:paid?tab=payload", "/index.html", "/assets/gone.js", "/apis"] {
        assert_eq!(text(open(&desk, path), 200).await, INDEX, "{path}");
    }
    for path in ["/api", "/api/", "/api/v1/nothing", "/api/v2/events"] {
        read(open(&desk, path).send().await.unwrap(), 404).await;
    }
    let plain = desk.client.get(format!("{}/events", desk.url));
    read(plain.send().await.unwrap(), 404).await;
    let refused = desk.client.get(format!("{}/events", desk.url)).header(ACCEPT, "text/html;q=0");
    read(refused.send().await.unwrap(), 404).await;
    let changing = desk.client.post(format!("{}/events", desk.url)).header(ACCEPT, "text/html");
    read(changing.send().await.unwrap(), 404).await;
    assert_eq!(text(desk.client.get(format!("{}/livez", desk.url)).header(ACCEPT, "text/html"), 200).await, "ok\n");
    desk.close().await;
}

/// A server without the console says how to get it.
#[tokio::test]
async fn a_server_without_the_console_says_how_to_get_it() {
    let desk = Desk::open().await;
    for path in ["/", "/events"] {
        assert!(text(open(&desk, path), 200).await.contains("make console"));
    }
    desk.close().await;
}

/// The routes of other services on the same listener go before the console.
#[tokio::test]
async fn routes_of_other_services_go_first() {
    let more = axum::Router::new().route("/shop/orders", axum::routing::get(async || "orders"));
    let options = Options { console: console(), ..Options::default() };
    let desk = Desk::with_routes(options, more).await;
    assert_eq!(text(open(&desk, "/shop/orders"), 200).await, "orders");
    assert_eq!(text(open(&desk, "/shop/other"), 200).await, INDEX);
    desk.close().await;
}

/// All of the server is below the base path: pages, files, the API and the cookie.
#[tokio::test]
async fn the_whole_server_is_below_its_base_path() {
    let desk = desk("/bus/").await;
    let page = INDEX.replace("href=\"/\"", "href=\"/bus/\"");
    for path in ["/bus", "/bus/", "/bus/events/e1"] {
        assert_eq!(text(open(&desk, path), 200).await, page, "{path}");
    }
    assert_eq!(text(open(&desk, "/bus/assets/index-1a2b.js"), 200).await, SCRIPT);
    for path in ["/", "/busy", "/events", "/api/v1/stats", "/livez"] {
        let outside = open(&desk, path).send().await.unwrap();
        assert_eq!(header(&outside, "x-content-type-options"), "nosniff");
        read(outside, 404).await;
    }
    let within = |path: &str| desk.client.get(format!("{}/bus{path}", desk.url)).bearer_auth(&desk.tokens["viewer"]);
    read(within("/api/v1/events?limit=1").send().await.unwrap(), 200).await;
    read(within("/api/v1/audit").send().await.unwrap(), 403).await;
    let login = desk.client.post(format!("{}/bus/api/v1/login", desk.url));
    let login = login.json(&json!({ "token": desk.tokens["viewer"] })).send().await.unwrap();
    assert!(header(&login, "set-cookie").contains("; Path=/bus; "), "{login:?}");
    desk.close().await;
}

/// S9: the policy of the console, on pages, files and problems.
#[tokio::test]
async fn every_answer_has_the_security_headers() {
    let desk = desk("/").await;
    for path in ["/", "/events", "/assets/index-1a2b.js", "/favicon.svg", "/api/v1/nothing"] {
        let response = open(&desk, path).send().await.unwrap();
        let policy =
            "default-src 'self'; base-uri 'self'; frame-ancestors 'none'; form-action 'self'; object-src 'none'";
        assert_eq!(header(&response, "content-security-policy"), policy, "{path}");
        assert_eq!(header(&response, "x-frame-options"), "DENY");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        assert_eq!(header(&response, "referrer-policy"), "no-referrer");
    }
    desk.close().await;
}

/// Names of assets change with their content, so they are kept for ever; the page is asked for each time.
#[tokio::test]
async fn assets_are_cached_for_ever_and_the_page_is_not() {
    let desk = desk("/").await;
    for (path, caching, kind) in [
        ("/assets/index-1a2b.js", "public, max-age=31536000, immutable", "text/javascript; charset=utf-8"),
        ("/favicon.svg", "no-cache", "image/svg+xml"),
        ("/", "no-cache", "text/html; charset=utf-8"),
        ("/events", "no-cache", "text/html; charset=utf-8"),
    ] {
        let response = open(&desk, path).send().await.unwrap();
        assert_eq!(response.headers()[CACHE_CONTROL], caching, "{path}");
        assert_eq!(response.headers()[CONTENT_TYPE], kind, "{path}");
        let etag = response.headers()[ETAG].clone();
        assert!(!response.text().await.unwrap().is_empty());
        let same = open(&desk, path).header(IF_NONE_MATCH, &etag).send().await.unwrap();
        assert_eq!((same.status().as_u16(), &same.headers()[ETAG]), (304, &etag), "{path}");
        assert_eq!(same.text().await.unwrap(), "");
        let other = open(&desk, path).header(IF_NONE_MATCH, "W/\"other\"").send().await.unwrap();
        assert_eq!(other.status(), 200);
    }
    desk.close().await;
}

/// A client that takes gzip gets the file as it is stored, others get it unpacked; HEAD has no body.
#[tokio::test]
async fn a_file_is_packed_for_those_who_take_it() {
    let desk = desk("/").await;
    let url = format!("{}/assets/index-1a2b.js", desk.url);
    let plain = desk.client.get(&url).send().await.unwrap();
    assert!(!plain.headers().contains_key(CONTENT_ENCODING));
    assert_eq!(plain.text().await.unwrap(), SCRIPT);
    let gzip = desk.client.get(&url).header(ACCEPT_ENCODING, "br, gzip;q=0.8").send().await.unwrap();
    assert_eq!(
        (&gzip.headers()[CONTENT_ENCODING], header(&gzip, "vary")),
        (&"gzip".parse().unwrap(), "accept-encoding")
    );
    let mut unpacked = String::new();
    let bytes = gzip.bytes().await.unwrap();
    flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, SCRIPT);
    for path in ["/", "/events", "/assets/index-1a2b.js"] {
        let head = desk.client.request(Method::HEAD, format!("{}{path}", desk.url)).header(ACCEPT, "text/html");
        let head = head.send().await.unwrap();
        let length: usize = header(&head, "content-length").parse().unwrap();
        assert_eq!((head.status().as_u16(), length > 0), (200, true), "{path}");
        assert_eq!(head.text().await.unwrap(), "");
    }
    desk.close().await;
}

/// S13: no path leads out of the files of the console. Written by hand, because clients tidy such paths up.
#[tokio::test]
async fn no_path_leads_out_of_the_console() {
    let desk = desk("/").await;
    for path in [
        "/../Cargo.toml",
        "/assets/../index.html",
        "/assets/..%2findex.html",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/assets//index-1a2b.js",
        "//etc/passwd",
        "/assets/index-1a2b.js%00.svg",
        "/..\\..\\Cargo.toml",
    ] {
        let mut stream = tokio::net::TcpStream::connect(desk.url.trim_start_matches("http://")).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap();
        assert!(matches!(status, "404" | "400"), "{path}: {answer}");
    }
    desk.close().await;
}
