//! Fault tests of Postrider, with real processes that are killed and real connections that are cut.
//!
//! The program `worker` produces and consumes events. It prints each point it passes and can block at one, so that a
//! test kills it in exactly that window. [`proxy`] is placed between a program and a server and makes connections fail.
//! [`broker`] provides a RabbitMQ that a test can fill, stop and delete, [`collector`] a collector of spans,
//! [`effect`] the tables that consumers write to. The tests check the result with their own SQL.

pub mod broker;
pub mod collector;
pub mod effect;
pub mod proxy;
