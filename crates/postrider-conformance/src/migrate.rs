//! `migrate`, `schema_version`.

use postrider::prelude::*;
use postrider::{Draft, Enqueued, Error, Outbox};

use crate::Harness;
use crate::steps::*;

/// F42 concurrent migrations: five instances start on an empty database. One migrates, four wait, none fails.
pub async fn five_at_once_on_an_empty_database<H: Harness>(h: H) {
    let instances = h.unmigrated(5).await;
    assert_eq!(instances.len(), 5);
    let one = instances[0].clone();
    let migrations = instances.into_iter().map(|store| async move { store.migrate().await });
    for migrated in together(migrations).await {
        migrated.unwrap();
    }
    let version = one.schema_version().await.unwrap();
    assert_eq!(version.found, version.needed);
    version.check("the store").unwrap();
    let mut tx = one.begin().await.unwrap();
    let draft = Draft::text(TOPIC, "text/plain", "it works");
    let enqueued = Outbox::new(one.clone()).enqueue(&mut *tx, draft).await.unwrap();
    one.commit(tx).await.unwrap();
    assert!(matches!(enqueued, Enqueued::Unheard(_)));
}

/// Without our tables the error says what to do.
pub async fn an_empty_database_is_refused_with_advice<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store has no tables");
    }
    let store = h.unmigrated(1).await.remove(0);
    let mut tx = store.begin().await.unwrap();
    let refused = Outbox::new(store.clone()).enqueue(&mut *tx, draft("e")).await.unwrap_err();
    assert!(matches!(refused, Error::NoTables(_)) && refused.to_string().contains("store.migrate()"), "{refused}");
}

/// A second migration changes nothing and keeps the data.
pub async fn again_changes_nothing<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let before = h.store().schema_version().await.unwrap();
    h.store().migrate().await.unwrap();
    assert_eq!(h.store().schema_version().await.unwrap(), before);
    assert!(before.found > 0);
    assert_eq!(ids(&claim(&h, 1).await), ["e"]);
}

/// Tables from a build with other migrations are detected and not changed.
pub async fn tables_of_another_build_are_refused<H: Harness>(h: H) {
    let another = "UPDATE postrider_migrations SET checksum = \
        (SELECT checksum FROM (SELECT checksum FROM postrider_migrations WHERE version = 2) AS other) WHERE version = 1";
    if h.shell_insert(another).await.is_none() {
        return skipped("this store has no shell");
    }
    for refused in [h.store().migrate().await, h.store().check_schema().await] {
        assert!(matches!(&refused, Err(Error::Unsupported(why)) if why.contains("another build")), "{refused:?}");
    }
}
