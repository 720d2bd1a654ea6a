//! Streams and long polls of tokens that are revoked, and the limit of streams.

use std::time::Duration;

use postrider::prelude::*;
use postrider::store::access::Role;
use postrider_server::secret::{self, Wanted};
use serde_json::json;
use tokio::time::timeout;

use super::desk::{Desk, read};

/// Far longer than the server's look at revoked tokens, and far shorter than a stream or a long poll lasts.
const PATIENCE: Duration = Duration::from_secs(20);

async fn token(desk: &Desk, role: Role) -> (String, String) {
    let (secret, token) = secret::create(&desk.store, &Wanted::new("leaver", role)).await.unwrap();
    (secret, token.token_id)
}

/// F68: a revoked token's streams and long polls end, whether this server revoked it or another program.
#[tokio::test]
async fn what_a_revoked_token_holds_open_ends() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    for by_this_server in [true, false] {
        let (viewer, viewer_id) = token(&desk, Role::Viewer).await;
        let (consumer, consumer_id) = token(&desk, Role::Consumer).await;
        let stream = desk.client.get(format!("{}/api/v1/stream", desk.url)).bearer_auth(&viewer);
        let mut stream = stream.send().await.unwrap();
        stream.chunk().await.unwrap().expect("the stream goes on");
        let poll = desk.client.post(format!("{}/api/v1/consumers/points/claim", desk.url)).bearer_auth(&consumer);
        let poll = tokio::spawn(poll.json(&json!({ "max": 1, "waitSeconds": 55 })).send());
        // The poll has been counted as a use of the token: it has arrived.
        while desk.store.tokens().await.unwrap().iter().all(|one| one.token_id != consumer_id || one.last_used_at.is_none()) {
            tokio::task::yield_now().await;
        }
        for id in [&viewer_id, &consumer_id] {
            if by_this_server {
                let path = format!("/api/v1/tokens/{id}");
                read(desk.request("admin", reqwest::Method::DELETE, &path).send().await.unwrap(), 204).await;
            } else {
                assert!(desk.store.revoke_token(id).await.unwrap());
            }
        }
        let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
        timeout(PATIENCE, ended).await.expect("the stream ends");
        let answer = timeout(PATIENCE, poll).await.expect("the long poll ends").unwrap().unwrap();
        read(answer, 401).await;
    }
    desk.close().await;
}

/// F68: one token cannot take every stream.
#[tokio::test]
async fn one_token_cannot_take_every_stream() {
    let desk = Desk::open().await;
    let mut streams = Vec::new();
    let refused = loop {
        let answer = desk.get("viewer", "/stream").await;
        if answer.status() != 200 {
            break answer;
        }
        streams.push(answer);
    };
    assert_eq!(streams.len(), 20);
    assert_eq!(read(refused, 429).await["code"], "tooManyStreams");
    let other = desk.get("operator", "/stream").await;
    assert_eq!(other.status(), 200, "others have their own");
    drop((streams, other));
    desk.close().await;
}
