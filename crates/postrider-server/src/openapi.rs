//! The OpenAPI document: what the handlers declare, and what holds for all of them.

use serde_json::{Map, Value, json};

use crate::access::{Entry, TABLE};
use crate::{limits, problem, routes};

/// The document, as it is served and as `docs/openapi.json` has it.
pub fn document() -> Value {
    let mut document = serde_json::to_value(routes::openapi()).unwrap_or_default();
    document["info"] = json!({
        "title": "Postrider",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Events that ride in your transaction: publish, subscribe, claim and settle, see and mend.",
        "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
    });
    document["components"]["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer", "description": "A token of `postrider tokens create`." },
        "session": {
            "type": "apiKey", "in": "cookie", "name": crate::auth::COOKIE,
            "description": "The session of a browser, begun by `POST /api/v1/login`.",
        },
    });
    for entry in TABLE {
        let method = entry.method.as_str().to_ascii_lowercase();
        if let Some(operation) = document["paths"][entry.path][&method].as_object_mut() {
            complete(operation, entry);
        }
    }
    document
}

/// Adds the roles of the table and the answers of the middleware to an operation.
fn complete(operation: &mut Map<String, Value>, entry: &Entry) {
    let has_body = operation.contains_key("requestBody");
    let has = |operation: &Map<String, Value>, place: &str| {
        let parameters = operation.get("parameters").and_then(Value::as_array);
        parameters.is_some_and(|all| all.iter().any(|one| one["in"] == place))
    };
    let mut problems = vec![
        (429, "Too many requests: ask again after `Retry-After` seconds."),
        (500, "The server's log says why."),
        (503, "The store is away: try again in a moment."),
    ];
    if let Some(roles) = entry.roles {
        let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
        operation.insert("security".into(), json!([{ "bearer": [] }, { "session": [] }]));
        operation.insert("x-roles".into(), json!(roles));
        problems.push((401, "No token, or one that is unknown or revoked."));
        problems.push((403, "The token's role may not do this, or a browser asks for another site."));
    } else {
        operation.insert("security".into(), json!([]));
        if !entry.method.is_safe() {
            problems.push((401, "The token is unknown or revoked."));
            problems.push((403, "A browser asks on behalf of another site."));
        }
    }
    if has_body {
        problems.push((400, "The body is no JSON."));
        problems.push((408, "The body took too long to arrive."));
        problems.push((413, "Larger than the limit."));
        problems.push((415, "The body has another content type."));
        problems.push((422, "A field breaks a rule: `errors` names it."));
    }
    if has(operation, "query") {
        problems.push((400, "A parameter breaks a rule."));
    }
    if has(operation, "path") {
        problems.push((404, "There is nothing by that name."));
    }
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else {
        return;
    };
    for (status, description) in problems {
        responses.entry(status.to_string()).or_insert_with(|| {
            json!({
                "description": description,
                "content": { problem::MEDIA_TYPE: { "schema": { "$ref": "#/components/schemas/Problem" } } },
            })
        });
    }
    responses.sort_keys();
    if has_body {
        operation.insert("x-limits".into(), json!({ "bodyBytes": limits::BODY_BYTES }));
    }
}
