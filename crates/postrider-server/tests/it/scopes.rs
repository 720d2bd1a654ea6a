//! Tokens with a scope: what lies outside does not exist for them.

use postrider::Scope;
use postrider::store::access::Role;
use postrider_server::secret::{self, Wanted};
use postrider_server::{Entry, Reach, TABLE};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::desk::{Desk, read};

/// Everything of another team is called so.
const OTHER: &str = "outside";

/// Consumers, topics and subscriptions belong to no tenant: their names are shown under a scope of tenants, and no event is.
const NOT_BY_TENANT: [&str; 7] = [
    "/api/v1/consumers",
    "/api/v1/consumers/{consumerId}",
    "/api/v1/consumers/{consumerId}/attempts",
    "/api/v1/search",
    "/api/v1/subscriptions",
    "/api/v1/subscriptions/{topic}/{consumerId}",
    "/api/v1/topics",
];

fn names(name: &str) -> Vec<String> {
    vec![name.into()]
}

fn scopes(name: &str) -> [Scope; 3] {
    [
        Scope { topics: names(&format!("{name}.*")), ..Scope::default() },
        Scope { consumers: names(name), ..Scope::default() },
        Scope { tenants: names(name), ..Scope::default() },
    ]
}

async fn token(desk: &Desk, role: Role, scope: &Scope) -> String {
    let wanted = Wanted { scope: scope.clone(), ..Wanted::new("scoped", role) };
    secret::create(&desk.store, &wanted).await.unwrap().0
}

fn event(name: &str, id: &str) -> Value {
    json!({ "eventId": id, "topic": format!("{name}.paid"), "payload": 1, "tenantId": name, "key": name,
            "traceId": format!("{name}-trace"), "aggregateType": name, "aggregateId": name })
}

/// Two teams, each with a consumer, an event and a bulk operation. Returns the operation of the other team.
async fn two_teams(desk: &Desk) -> String {
    let mut operation = String::new();
    for name in ["inside", OTHER] {
        desk.subscribe(&format!("{name}.paid"), name, json!({ "via": "pull" })).await;
        desk.publish(event(name, &format!("{name}-event")), 202).await;
        let wanted = json!({ "kind": "redrive", "filter": { "topic": format!("{name}.paid") }, "reason": name });
        let created = desk.ask("operator", "/operations", wanted, 202).await;
        operation = created["operationId"].as_str().unwrap().into();
    }
    operation
}

/// A call that reaches for what belongs to the other team.
fn reach_out(desk: &Desk, entry: &Entry, operation: &str) -> RequestBuilder {
    let path = entry.path.replace("{topic}", "outside.paid").replace("{consumerId}", OTHER);
    let path = path.replace("{eventId}", "outside-event").replace("{traceId}", "outside-trace");
    let path = path.replace("{operationId}", operation).replace("{tokenId}", "t");
    let query = match entry.path {
        "/api/v1/search" => "?q=outside",
        "/api/v1/stories" => "?key=outside",
        "/api/v1/traces/{traceId}" => "?attempts=true",
        _ => "",
    };
    let request = desk.client.request(entry.method.clone(), format!("{}{path}{query}", desk.url));
    let body = match entry.path.trim_start_matches("/api/v1") {
        _ if entry.method == Method::GET => return request,
        "/events" => event(OTHER, "new"),
        "/events/batch" => json!({ "events": [event(OTHER, "new")] }),
        "/events/{eventId}/consumptions" => json!({ "consumerId": OTHER, "success": true }),
        "/events/{eventId}/discard" => json!({ "consumerId": OTHER, "reason": "mine" }),
        "/consumers/{consumerId}/claim" => json!({ "max": 1 }),
        "/consumers/{consumerId}/settle" => json!({ "results": [] }),
        "/consumers/{consumerId}/extend" | "/consumers/{consumerId}/release" => json!({ "deliveries": [] }),
        "/consumers/{consumerId}/rename" => json!({ "to": "inside" }),
        "/consumers/{consumerId}/keys/skip" | "/consumers/{consumerId}/keys/hold" => json!({ "key": OTHER, "reason": "mine" }),
        "/operations" => json!({ "kind": "redrive", "filter": { "topic": "outside.paid" }, "dryRun": true }),
        "/tokens" => json!({ "name": OTHER, "role": "admin" }),
        _ => json!({}),
    };
    request.json(&body)
}

