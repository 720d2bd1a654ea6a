//! The API as its callers meet it: over HTTP, on a database of its own for each test, on every store.
#![allow(missing_docs, clippy::unwrap_used)]

mod database;

/// Compiles the tests once for each store: `on_postgres::…` needs its server, `on_sqlite::…` needs none.
macro_rules! on_each_store {
    ($($name:ident: $database:ident)*) => {
        $(
            #[path = "."]
            #[allow(clippy::duplicate_mod, reason = "each store compiles the tests for its own types")]
            mod $name {
                use crate::database::$database as Database;

                mod access;
                mod audit;
                mod connections;
                mod console;
                mod consumers;
                mod desk;
                mod document;
                mod events;
                mod holders;
                mod hostile;
                mod limits;
                mod injection;
                mod keys;
                mod lists;
                mod mend;
                mod observe;
                mod operations;
                mod problems;
                mod reads;
                mod safety;
                mod scopes;
                mod sessions;
                mod stories;
                mod story;
                mod subscriptions;
            }
        )*
    };
}

on_each_store! {
    on_sqlite: Sqlite
    on_postgres: Postgres
    on_mysql: MySql
}
