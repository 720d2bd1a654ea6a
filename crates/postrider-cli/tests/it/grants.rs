//! The roles of `postrider migrate print --roles`, on real servers: each can do what its programs do, and no more.

use std::time::Duration;

use postrider::prelude::*;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::{Keys, Prunable, Prune};
use postrider::{
    Consumer, Draft, Enqueued, Failure, Idempotency, Inbox, Jobs, Outbox, RawEvent, Received, Schedule, Service,
};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};
use tokio_util::sync::CancellationToken;

use crate::process::{Database, Kind, Process, RelayProcess};
use crate::{postrider, stderr, stdout};

const ROLES: [&str; 3] = ["postrider_producer", "postrider_relay", "postrider_console"];
const MIGRATOR: &str = "postrider_migrator";

/// A database with the printed roles under names of its own (roles belong to the server), and a login for each.
struct Granted {
    database: Database,
    kind: Kind,
    suffix: String,
}

impl Granted {
    async fn make(kind: Kind) -> Self {
        let database = Database::make(kind).await;
        let granted = Self { database, kind, suffix: uuid::Uuid::new_v4().simple().to_string()[..8].to_owned() };
        let printed = postrider(&["migrate", "print", "--roles", "--store", &granted.database.url]);
        assert!(printed.status.success(), "{}", stderr(&printed));
        let mut script = stdout(&printed);
        granted.run_as(&granted.database.url, &granted.new_migrator(&script)).await.unwrap();
        let up = postrider(&["migrate", "up", "--store", &granted.url(MIGRATOR)]);
        assert!(up.status.success(), "{}", stderr(&up));
        for role in ROLES {
            script = script.replace(role, &granted.name(role));
        }
        granted.run_as(&granted.database.url, &script).await.unwrap();
        for role in ROLES.map(|role| granted.name(role)) {
            let login = match kind {
                Kind::Postgres => format!("CREATE ROLE {role}_l LOGIN IN ROLE {role}"),
                _ => format!(
                    "CREATE USER {role}_l IDENTIFIED BY 'secret'; GRANT {role} TO {role}_l; \
                     SET DEFAULT ROLE {role} FOR {role}_l"
                ),
            };
            granted.run_as(&granted.database.url, &login).await.unwrap();
        }
        granted
    }

    /// Makes the login that migrates: on PostgreSQL the owner of the tables, on MySQL one with the rights that the script lists.
    fn new_migrator(&self, script: &str) -> String {
        let login = format!("{}_l", self.name(MIGRATOR));
        if matches!(self.kind, Kind::Postgres) {
            return format!("CREATE ROLE {login} LOGIN; GRANT CREATE ON SCHEMA public TO {login}");
        }
        let rights = script.split_once("The migrator needs ").and_then(|(_, rest)| rest.split_once('.')).unwrap().0;
        format!("CREATE USER {login} IDENTIFIED BY 'secret'; GRANT {} ON * TO {login}", rights.replace(" and ", ", "))
    }

    fn name(&self, role: &str) -> String {
        // MariaDB allows 32 characters of a user.
        format!("{}_{}", role.trim_start_matches("postrider_"), self.suffix)
    }

    /// The URL of the role's login.
    fn url(&self, role: &str) -> String {
        let mut url = Url::parse(&self.database.url).unwrap();
        url.set_username(&format!("{}_l", self.name(role))).unwrap();
        url.set_password(matches!(self.kind, Kind::MySql).then_some("secret")).unwrap();
        url.into()
    }

    async fn run_as(&self, url: &str, sql: &str) -> sqlx::Result<()> {
        let sql = AssertSqlSafe(sql.to_owned());
        if matches!(self.kind, Kind::Postgres) {
            let mut connection = PgConnection::connect(url).await?;
            sqlx::raw_sql(sql).execute(&mut connection).await?;
        } else {
            let mut connection = MySqlConnection::connect(url).await?;
            sqlx::raw_sql(sql).execute(&mut connection).await?;
        }
        Ok(())
    }

    /// Each statement is refused for lack of a right, and for no other reason.
    async fn denied(&self, role: &str, statements: &[&str]) {
        let everybody = ["CREATE TABLE more (n int)", "DROP TABLE postrider_event", "DELETE FROM postrider_migrations"];
        for sql in statements.iter().chain(&everybody) {
            let error = self.run_as(&self.url(role), sql).await.expect_err(sql);
            let code = error.as_database_error().and_then(|error| error.code()).map(std::borrow::Cow::into_owned);
            // 42501 is PostgreSQL's. MySQL has 42000 for every refusal, with another text for syntax.
            let is_denied = match self.kind {
                // To drop a table one must be its owner.
                Kind::Postgres => code.as_deref() == Some("42501"),
                _ => error.to_string().contains("denied"),
            };
            assert!(is_denied, "{role}: {sql}: {error}");
        }
    }

