//! When an alert begins and when it is over. Pure: the loop reads the facts and acts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::notice::{AlertDetails, AlertKind};
use crate::presence::BrokerReport;

const HOUR: time::Duration = time::Duration::HOUR;
/// Two readings of the time at which a lane's oldest delivery was due differ by this much at most.
const SAME_HEAD: time::Duration = time::Duration::SECOND;

/// From when on an alert fires.
#[derive(Debug, Clone)]
pub struct AlertRules {
    /// How many deliveries of one consumer may die within an hour before [`AlertKind::Dead`]. It is over when none is dead.
    pub dead_per_hour: u32,
    /// How long a delivery may be due.
    pub oldest: Duration,
    /// How long due deliveries may wait without any claim.
    pub stalled: Duration,
    /// How long the broker may be blocked or unreachable.
    pub broker_blocked: Duration,
    /// How long the store may give no answer.
    pub store_away: Duration,
}

impl Default for AlertRules {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            dead_per_hour: 1,
            oldest: Duration::from_secs(300),
            stalled: minute,
            broker_blocked: minute,
            store_away: minute,
        }
    }
}

/// What the rules depend on.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) now: OffsetDateTime,
    pub(super) lanes: BTreeMap<String, LaneFacts>,
    pub(super) dead: Vec<Dead>,
    /// The broker of each live process, with the process.
    pub(super) brokers: Vec<(String, BrokerReport)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LaneFacts {
    pub(crate) waiting: u64,
    /// How long its oldest delivery has been due.
    pub(crate) oldest: Option<Duration>,
    /// Whether a process holds a delivery of it.
    pub(crate) leased: bool,
    pub(crate) paused: bool,
}

/// A delivery that was given up, or an event that a remote consumer has given up.
#[derive(Debug, Clone)]
pub(super) struct Dead {
    pub(super) consumer: String,
    pub(super) event_id: String,
    pub(super) code: Option<String>,
    pub(super) key: Option<String>,
    pub(super) died_at: OffsetDateTime,
    pub(super) held: u64,
}

/// What may be wrong.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) kind: AlertKind,
    /// The consumer; empty for the broker.
    pub(super) subject: Option<String>,
    /// Whether an alert begins. Otherwise it only keeps one open that has begun.
    pub(super) begins: bool,
    pub(super) details: AlertDetails,
}

/// Lanes that no process claims from: since when, and when their oldest delivery was due.
pub(crate) type Stalls = BTreeMap<String, (Instant, OffsetDateTime)>;

/// Everything that is wrong, or was and is not over yet. What is missing is over.
pub(super) fn conditions(facts: &Facts, rules: &AlertRules, stalls: &mut Stalls) -> Vec<Condition> {
    let mut found = dead(facts, rules);
    found.extend(oldest(facts, rules));
    found.extend(stalled(facts, rules, stalls));
    found.extend(broker(facts, rules));
    found
}

fn dead(facts: &Facts, rules: &AlertRules) -> Vec<Condition> {
    let mut by_consumer: BTreeMap<&str, Vec<&Dead>> = BTreeMap::new();
    for dead in &facts.dead {
        by_consumer.entry(&dead.consumer).or_default().push(dead);
    }
    let condition = |(consumer, dead): (&str, Vec<&Dead>)| {
        let last_hour = dead.iter().filter(|one| one.died_at > facts.now - HOUR).count();
        let last = dead.iter().max_by_key(|one| one.died_at);
        Condition {
            kind: AlertKind::Dead,
            subject: Some(consumer.into()),
            begins: last_hour >= rules.dead_per_hour as usize,
            details: AlertDetails {
                consumer: Some(consumer.into()),
                event_id: last.map(|one| one.event_id.clone()),
                code: last.and_then(|one| one.code.clone()),
                key: last.and_then(|one| one.key.clone()),
                held: Some(dead.iter().map(|one| one.held).sum()),
                figures: figures(json!({ "dead": dead.len(), "diedInTheLastHour": last_hour })),
            },
        }
    };
    by_consumer.into_iter().map(condition).collect()
}

