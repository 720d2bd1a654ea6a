//! Fault tests: killed workers, lost servers, connections cut in the worst moment.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

mod announce;
mod broker;
mod commit;
mod crash;
mod database;
mod growth;
mod operations;
mod outage;
mod proxy;
mod rabbitmq;
mod reconciler;
mod relays;
mod rolling;
mod sessions;
mod shutdown;
mod worker;