    async fn drop(self) {
        let names = ROLES.map(|role| self.name(role));
        for role in &names {
            let remove = match self.kind {
                Kind::Postgres => format!("DROP OWNED BY {role}; DROP ROLE {role}_l; DROP ROLE {role}"),
                _ => format!("DROP USER {role}_l; DROP ROLE {role}"),
            };
            self.run_as(&self.database.url, &remove).await.unwrap();
        }
        let migrator = format!("{}_l", self.name(MIGRATOR));
        let remove = match self.kind {
            Kind::Postgres => format!("DROP OWNED BY {migrator}; DROP ROLE {migrator}"),
            _ => format!("DROP USER {migrator}"),
        };
        self.run_as(&self.database.url, &remove).await.unwrap();
        self.database.drop().await;
    }
}

fn paid(id: &str) -> Draft {
    Draft::json("order.paid", &json!({ "orderId": 7 })).unwrap().event_id(id).key("7")
}

/// What a service does that writes events and runs operations with keys.
async fn produce<S: Keys>(store: S) {
    store.migrate().await.expect("there is nothing to do");
    store.check_schema().await.unwrap();
    let outbox = Outbox::new(store.clone());
    let fresh = || Draft::json("order.paid", &json!({ "orderId": 7 })).unwrap();
    let mut tx = store.begin().await.unwrap();
    outbox.enqueue(&mut tx, fresh()).await.unwrap();
    outbox.enqueue(&mut tx, fresh()).await.unwrap();
    outbox.enqueue(&mut tx, paid("known")).await.unwrap();
    assert!(matches!(outbox.enqueue(&mut tx, paid("known")).await.unwrap(), Enqueued::Duplicate(_)));
    outbox.enqueue(&mut tx, fresh().delay(Duration::from_secs(1)).tenant("7").metadata_json("{}")).await.unwrap();
    let unheard = Draft::json("nobody.listens", &json!(1)).unwrap();
    assert!(matches!(outbox.enqueue(&mut tx, unheard).await.unwrap(), Enqueued::Unheard(_)));
    outbox.enqueue_many(&mut tx, [paid("a"), paid("b")]).await.unwrap();
    store.commit(tx).await.unwrap();
    let keys = Idempotency::new(store);
    for replayed in [false, true] {
        let ran = keys.run("order:7", &1, |_| Box::pin(async { Ok::<_, postrider::Error>(7) })).await;
        assert_eq!(ran.unwrap().is_replayed(), replayed);
    }
}

/// Enqueues another event in its own transaction, and rejects one.
struct Points<S>(Outbox<S>);

impl<S: Enlist> Consumer<S> for Points<S> {
    const NAME: &'static str = "points";
    const TOPICS: &'static [&'static str] = &["order.paid", "order.settled"];
    type Event = RawEvent;

    async fn handle(&self, tx: &mut S::Conn, event: Received<RawEvent>) -> Result<(), Failure> {
        let id = event.envelope().event_id.as_str();
        if id == "dead" {
            return Err(Failure::reject("never"));
        }
        self.0.enqueue(tx, Draft::json("points.earned", &json!(id))?).await?;
        event.keep(&json!({ "points": 7 }))?;
        Ok(())
    }
}