fn oldest(facts: &Facts, rules: &AlertRules) -> Vec<Condition> {
    let late =
        facts.lanes.iter().filter_map(|(lane, of)| Some((lane, of, of.oldest.filter(|age| *age >= rules.oldest)?)));
    late.map(|(lane, of, age)| Condition {
        kind: AlertKind::Oldest,
        subject: Some(lane.clone()),
        begins: true,
        details: AlertDetails {
            consumer: Some(lane.clone()),
            figures: figures(json!({ "oldestSeconds": age.as_secs(), "waiting": of.waiting, "paused": of.paused })),
            ..AlertDetails::default()
        },
    })
    .collect()
}

fn stalled(facts: &Facts, rules: &AlertRules, stalls: &mut Stalls) -> Vec<Condition> {
    let standing = standing_lanes(&facts.lanes, facts.now, stalls).into_iter();
    let condition = |lane: StandingLane<'_>| Condition {
        kind: AlertKind::Stalled,
        subject: Some(lane.name.into()),
        begins: lane.stands >= rules.stalled,
        details: AlertDetails {
            consumer: Some(lane.name.into()),
            figures: figures(json!({ "waiting": lane.waiting, "oldestSeconds": lane.oldest.as_secs() })),
            ..AlertDetails::default()
        },
    };
    standing.map(condition).collect()
}

/// A lane with due deliveries that no process claims from.
pub(crate) struct StandingLane<'a> {
    pub(crate) name: &'a str,
    pub(crate) waiting: u64,
    /// For how long it has been seen so.
    pub(crate) stands: Duration,
    /// How long its oldest delivery has been due.
    pub(crate) oldest: Duration,
}

/// The lanes that stand now. `stalls` remembers since when.
pub(crate) fn standing_lanes<'a>(
    lanes: &'a BTreeMap<String, LaneFacts>,
    now: OffsetDateTime,
    stalls: &mut Stalls,
) -> Vec<StandingLane<'a>> {
    let mut still = Stalls::new();
    let mut found = Vec::new();
    for (name, of) in lanes {
        let Some(oldest) = of.oldest.filter(|_| !of.leased && !of.paused) else { continue };
        let head = now - oldest;
        // A lane whose first delivery has changed has moved, although no claim was seen.
        let known = stalls.get(name).filter(|(_, before)| (*before - head).abs() <= SAME_HEAD);
        let (since, head) = known.copied().unwrap_or((Instant::now(), head));
        still.insert(name.clone(), (since, head));
        found.push(StandingLane { name, waiting: of.waiting, stands: since.elapsed(), oldest });
    }
    *stalls = still;
    found
}

fn broker(facts: &Facts, rules: &AlertRules) -> Option<Condition> {
    let away = facts.brokers.iter().filter(|(_, report)| report.state.is_waited_for());
    let (instance, report) = away.min_by_key(|(_, report)| report.since)?;
    let lasts = (facts.now - report.since).unsigned_abs();
    Some(Condition {
        kind: AlertKind::BrokerBlocked,
        subject: None,
        begins: lasts >= rules.broker_blocked,
        details: AlertDetails {
            figures: figures(json!({
                "broker": report.state, "seconds": lasts.as_secs(), "error": report.error, "instance": instance,
            })),
            ..AlertDetails::default()
        },
    })
}

