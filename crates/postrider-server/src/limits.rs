//! How much of anything a caller may send or ask for, each with its reason. What is said of one event stands in
//! [`postrider::limits`].

use std::time::Duration;

pub(crate) use postrider::limits::{BATCH_EVENTS, CLAIM_DELIVERIES, LABEL_CHARS, NAME_CHARS, PAGE_ROWS};

/// Bytes of a request: four of the largest events, or a long batch of usual ones.
pub(crate) const BODY_BYTES: usize = 4 * 1024 * 1024;
/// How long a body may take to arrive: whoever is slower holds a connection for nothing.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// Results in one settle, extend or release: what one claim can bring.
pub(crate) const RESULTS: usize = CLAIM_DELIVERIES as usize;
/// The longest lease that a consumer may ask for: what takes longer extends it.
pub(crate) const LEASE_SECONDS: u64 = 3600;
/// The longest wait for events, where the configuration does not say less: shorter than what proxies usually allow a silent
/// connection.
pub(crate) const WAIT_SECONDS: u64 = 55;
/// Rows on a page, where the caller does not say.
pub(crate) const PAGE_DEFAULT: u32 = 50;
/// Requests of one caller a second, where the configuration does not say: more than one core answers.
pub(crate) const REQUESTS_PER_SECOND: u32 = 1_000;
/// Wrong credentials from one address a second, on average, before they are not looked at any more.
pub(crate) const WRONG_PER_SECOND: u32 = 1;
/// Callers whose rate is remembered: past that, those who have been silent longest are forgotten.
pub(crate) const REMEMBERED_CALLERS: usize = 10_000;
/// How long a session may lie idle.
pub(crate) const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// How long a session lasts, however much it is used.
pub(crate) const SESSION_LASTS: Duration = Duration::from_secs(8 * 3600);