/// What a service with consumers does: it delivers, folds, works on bulk operations, runs jobs and prunes.
async fn relay<S: Keys>(store: S) {
    store.migrate().await.expect("there is nothing to do");
    store.check_schema().await.unwrap();
    let (fired, mut firing) = tokio::sync::mpsc::unbounded_channel();
    let job = move |_| {
        let fired = fired.clone();
        async move {
            fired.send(())?;
            Ok("fired".to_owned())
        }
    };
    let jobs = Jobs::new(store.clone()).job("every-second", Schedule::parse("* * * * * *", "UTC").unwrap(), job);
    let inbox = Inbox::new(store.clone()).consumer(Points(Outbox::new(store.clone())));
    inbox.register().await.unwrap();
    let stop = CancellationToken::new();
    let service = Service::new(store.clone()).inbox(inbox).jobs(jobs).run(stop.clone().cancelled_owned());
    let service = tokio::spawn(service);
    firing.recv().await.unwrap();
    loop {
        let counts = store.counts().await.unwrap();
        let open = counts.get("points").map_or(0, |counts| counts.new + counts.processing + counts.failed);
        if open == 0 && store.find("inserted").await.unwrap().is_some_and(|found| !found.consumptions.is_empty()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for what in [Prunable::Events, Prunable::Inbox, Prunable::Keys, Prunable::Figures] {
        store.prune(&Prune { what, older_than: Duration::ZERO, after: 0, limit: 100 }).await.unwrap();
    }
    stop.cancel();
    service.await.unwrap().unwrap();
}

/// What the server does for operators, publishers and pulling consumers.
async fn console(server: &Process) {
    let ask =
        async |method: Method, path: &str, body: Value, status: u16| server.admin(method, path, body, status).await;
    let (get, post, put) = (Method::GET, Method::POST, Method::PUT);
    ask(put.clone(), "/subscriptions/order.paid/pulls", json!({ "via": "pull" }), 200).await;
    ask(put.clone(), "/subscriptions/order.paid/reports", json!({ "via": "external" }), 200).await;
    // The relay's; it registers one more topic itself.
    ask(put, "/subscriptions/order.paid/points", json!({ "via": "local" }), 200).await;
    for id in ["e1", "e2", "e3", "dead"] {
        let event = json!({ "eventId": id, "topic": "order.paid", "payload": 1, "key": id });
        ask(post.clone(), "/events", event.clone(), 202).await;
        ask(post.clone(), "/events", event, 200).await;
    }
    ask(post.clone(), "/events/e1/consumptions", json!({ "consumerId": "reports", "success": false }), 201).await;
    let mut failed = String::new();
    for success in [true, false] {
        let claimed = ask(post.clone(), "/consumers/pulls/claim", json!({ "max": 1 }), 200).await;
        let held = json!({ "deliveryId": claimed["deliveries"][0]["deliveryId"], "leaseToken": claimed["deliveries"][0]["leaseToken"] });
        ask(post.clone(), "/consumers/pulls/extend", json!({ "deliveries": [held] }), 200).await;
        let result = json!({ "deliveryId": held["deliveryId"], "leaseToken": held["leaseToken"], "success": success, "willRetry": false });
        let settled = ask(post.clone(), "/consumers/pulls/settle", json!({ "results": [result] }), 200).await;
        assert_eq!(settled["results"][0]["outcome"], "settled");
        failed = claimed["deliveries"][0]["event"]["eventId"].as_str().unwrap().to_owned();
    }
    ask(post.clone(), &format!("/events/{failed}/redrive"), json!({ "reason": "mended" }), 202).await;
    ask(post.clone(), "/events/e3/expire", json!({ "reason": "a test" }), 202).await;
    ask(post.clone(), "/consumers/pulls/pause", json!({}), 204).await;
    ask(post.clone(), "/consumers/pulls/resume", json!({}), 204).await;
    ask(post.clone(), "/consumers/pulls/rename", json!({ "to": "pullers" }), 200).await;
    let token = ask(post.clone(), "/tokens", json!({ "name": "viewer", "role": "viewer" }), 201).await;
    ask(Method::DELETE, &format!("/tokens/{}", token["tokenId"].as_str().unwrap()), Value::Null, 204).await;
    ask(post, "/login", json!({ "token": server.token() }), 200).await;
    ask(Method::DELETE, "/subscriptions/order.paid/reports?waiting=discard&reason=gone", Value::Null, 204).await;
    for path in ["events?topic=order.paid", "events/e1", "subscriptions", "consumers", "failures", "jobs", "instances"]
    {
        ask(get.clone(), &format!("/{path}"), Value::Null, 200).await;
    }
    for path in ["stats", "audit", "operations", "tokens"] {
        ask(get.clone(), &format!("/{path}"), Value::Null, 200).await;
    }
}

async fn roles_have_what_they_need_and_no_more(kind: Kind) {
    let granted = Granted::make(kind).await;
    let at = |role: &str| Database::at(granted.url(role), granted.database.folder());

    // The console first: its events wait for the relay.
    let server =
        Process::start(&at("postrider_console"), &["--role", "api", "--set", "redrive.sent-older-than-seconds=0"]);
    console(&server).await;
    match kind {
        Kind::Postgres => produce(PostgresStore::connect(&granted.url("postrider_producer")).await.unwrap()).await,
        _ => produce(MySqlStore::connect(&granted.url("postrider_producer")).await.unwrap()).await,
    }
    let insert = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('inserted', 'order.paid', '{}')";
    let again = if matches!(kind, Kind::Postgres) { "ON CONFLICT (event_id) DO NOTHING" } else { "" };
    granted.run_as(&granted.url("postrider_producer"), &format!("{insert} {again}")).await.unwrap();
    match kind {
        Kind::Postgres => relay(PostgresStore::connect(&granted.url("postrider_relay")).await.unwrap()).await,
        _ => relay(MySqlStore::connect(&granted.url("postrider_relay")).await.unwrap()).await,
    }
    let redrive =
        json!({ "kind": "redrive", "filter": { "topic": "order.paid" }, "dryRun": false, "reason": "mended" });
    server.admin(Method::POST, "/operations", redrive, 202).await;
    let relay_database = at("postrider_relay");
    let process = RelayProcess::start(&[&relay_database], "relay.log", &[]);
    loop {
        let operations = server.admin(Method::GET, "/operations", Value::Null, 200).await;
        if operations["operations"][0]["state"] == "DONE" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    process.stop();
    server.stop();
    for log in ["log", "relay.log"] {
        let text = std::fs::read_to_string(granted.database.folder().join(log)).unwrap();
        assert!(!text.contains("denied") && !text.contains("cannot"), "{log}: {text}");
    }

    granted
        .denied(
            "postrider_producer",
            &[
                "DELETE FROM postrider_event",
                "UPDATE postrider_event SET payload = '{}'",
                "DELETE FROM postrider_delivery",
                "UPDATE postrider_delivery SET attempts = 0",
                "SELECT error FROM postrider_consumption",
                "SELECT event_id FROM postrider_inbox",
                "UPDATE postrider_subscription SET enabled = false",
                "DELETE FROM postrider_subscription",
                "SELECT hash FROM postrider_token",
                "SELECT actor FROM postrider_audit",
                "UPDATE postrider_status SET redrives = 0",
            ],
        )
        .await;
    granted
        .denied(
            "postrider_relay",
            &[
                "UPDATE postrider_event SET payload = '{}'",
                "UPDATE postrider_subscription SET enabled = false",
                "DELETE FROM postrider_subscription",
                "DELETE FROM postrider_pause",
                "SELECT hash FROM postrider_token",
                "SELECT hash FROM postrider_session",
                "SELECT actor FROM postrider_audit",
                "DELETE FROM postrider_audit",
            ],
        )
        .await;
    granted
        .denied(
            "postrider_console",
            &[
                "DELETE FROM postrider_event",
                "UPDATE postrider_event SET payload = '{}'",
                "DELETE FROM postrider_consumption",
                "UPDATE postrider_consumption SET success = true",
                "DELETE FROM postrider_inbox",
                "DELETE FROM postrider_token",
                "UPDATE postrider_audit SET actor = 'x'",
                "DELETE FROM postrider_operation",
                "UPDATE postrider_idempotency SET status = 'FAILED'",
            ],
        )
        .await;
    granted.drop().await;
}

/// S28: producer, relay and console on PostgreSQL. `migrate` and `check_schema` need no right to create anything.
#[tokio::test]
async fn postgres_roles_have_what_they_need_and_no_more() {
    roles_have_what_they_need_and_no_more(Kind::Postgres).await;
}

/// S28: the same on MySQL or MariaDB.
#[tokio::test]
async fn mysql_roles_have_what_they_need_and_no_more() {
    roles_have_what_they_need_and_no_more(Kind::MySql).await;
}

/// A program that only inserts needs two rights on one table, also for `ON CONFLICT`.
#[tokio::test]
async fn a_plain_insert_needs_two_rights_on_postgres() {
    let granted = Granted::make(Kind::Postgres).await;
    let login = granted.name("plain");
    let make = format!(
        "CREATE ROLE {login}_l LOGIN; GRANT INSERT ON postrider_event TO {login}_l; \
         GRANT SELECT (event_id) ON postrider_event TO {login}_l"
    );
    granted.run_as(&granted.database.url, &make).await.unwrap();
    let insert = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('e', 'order.paid', '{}') ON CONFLICT (event_id) DO NOTHING";
    for _ in 0..2 {
        granted.run_as(&granted.url("plain"), insert).await.unwrap();
    }
    granted
        .denied("plain", &["SELECT payload FROM postrider_event", "INSERT INTO postrider_mark (event_seq) VALUES (1)"])
        .await;
    granted.run_as(&granted.database.url, &format!("DROP OWNED BY {login}_l; DROP ROLE {login}_l")).await.unwrap();
    granted.drop().await;
}

/// SQLite has no roles, and the answer says what to do instead.
#[test]
fn sqlite_has_no_roles() {
    let refused = postrider(&["migrate", "print", "--roles", "--store", "sqlite://some.db"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("restrict who may read and write the file"), "{}", stderr(&refused));
}
