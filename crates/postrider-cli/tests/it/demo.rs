//! `postrider demo`, as a newcomer meets it: started, looked at, stopped, and started again.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::Process;
use crate::{postrider, stderr, stdout};

/// How long to wait for what must come: only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that goes when the test has passed.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-demo-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Starts the demo in it; everything that it prints comes back.
    fn start(&self, more: &[&str]) -> (Demo, Vec<String>) {
        let arguments = [&["demo", "--listen", "127.0.0.1:0", "--data-dir", "data"], more].concat();
        let (process, lines) = Process::spawn(&arguments, &self.0, "Do the shop's books balance?");
        (Demo { process }, lines)
    }

    fn remove(self) {
        std::fs::remove_dir_all(self.0).unwrap();
    }
}

/// A running demo.
struct Demo {
    process: Process,
}

impl Demo {
    /// A request outside of the API, without a token.
    async fn get(&self, path: &str) -> Value {
        let answer = self.process.client.get(format!("{}{path}", self.process.url)).send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    async fn list(&self, token: &str, query: &str) -> Vec<Value> {
        let listed = self.process.ask(token, Method::GET, &format!("/events?{query}"), Value::Null, 200).await;
        listed["events"].as_array().unwrap().clone()
    }

    /// A counter of the metrics.
    async fn counter(&self, token: &str, name: &str) -> u64 {
        let request = self.process.client.get(format!("{}/metrics", self.process.url)).bearer_auth(token);
        let text = request.send().await.unwrap().text().await.unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_default()
    }

    /// The auditors of both find nothing; how many orders there are.
    async fn books_balance(&self) -> u64 {
        for path in ["/shop/audit", "/inventory/audit"] {
            let audit = self.get(path).await;
            assert_eq!(audit["ok"], true, "{path}: {audit:#}");
        }
        self.get("/shop/audit").await["checked"]["orders"].as_u64().unwrap()
    }

    /// Waits until there are more orders than this.
    async fn sells_more_than(&self, orders: u64) {
        let selling = async {
            while self.get("/shop/audit").await["checked"]["orders"].as_u64().unwrap() <= orders {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(PATIENCE, selling).await.expect("there are more orders");
    }

    /// What cannot be seen yet.
    async fn missing(&self, token: &str) -> Vec<&'static str> {
        let mut missing = Vec::new();
        for (what, query) in [
            ("a consumed event", "status=CONSUMED"),
            ("a retrying event", "status=RETRYING"),
            ("a partial event", "status=PARTIAL"),
            ("a dead event", "deliveryStatus=DEAD"),
        ] {
            if self.list(token, query).await.is_empty() {
                missing.push(what);
            }
        }
        if !self.shows_a_purchase(token).await {
            missing.push("a trace with children");
        }
        if !self.shows_a_released_lock(token).await {
            missing.push("a released lock");
        }
        if self.counter(token, "postrider_consistency_events_repaired_total").await == 0 {
            missing.push("a repaired event");
        }
        missing
    }

    /// Ada's purchase with what the members, the messages and the warehouse have made of it.
    async fn shows_a_purchase(&self, token: &str) -> bool {
        let parcels = self.list(token, "topic=parcel.requested").await;
        let Some(parcel) = parcels.iter().find(|one| one["eventId"] == "adas-parcel") else { return false };
        let path = format!("/traces/{}", parcel["traceId"].as_str().unwrap());
        let trace = self.process.ask(token, Method::GET, &path, Value::Null, 200).await;
        let roots = trace["roots"].as_array().unwrap();
        let Some(purchase) = roots.iter().find(|one| one["topic"] == "order.purchased") else { return false };
        let children: Vec<_> = purchase["children"].as_array().unwrap().iter().map(|one| &one["topic"]).collect();
        ["points.added", "notification.sent", "parcel.requested"].iter().all(|topic| children.contains(&&json!(topic)))
    }

    /// Grace's order is canceled, and holds nothing any more.
    async fn shows_a_released_lock(&self, token: &str) -> bool {
        for event in self.list(token, "topic=order.canceled").await {
            let order = self.get(&format!("/shop/orders/{}", event["aggregateId"].as_str().unwrap())).await;
            if order["userId"] == "grace" && order["status"] == "CANCELED" {
                let locks = order["locks"].as_array().unwrap();
                return locks.len() == 3 && locks.iter().all(|lock| lock["status"] == "RELEASED");
            }
        }
        false
    }
}

/// Everything can be seen that happens to events, and what is printed can be typed.
#[tokio::test]
async fn the_demo_shows_everything_that_happens_to_events() {
    let folder = Folder::make();
    let (demo, lines) = folder.start(&[]);
    let began = Instant::now();
    let (url, token) = (demo.process.url.clone(), demo.process.token().to_owned());
    assert!(lines.contains(&format!("console: {url}/#token={token}")), "{lines:#?}");
    let mut missing = demo.missing(&token).await;
    while !missing.is_empty() && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        missing = demo.missing(&token).await;
    }
    assert!(missing.is_empty(), "after {:?} there is still no {missing:?}", began.elapsed());
    assert!(demo.counter(&token, "postrider_reaper_locks_released_total").await >= 3);

    // The page, and the shop beside the API: open, but to no other site's pages, and its jobs to operators alone.
    let page = demo.process.client.get(&url).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("<title>Postrider"), "the console, or how to get it: {page}");
    let status = async |path: &str, header: (&str, &str)| {
        let request = demo.process.client.post(format!("{url}{path}")).header(header.0, header.1);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("/shop/orders/none/checkout", ("origin", "https://evil.example")).await, 403);
    assert_eq!(status("/shop/orders/none/checkout", ("origin", &url)).await, 404);
    assert_eq!(status("/shop/jobs/reaper/run", ("x-request-id", "1")).await, 401);
    assert_eq!(status("/shop/jobs/reaper/run", ("authorization", &format!("Bearer {token}"))).await, 200);