/// S5 G.14: every route of the table, with a token for another team's topics, consumers or tenants: nothing of that team is shown,
/// and nothing of it changes. A route that is about the whole installation does not exist for such a token.
#[tokio::test]
async fn no_route_reaches_beyond_the_scope() {
    let desk = Desk::open().await;
    let operation = two_teams(&desk).await;
    let untouched = async || {
        let shown = desk.show("outside-event").await;
        let subscriptions = read(desk.get("admin", "/subscriptions").await, 200).await;
        (shown["status"].clone(), shown["deliveries"].clone(), shown["consumptions"].clone(), subscriptions)
    };
    let before = untouched().await;
    for scope in scopes("inside") {
        let token = token(&desk, Role::Admin, &scope).await;
        for entry in TABLE.iter().filter(|entry| !matches!(entry.reach, Reach::Open | Reach::Own)) {
            // It does not end; a test of its own reads it.
            if entry.path == "/api/v1/stream" {
                continue;
            }
            let what = format!("{} {} under {scope:?}", entry.method, entry.path);
            let answer = reach_out(&desk, entry, &operation).bearer_auth(&token).send().await.unwrap();
            let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
            if entry.reach == Reach::Whole {
                assert_eq!(status, 404, "{what}: {text}");
            } else if status == 200 && entry.path == "/api/v1/operations" && entry.method == Method::POST {
                assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["matching"], 0, "{what}");
            } else if status == 200 && !scope.tenants.is_empty() && NOT_BY_TENANT.contains(&entry.path) {
                assert!(!text.contains("outside-event") && !text.contains("outside-trace"), "{what}: {text}");
            } else if status == 200 {
                assert!(entry.method == Method::GET && !text.contains(OTHER), "{what}: {text}");
            } else {
                assert_eq!(status, 404, "{what}: {text}");
            }
        }
    }
    assert_eq!(untouched().await, before);
    desk.close().await;
}

