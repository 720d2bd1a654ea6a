//! Limits of requests, each with its reason. Limits of one event are in [`postrider::limits`].

use std::time::Duration;

pub(crate) use postrider::limits::{BATCH_EVENTS, CLAIM_DELIVERIES, LABEL_CHARS, NAME_CHARS, PAGE_ROWS};

/// Bytes of a request: four of the largest events, or a long batch of usual ones.
pub(crate) const BODY_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a settle. Error texts are cut at a thousand characters, but a program that sends a whole log as its error must not
/// keep the other results of its call from counting.
pub(crate) const SETTLE_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a request that needs no token: a login, and nothing longer.
pub(crate) const OPEN_BODY_BYTES: usize = 4 * 1024;
/// Results in one settle, extend or release: as many as one claim returns.
pub(crate) const RESULTS: usize = CLAIM_DELIVERIES as usize;
/// The longest lease of a claim; longer work extends it.
pub(crate) const LEASE_SECONDS: u64 = 3600;
/// The default of the longest wait for events: shorter than the usual idle timeout of proxies.
pub(crate) const WAIT_SECONDS: u64 = 55;
/// The default number of rows on a page.
pub(crate) const PAGE_DEFAULT: u32 = 50;
/// The default number of requests per second and caller: more than one core can answer.
pub(crate) const REQUESTS_PER_SECOND: u32 = 1_000;
/// Wrong credentials per second and address, on average; more are answered with 429.
pub(crate) const WRONG_PER_SECOND: u32 = 1;
/// Callers whose rate is remembered, which bounds the memory. Idle callers are forgotten first.
pub(crate) const REMEMBERED_CALLERS: usize = 10_000;
/// How long a session may be idle.
pub(crate) const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// The longest life of a session, also in constant use.
pub(crate) const SESSION_LASTS: Duration = Duration::from_secs(8 * 3600);
