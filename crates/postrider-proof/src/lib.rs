//! What Postrider survives, shown with real processes that are killed and real links that are cut.
//!
//! The program `worker` produces and consumes, says on stdout where it is, and stops where it is told to, so that a test can
//! kill it in exactly that window. [`proxy`] stands between a program and a server and lets the link fail; [`broker`] is
//! a RabbitMQ that may be filled, stopped and thrown away. The tests
//! judge by SQL of their own what became of the events.

pub mod broker;
pub mod proxy;
