//! What a redrive of many events writes, made of what was decided: the same for every SQL store.

use serde::Serialize;
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::redrive::{RedriveRules, Refusal, decide};
use crate::status::Record;
use crate::subscription::StoredSubscription;

/// What is asked of some events.
pub(super) struct Ask<'a> {
    pub(super) consumer: Option<&'a str>,
    pub(super) rules: &'a RedriveRules,
    pub(super) subscriptions: &'a [StoredSubscription],
}

#[derive(Serialize)]
struct DeliveryRow<'a> {
    seq: i64,
    lane: &'a str,
    target: &'a str,
    shard: u8,
}

#[derive(Serialize)]
struct ExpectedRow<'a> {
    seq: i64,
    consumer: &'a str,
}

/// What is to be written for those that may be redriven.
pub(super) struct Plan {
    /// The events, in order.
    pub(super) seqs: Vec<i64>,
    /// The parameter of `redrive_many.sql`.
    pub(super) deliveries: String,
    /// The parameter of `redrive_expect.sql`; None: nobody new reports.
    pub(super) expected: Option<String>,
    /// Lanes, keys and seqs of what later events of a key waited behind.
    pub(super) keys: Vec<(String, String, i64)>,
    /// What became of each event that was asked about.
    pub(super) answers: Vec<(i64, std::result::Result<(), Refusal>)>,
}

impl Plan {
    /// Decides on the rows of locked events.
    pub(super) fn of(records: &[Record], ask: &Ask<'_>, now: OffsetDateTime) -> Result<Self> {
        let decided: Vec<_> =
            records.iter().map(|one| (one, decide(one, ask.consumer, ask.subscriptions, ask.rules, now))).collect();
        let (mut seqs, mut deliveries, mut expected, mut keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (record, targets) in &decided {
            let Ok(targets) = targets else { continue };
            let seq = record.sequence;
            seqs.push(seq);
            for target in targets {
                deliveries.push(DeliveryRow {
                    seq,
                    lane: &target.lane,
                    target: &target.target,
                    shard: record.envelope.shard(),
                });
                if target.newcomer {
                    expected.push(ExpectedRow { seq, consumer: &target.target });
                }
                keys.extend(record.envelope.key.as_ref().map(|key| (target.lane.clone(), key.clone(), seq)));
            }
        }
        Ok(Self {
            deliveries: serde_json::to_string(&deliveries).map_err(Error::Encode)?,
            expected: match expected.is_empty() {
                true => None,
                false => Some(serde_json::to_string(&expected).map_err(Error::Encode)?),
            },
            seqs,
            keys,
            answers: decided.into_iter().map(|(one, targets)| (one.sequence, targets.map(|_| ()))).collect(),
        })
    }
}
