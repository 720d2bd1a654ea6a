//! Slots, and the days on which clocks change.

// A failed unwrap fails the test.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;

use super::*;

fn schedule(expression: &str, zone: &str) -> Schedule {
    Schedule::parse(expression, zone).unwrap()
}

fn at(text: &str) -> OffsetDateTime {
    OffsetDateTime::parse(text, &Rfc3339).unwrap()
}

/// The slots between two times, as they are written in UTC.
fn slots(schedule: &Schedule, from: &str, until: &str) -> Vec<OffsetDateTime> {
    let (mut time, until) = (at(from), at(until));
    let mut slots = Vec::new();
    while let Some(slot) = schedule.next_after(time).filter(|slot| *slot <= until) {
        slots.push(slot);
        time = slot;
    }
    slots
}

fn refusal(expression: &str, zone: &str) -> String {
    Schedule::parse(expression, zone).expect_err(expression).to_string()
}

/// A.17: cron expressions with seconds and `?`; five fields too.
#[test]
fn the_contracts_expressions_are_understood() {
    let from = datetime!(2026-03-04 05:06:07.5 UTC);
    for (expression, next) in [
        ("0/10 * * * * ?", "2026-03-04T05:06:10Z"),
        ("0 */5 * * * ?", "2026-03-04T05:10:00Z"),
        ("0 0 */2 * * ?", "2026-03-04T06:00:00Z"),
        ("*/5 * * * *", "2026-03-04T05:10:00Z"),
        ("30 2 * * *", "2026-03-05T02:30:00Z"),
        ("0 0 12 ? * MON-FRI", "2026-03-04T12:00:00Z"),
        ("0 0 12 ? * sun", "2026-03-08T12:00:00Z"),
        ("0 0 12 ? * 1", "2026-03-09T12:00:00Z"),
        ("0 0 0 L * ?", "2026-03-31T00:00:00Z"),
        ("0 0 0 29 2 ?", "2028-02-29T00:00:00Z"),
        ("0 0 0 ? * FRI#2", "2026-03-13T00:00:00Z"),
        ("0 0 0 ? * FRIL", "2026-03-27T00:00:00Z"),
        ("0 0 0 1 JAN,jul ?", "2026-07-01T00:00:00Z"),
        ("  0   0 0 1 1 ?  ", "2027-01-01T00:00:00Z"),
    ] {
        assert_eq!(schedule(expression, "UTC").next_after(from), Some(at(next)), "{expression}");
    }
}

/// A.17: a bad value says which field it is and what to write.
#[test]
fn a_bad_expression_is_refused_by_its_field() {
    for (expression, field, advice) in [
        ("", "schedule", "characters"),
        ("every day", "schedule", "six fields"),
        ("@daily", "schedule", "six fields"),
        ("0 0 0 1 1 ? 2030", "schedule", "six fields"),
        ("60 * * * * ?", "seconds", "0-59"),
        ("0 61 * * * ?", "minutes", "\"61\": write 0-59"),
        ("0 */0 * * * ?", "minutes", "*/5"),
        ("0 5-1 * * * ?", "minutes", "0-59"),
        ("0 0 24 * * ?", "hours", "0-23"),
        ("0 0 ? * * ?", "hours", "0-23"),
        ("0 0 0 32 * ?", "day of month", "1-31"),
        ("0 0 0 0 * ?", "day of month", "1-31"),
        ("0 0 0 ?5 * *", "day of month", "1-31"),
        ("0 0 0 1 13 ?", "month", "1-12"),
        ("0 0 0 1 MON ?", "month", "JAN-DEC"),
        ("0 0 0 ? * 8", "day of week", "0-7"),
        ("0 0 0 ? * FUN", "day of week", "MON-SUN"),
        ("0 0 0 ? * +MON", "day of week", "MON-SUN"),
        ("0 0 0 30 2 ?", "schedule", "never comes"),
        ("0 0 0 31 4,6 ?", "schedule", "never comes"),
    ] {
        let refused = refusal(expression, "UTC");
        assert!(refused.starts_with(field) && refused.contains(advice), "{expression:?}: {refused}");
    }
    assert!(matches!(Schedule::parse("x", "UTC"), Err(Error::Invalid { field: "schedule", .. })));
    for zone in ["", "Mars/Olympus", "+08:00", "CEST-2"] {
        let refused = refusal("0 * * * * ?", zone);
        assert!(refused.starts_with("zone "), "{refused}");
    }
    assert!(refusal("0 * * * * ?", "Mars/Olympus").contains("Europe/Berlin"));
}

/// F52: a skipped 02:30 fires right after the change; a 02:30 that comes twice fires once.
#[test]
fn a_daily_job_runs_once_on_the_days_when_clocks_change() {
    let daily = schedule("0 30 2 * * ?", "Europe/Berlin");
    let spring = slots(&daily, "2026-03-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00");
    assert_eq!(
        spring,
        [at("2026-03-28T02:30:00+01:00"), at("2026-03-29T03:00:00+02:00"), at("2026-03-30T02:30:00+02:00")]
    );
    let autumn = slots(&daily, "2026-10-24T00:00:00+02:00", "2026-10-27T00:00:00+01:00");
    assert_eq!(
        autumn,
        [at("2026-10-24T02:30:00+02:00"), at("2026-10-25T02:30:00+02:00"), at("2026-10-26T02:30:00+01:00")]
    );
    // From inside the hour that comes again, it is over for today.
    assert_eq!(daily.next_after(at("2026-10-25T02:10:00+01:00")), Some(at("2026-10-26T02:30:00+01:00")));
}