/// The members of an object.
pub(super) fn figures(value: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    match value {
        serde_json::Value::Object(members) => members,
        _ => serde_json::Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::BrokerState;

    fn facts() -> Facts {
        Facts {
            now: OffsetDateTime::UNIX_EPOCH + 100 * HOUR,
            lanes: BTreeMap::new(),
            dead: Vec::new(),
            brokers: Vec::new(),
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn begun(facts: &Facts, rules: &AlertRules, stalls: &mut Stalls) -> Vec<(AlertKind, String, bool)> {
        let found = conditions(facts, rules, stalls);
        found.into_iter().map(|one| (one.kind, one.subject.unwrap_or_default(), one.begins)).collect()
    }

    /// G.10: the number of deaths within an hour begins an alert; any dead delivery keeps it open.
    #[test]
    fn deaths_of_the_last_hour_count() {
        let rules = AlertRules { dead_per_hour: 2, ..AlertRules::default() };
        let mut facts = facts();
        let dead = |event: &str, hours: i64, held: u64| Dead {
            consumer: "points".into(),
            event_id: event.into(),
            code: Some("E1".into()),
            key: Some("7".into()),
            died_at: OffsetDateTime::UNIX_EPOCH + 100 * HOUR - time::Duration::minutes(61 * hours),
            held,
        };
        facts.dead = vec![dead("old", 1, 2), dead("older", 2, 0), dead("new", 0, 3)];
        let one = (AlertKind::Dead, "points".to_owned(), false);
        assert_eq!(begun(&facts, &rules, &mut Stalls::new()), [one], "one within the hour");
        facts.dead.push(dead("new too", 0, 0));
        let found = conditions(&facts, &rules, &mut Stalls::new());
        assert!(found[0].begins);
        let AlertDetails { event_id, held, code, key, figures, .. } = &found[0].details;
        assert!(event_id.as_deref().is_some_and(|id| id.starts_with("new")), "{event_id:?}");
        assert_eq!((held, code.as_deref(), key.as_deref()), (&Some(5), Some("E1"), Some("7")));
        assert_eq!((&figures["dead"], &figures["diedInTheLastHour"]), (&4.into(), &2.into()));
    }

    /// G.10: a lane is stalled while its first delivery stays the same and no process holds any. A paused one is not.
    #[tokio::test(start_paused = true)]
    async fn a_lane_that_moves_is_not_stalled() {
        let rules = AlertRules { stalled: seconds(60), oldest: seconds(100_000), ..AlertRules::default() };
        let (mut facts, mut stalls) = (facts(), Stalls::new());
        facts
            .lanes
            .insert("points".into(), LaneFacts { waiting: 3, oldest: Some(seconds(10)), ..LaneFacts::default() });
        let is_stalled =
            |facts: &Facts, stalls: &mut Stalls| begun(facts, &rules, stalls).iter().any(|(.., begins)| *begins);
        let wait = async |facts: &mut Facts, by: u64| {
            tokio::time::advance(seconds(by)).await;
            facts.now += seconds(by);
        };
        let age =
            |facts: &mut Facts, age: u64| facts.lanes.get_mut("points").expect("a lane").oldest = Some(seconds(age));
        assert!(!is_stalled(&facts, &mut stalls));
        wait(&mut facts, 50).await;
        age(&mut facts, 5);
        assert!(!is_stalled(&facts, &mut stalls), "another delivery is the first");
        wait(&mut facts, 59).await;
        age(&mut facts, 64);
        assert!(!is_stalled(&facts, &mut stalls));
        wait(&mut facts, 1).await;
        age(&mut facts, 65);
        assert!(is_stalled(&facts, &mut stalls));
        for change in [|of: &mut LaneFacts| of.leased = true, |of: &mut LaneFacts| of.paused = true] {
            let mut changed = facts.clone();
            change(changed.lanes.get_mut("points").expect("a lane"));
            assert!(begun(&changed, &rules, &mut stalls.clone()).is_empty());
        }
    }

    /// G.10: the oldest delivery and the broker, from their thresholds on.
    #[test]
    fn thresholds_are_the_first_value_that_fires() {
        let rules = AlertRules { oldest: seconds(300), broker_blocked: seconds(60), ..AlertRules::default() };
        let (mut facts, mut stalls) = (facts(), Stalls::new());
        let lane = |age| LaneFacts { leased: true, oldest: Some(seconds(age)), ..LaneFacts::default() };
        facts.lanes.insert("late".into(), lane(300));
        facts.lanes.insert("fine".into(), lane(299));
        let report = |state, age: i64| {
            let since = OffsetDateTime::UNIX_EPOCH + 100 * HOUR - time::Duration::seconds(age);
            ("relay".to_owned(), BrokerReport { state, since, error: None })
        };
        facts.brokers = vec![report(BrokerState::Away, 59), report(BrokerState::Connected, 999)];
        let (late, broker) = ((AlertKind::Oldest, "late".to_owned(), true), AlertKind::BrokerBlocked);
        assert_eq!(begun(&facts, &rules, &mut stalls), [late.clone(), (broker, String::new(), false)]);
        facts.brokers.push(report(BrokerState::Blocked, 60));
        assert_eq!(begun(&facts, &rules, &mut stalls), [late.clone(), (broker, String::new(), true)]);
        facts.brokers = vec![report(BrokerState::Connected, 1)];
        assert_eq!(begun(&facts, &rules, &mut stalls), [late]);
    }
}