/// S5 G.14: what lies inside is there as for any token.
#[tokio::test]
async fn a_scope_shows_what_is_inside() {
    let desk = Desk::open().await;
    two_teams(&desk).await;
    for scope in scopes("inside") {
        let token = token(&desk, Role::Admin, &scope).await;
        let get = async |path: &str| {
            let request = desk.client.get(format!("{}/api/v1{path}", desk.url)).bearer_auth(&token);
            read(request.send().await.unwrap(), 200).await
        };
        let listed = get("/events").await;
        assert_eq!(listed["events"].as_array().unwrap().len(), 1, "{scope:?}");
        assert_eq!(listed["events"][0]["eventId"], "inside-event");
        assert_eq!(get("/events/inside-event").await["topic"], "inside.paid");
        assert_eq!(get("/counts").await["total"], json!({ "value": 1, "exact": true }), "{scope:?}");
        assert_eq!(get("/traces/inside-trace").await["events"][0]["eventId"], "inside-event");
        assert_eq!(get("/subscriptions").await["subscriptions"].as_array().unwrap().iter()
            .filter(|one| one["consumerId"] == "inside").count(), 1);
        let session = get("/session").await;
        assert_eq!(session["scope"]["consumers"], json!(scope.consumers));
        assert_eq!((&session["scope"]["topics"], &session["scope"]["tenants"]), (&json!(scope.topics), &json!(scope.tenants)));
    }
    let [topics, consumers, tenants] = scopes("inside");
    for scope in [&topics, &consumers] {
        let token = token(&desk, Role::Consumer, scope).await;
        let claim = desk.client.post(format!("{}/api/v1/consumers/inside/claim", desk.url)).bearer_auth(&token);
        let claimed = read(claim.json(&json!({ "max": 1 })).send().await.unwrap(), 200).await;
        let one = &claimed["deliveries"][0];
        assert_eq!(one["event"]["eventId"], "inside-event", "{scope:?}");
        let given_back = json!({ "deliveries": [{ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"] }] });
        let release = desk.client.post(format!("{}/api/v1/consumers/inside/release", desk.url)).bearer_auth(&token);
        read(release.json(&given_back).send().await.unwrap(), 200).await;
    }
    // An event that names no tenant belongs to the only tenant of its token.
    let token = token(&desk, Role::Publisher, &tenants).await;
    let publish = desk.client.post(format!("{}/api/v1/events", desk.url)).bearer_auth(&token);
    let sent = json!({ "eventId": "mine", "topic": "inside.paid", "payload": 1 });
    read(publish.json(&sent).send().await.unwrap(), 202).await;
    assert_eq!(desk.show("mine").await["tenantId"], "inside");
    desk.close().await;
}

/// G.14: over HTTP a token is created with its scope, listed with it, and stops at its time. Which token published is recorded.
#[tokio::test]
async fn a_token_has_a_scope_and_an_end() {
    let desk = Desk::open().await;
    let soon = (time::OffsetDateTime::now_utc() + time::Duration::hours(1)).unix_timestamp();
    let soon = time::OffsetDateTime::from_unix_timestamp(soon).unwrap();
    let soon = soon.format(&time::format_description::well_known::Rfc3339).unwrap();
    let wanted = json!({ "name": "shop", "role": "publisher", "topics": ["order.*"], "tenants": ["7"], "expiresAt": soon });
    let made = desk.ask("admin", "/tokens", wanted, 201).await;
    assert_eq!(made["scope"], json!({ "consumers": [], "topics": ["order.*"], "tenants": ["7"] }));
    assert!(made["expiresAt"].as_str().unwrap().starts_with(&soon[..16]), "{made}");
    let listed = read(desk.get("admin", "/tokens").await, 200).await;
    let listed = listed["tokens"].as_array().unwrap().iter().find(|one| one["name"] == "shop").unwrap().clone();
    assert_eq!(listed["scope"], made["scope"]);

    desk.subscribe("order.paid", "points", json!({})).await;
    let token = made["secret"].as_str().unwrap();
    let publish = async |initiator: Value| {
        let request = desk.client.post(format!("{}/api/v1/events", desk.url)).bearer_auth(token);
        let event = json!({ "eventId": "e", "topic": "order.paid", "payload": 1, "initiator": initiator });
        request.json(&event).send().await.unwrap().status().as_u16()
    };
    assert_eq!(publish(json!({ "tokenId": "forged" })).await, 422, "only the server says which token it was");
    assert_eq!(publish(json!({ "service": "billing" })).await, 202);
    let shown = desk.show("e").await;
    assert_eq!(shown["initiator"]["service"], "billing");
    assert_eq!(shown["initiator"]["tokenId"], made["tokenId"]);

    for wrong in [
        json!({ "name": "n", "role": "viewer", "topics": ["*"] }),
        json!({ "name": "n", "role": "publisher", "consumers": ["points"] }),
        json!({ "name": "n", "role": "viewer", "expiresAt": "2020-01-01T00:00:00Z" }),
    ] {
        desk.ask("admin", "/tokens", wrong, 422).await;
    }
    postrider::testing::Age::age(&desk.store, std::time::Duration::from_secs(2 * 3600)).await.unwrap();
    assert_eq!(publish(json!({})).await, 401, "its time is over");
    desk.close().await;
}

/// S5: a stream has only what is inside.
#[tokio::test]
async fn a_stream_keeps_to_the_scope() {
    let desk = Desk::open().await;
    two_teams(&desk).await;
    let [topics, ..] = scopes("inside");
    let token = token(&desk, Role::Viewer, &topics).await;
    let stream = desk.client.get(format!("{}/api/v1/stream", desk.url)).bearer_auth(&token);
    let mut stream = stream.send().await.unwrap();
    let mut seen = String::new();
    // The consumers are sent at once, when the first look is over.
    while !seen.contains("\"consumerId\":\"inside\"") {
        seen += std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
    }
    desk.publish(event(OTHER, "outside-second"), 202).await;
    desk.publish(event("inside", "inside-second"), 202).await;
    while !seen.contains("inside-second") {
        seen += std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
    }
    assert!(!seen.contains(OTHER) && !seen.contains("event: stats"), "{seen}");
    desk.close().await;
}