    // What it says to try, typed as it stands.
    let tries: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("  ")).collect();
    let [export, commands @ ..] = &tries[..] else { panic!("{lines:#?}") };
    assert_eq!(commands.len(), 3, "{lines:#?}");
    let typed = |command: &str| Command::new("sh").args(["-c", &format!("{export}\n{command}")]).output().unwrap();
    let [trace, dead, redrive] = [typed(commands[0]), typed(commands[1]), typed(commands[2])];
    for output in [&trace, &dead, &redrive] {
        assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
    }
    assert!(stdout(&trace).contains("─ order.purchased ") && stdout(&trace).contains("points.added"));
    assert!(stdout(&dead).contains("adas-parcel") && stdout(&dead).contains("the address is unknown"));
    assert!(stderr(&redrive).contains(" redriven, 0 refused"), "{}", stderr(&redrive));
    let path = "/events/adas-parcel";
    let arrives = async {
        while demo.process.admin(Method::GET, path, Value::Null, 200).await["status"] != "CONSUMED" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, arrives).await.expect("sent again, the parcel arrives");

    // A second one in the same folder would get in its way.
    let second = folder.0.join("data").display().to_string();
    let second = postrider(&["demo", "--listen", "127.0.0.1:0", "--data-dir", &second]);
    assert!(second.status.code() == Some(1) && stderr(&second).contains("another demo runs in"), "{}", stderr(&second));
    demo.process.interrupt();
    folder.remove();
}

/// A.14, A.15: a minute of traffic, with failures; stopped, started, killed, started: it goes on, and the books balance.
#[tokio::test]
async fn the_demos_books_balance_after_a_minute_and_it_goes_on_where_it_was_stopped() {
    let folder = Folder::make();
    let more = ["--rate", "5", "--fail-rate", "0.1"];
    let (demo, _) = folder.start(&more);
    let token = demo.process.token().to_owned();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let orders = demo.books_balance().await;
    assert!(orders > 100, "{orders} orders");
    let repaired = demo.counter(&token, "postrider_consistency_events_repaired_total").await;
    assert_eq!(repaired, 1, "nothing was lost but what was lost on purpose");
    demo.process.interrupt();

    let (demo, lines) = folder.start(&more);
    assert_eq!(demo.process.token, None, "a token is printed once");
    assert!(lines.iter().any(|line| line.contains("tokens create me --role admin --store")), "{lines:#?}");
    assert!(demo.books_balance().await >= orders, "it is the same shop");
    demo.sells_more_than(orders + 20).await;
    // The token of the first start still works, and the story is not played again.
    let told = demo.list(&token, "topic=order.purchased&limit=500").await;
    let adas = told.iter().filter(|event| event["initiator"]["userId"] == "ada").count();
    assert!(adas <= 1, "{adas} purchases of ada");
    let orders = demo.books_balance().await;
    demo.process.kill();

    let (demo, _) = folder.start(&more);
    demo.sells_more_than(orders + 20).await;
    demo.books_balance().await;
    let tokens = demo.process.ask(&token, Method::GET, "/tokens", Value::Null, 200).await;
    let valid = tokens["tokens"].as_array().unwrap().iter().filter(|one| one["revokedAt"].is_null());
    assert_eq!(valid.count(), 2, "the first one, and that of the traffic now: {tokens}");
    demo.process.stop();
    folder.remove();
}

/// S1: the shop has no login, so the demo serves this machine only.
#[test]
fn a_demo_that_cannot_be_is_refused() {
    let folder = Folder::make();
    let data = folder.0.join("data").display().to_string();
    let refused = |arguments: &[&str]| {
        let refused = postrider(&[&["demo", "--data-dir", &data], arguments].concat());
        assert!(stdout(&refused).is_empty(), "{}", stdout(&refused));
        (refused.status.code(), stderr(&refused))
    };
    let (code, why) = refused(&["--listen", "0.0.0.0:0", "--set", "behind-proxy=true"]);
    assert!(code == Some(1) && why.contains("can be reached from outside"), "{why}");
    for arguments in [["--rate", "-1"], ["--rate", "many"], ["--fail-rate", "1"]] {
        assert_eq!(refused(&arguments).0, Some(2), "{arguments:?}");
    }
    folder.remove();
}
