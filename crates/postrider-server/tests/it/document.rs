//! The OpenAPI document: golden, and the same routes as the table.

use std::collections::BTreeSet;
use std::path::Path;

use postrider_server::TABLE;

use super::desk::Desk;

/// G.7: `docs/openapi.json` is what is served. `POSTRIDER_UPDATE=1 cargo test` writes it anew.
#[tokio::test]
async fn the_document_is_golden() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let now = format!("{:#}\n", postrider_server::document());
    if std::env::var_os("POSTRIDER_UPDATE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == now, "docs/openapi.json is not what is served: run this with POSTRIDER_UPDATE=1 and look at it");
    let desk = Desk::open().await;
    let served = desk.client.get(format!("{}/openapi.json", desk.url)).send().await.unwrap().text().await.unwrap();
    assert_eq!(served, golden);
    desk.close().await;
}

/// S3: a route without an entry, or an entry without a route, fails here.
#[test]
fn the_table_and_the_document_have_the_same_routes() {
    let document = postrider_server::document();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            documented.insert((method.to_uppercase(), path.clone()));
        }
    }
    let table: BTreeSet<_> = TABLE.iter().map(|entry| (entry.method.to_string(), entry.path.to_owned())).collect();
    assert_eq!(table.len(), TABLE.len(), "each once");
    assert_eq!(documented, table);
    assert_eq!(document["openapi"], "3.1.0");
}

#[tokio::test]
async fn the_page_links_to_the_document_and_loads_nothing_from_elsewhere() {
    let desk = Desk::open().await;
    let response = desk.client.get(&desk.url).send().await.unwrap();
    assert!(response.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'self'"));
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let page = response.text().await.unwrap();
    assert!(page.contains("href=\"/openapi.json\"") && page.contains("POST /api/v1/events"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"), "{page}");
    desk.close().await;
}