/// F52: also where several times a day are named, and where the change is at midnight, half an hour long, or a whole day.
#[test]
fn named_hours_are_neither_lost_nor_doubled_in_any_zone() {
    for (expression, zone, year, expected) in [
        ("0 30 2 * * ?", "Europe/Berlin", 2026, 365),
        ("0 30 2,14 * * ?", "America/New_York", 2026, 730),
        ("0 0 */2 * * ?", "Europe/Berlin", 2026, 365 * 12),
        ("0 30 0 * * ?", "America/Havana", 2026, 365),
        ("0 15 2 * * ?", "Australia/Lord_Howe", 2026, 365),
        ("0 30 2 * * ?", "Asia/Shanghai", 2026, 365),
        // Samoa had no 30 December 2011; that day's slot comes at the first moment of the 31st, before that day's own.
        ("0 30 2 * * ?", "Pacific/Apia", 2011, 365),
    ] {
        let schedule = schedule(expression, zone);
        let first = date(year, 1, 1).at(0, 0, 0, 0).to_zoned(TimeZone::get(zone).unwrap()).unwrap();
        let last = date(year + 1, 1, 1).at(0, 0, 0, 0).to_zoned(TimeZone::get(zone).unwrap()).unwrap();
        // From the second before the year to the second before the next.
        let bound = |zoned: jiff::Zoned| (zoned.timestamp() - SignedDuration::from_secs(1)).to_string();
        assert_eq!(slots(&schedule, &bound(first), &bound(last)).len(), expected, "{schedule}");
    }
}

/// F52: every minute that passes, once.
#[test]
fn an_every_minute_job_loses_and_doubles_no_minute() {
    for (zone, from, until) in [
        ("Europe/Berlin", "2026-03-28T20:00:00Z", "2026-03-29T06:00:00Z"),
        ("Europe/Berlin", "2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z"),
        ("America/New_York", "2026-03-08T02:00:00Z", "2026-03-08T12:00:00Z"),
        ("America/New_York", "2026-11-01T02:00:00Z", "2026-11-01T12:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T10:00:00Z", "2026-04-04T20:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T10:00:00Z", "2026-10-03T20:00:00Z"),
    ] {
        let slots = slots(&schedule("0 * * * * ?", zone), from, until);
        assert_eq!(slots.len(), 600, "{zone}");
        assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == time::Duration::MINUTE), "{zone}");
    }
    let half_hourly = schedule("0 */30 * * * ?", "Europe/Berlin");
    assert_eq!(slots(&half_hourly, "2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z").len(), 20);
}

#[test]
fn the_last_slot_is_found_however_long_it_has_been() {
    let seconds = schedule("* * * * * ?", "UTC");
    let (long_ago, now) = (datetime!(1990-01-01 00:00 UTC), datetime!(2026-03-04 05:06:07.5 UTC));
    assert_eq!(seconds.last_between(long_ago, now), Some(datetime!(2026-03-04 05:06:07 UTC)));
    assert_eq!(seconds.last_between(now, now), None);
    let yearly = schedule("0 0 0 1 1 ?", "UTC");
    assert_eq!(yearly.last_between(long_ago, now), Some(datetime!(2026-01-01 00:00 UTC)));
    assert_eq!(yearly.last_between(datetime!(2026-01-01 00:00 UTC), now), None);
    assert_eq!(yearly.last_between(now, long_ago), None);
}

#[test]
fn the_end_of_the_calendar_is_no_slot() {
    let daily = schedule("0 30 2 * * ?", "Europe/Berlin");
    assert_eq!(daily.next_after(datetime!(9999-12-31 23:59:59 UTC)), None);
}

proptest! {
    /// Slots come in order, and the last one before a time is the one after which that time has none.
    #[test]
    fn slots_are_in_order(
        second in 946_684_800_i64..2_524_608_000,
        expression in prop::sample::select(vec!["0 30 2 * * ?", "0 */7 * * * ?", "0 0 */2 * * ?", "0 0,30 1-3 * * ?", "5 4 3 1 * ?"]),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
        back in 1_i64..40_000_000,
    ) {
        let schedule = schedule(expression, zone);
        let time = OffsetDateTime::from_unix_timestamp(second).unwrap();
        let next = schedule.next_after(time).unwrap();
        prop_assert!(next > time);
        prop_assert_eq!(schedule.next_after(next - time::Duration::SECOND), Some(next));
        prop_assert_eq!(schedule.next_after(time + (next - time) / 2).filter(|_| next - time > time::Duration::SECOND).unwrap_or(next), next);
        let before = time - time::Duration::seconds(back);
        if let Some(last) = schedule.last_between(before, time) {
            prop_assert!(last > before && last <= time);
            prop_assert_eq!(schedule.next_after(last), Some(next));
        } else {
            prop_assert_eq!(schedule.next_after(before), Some(next));
        }
    }
}
