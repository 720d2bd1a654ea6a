//! When a job runs: a cron expression in a time zone, as a pure function from one time to the next slot.
//!
//! [`croner`] reads the expression and walks the calendar. What a slot means on the two days of the year on which the clocks
//! change is decided here, in [`Schedule::next_after`].

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::limits;

/// What each field may hold, in the order in which they are written.
const FIELDS: [Field; 6] = [
    Field { name: "seconds", words: &[], write: "0-59, *, a list, a range, or steps such as 0/10" },
    Field { name: "minutes", words: &[], write: "0-59, *, a list, a range, or steps such as */5" },
    Field { name: "hours", words: &[], write: "0-23, *, a list, a range, or steps such as */2" },
    Field { name: "day of month", words: &["L", "W", "LW"], write: "1-31, ?, *, a list, a range, L (the last) or 15W" },
    Field {
        name: "month",
        words: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
        write: "1-12, JAN-DEC, *, a list or a range",
    },
    Field {
        name: "day of week",
        words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "L"],
        write: "MON-SUN, 0-7 (0 and 7 are Sunday), ?, *, a list, FRI#2 (the second) or 5L (the last)",
    },
];

struct Field {
    name: &'static str,
    /// Every run of letters must be one of these.
    words: &'static [&'static str],
    write: &'static str,
}

/// A cron expression in a time zone.
///
/// Six fields: seconds, minutes, hours, day of month, month, day of week. With five fields the seconds are 0. `?` stands
/// for `*` in either of the two days. If both days are given, either is enough, as in Unix. Weekdays by number count as in
/// Unix and Spring, where 1 is Monday; Quartz begins with Sunday, so `MON` is clearer than any number.
#[derive(Clone)]
pub struct Schedule {
    expression: String,
    zone_name: String,
    cron: Cron,
    zone: TimeZone,
    /// Whether it has slots in every hour of a day.
    hourly: bool,
}

impl Schedule {
    /// Reads an expression such as `0 30 2 * * ?` and the IANA name of a zone such as `Europe/Berlin` or `UTC`.
    pub fn parse(expression: &str, zone: &str) -> Result<Self> {
        let expression = expression.trim();
        limits::text("schedule", expression, limits::LABEL_CHARS)?;
        let zone_name = zone.trim();
        let zone = zone_of(zone_name)?;
        let cron = cron(expression)?;
        let hourly = cron.pattern.hours.values().len() == 24;
        let schedule = Self { expression: expression.to_owned(), zone_name: zone_name.to_owned(), cron, zone, hourly };
        // From any day on, since every calendar repeats itself within the years that are searched.
        match schedule.next_civil(date(2000, 1, 1).at(0, 0, 0, 0)) {
            Some(_) => Ok(schedule),
            None => Err(Error::invalid(
                "schedule",
                format!("{expression:?} names a day that never comes: write one that its month has"),
            )),
        }
    }

    /// The expression, as it was written.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The name of the zone, as it was written.
    pub fn zone(&self) -> &str {
        &self.zone_name
    }

    /// The first slot later than `time`. Returns `None` if there is none before the end of the calendar.
    ///
    /// **When clocks change.** A schedule with slots in every hour (`0 */5 * * * ?`) follows elapsed time: an hour
    /// that is skipped has no slots, an hour that comes twice has them twice, and none is lost or doubled. Any other
    /// schedule follows local time: a slot in a skipped hour comes at the first moment after it (all slots of that
    /// hour as one), and a slot in an hour that comes twice comes the first time. So a slot at 02:30 runs once on
    /// every day of the year.
    pub fn next_after(&self, time: OffsetDateTime) -> Option<OffsetDateTime> {
        // Slots are whole seconds, so a part of one makes no difference.
        let second = i64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000_000)).ok()?;
        let time = Timestamp::from_second(second).ok()?;
        let here = time.to_zoned(self.zone.clone());
        let slot = if self.hourly {
            self.cron.find_next_occurrence(&here, false).ok()?.timestamp()
        } else {
            let mut civil = here.datetime();
            loop {
                civil = self.next_civil(civil)?;
                let slot = self.first_moment(civil)?;
                // Not later: `time` is in the second half of an hour that comes twice.
                if slot > time {
                    break slot;
                }
            }
        };
        OffsetDateTime::from_unix_timestamp(slot.as_second()).ok()
    }

    /// The last slot that is later than `after` and not later than `until`.
    pub fn last_between(&self, after: OffsetDateTime, until: OffsetDateTime) -> Option<OffsetDateTime> {
        let come = |after| self.next_after(after).filter(|slot| *slot <= until);
        let mut slot = come(after)?;
        // Instances may have been down for months and slots come every second, so this halves what is left.
        let mut none_after = until;
        while let Some(later) = come(slot) {
            slot = later;
            let middle = slot + (none_after - slot) / 2;
            match come(middle) {
                Some(later) => slot = later,
                None => none_after = middle,
            }
        }
        Some(slot)
    }

    /// The next match on a calendar without zones.
    fn next_civil(&self, after: DateTime) -> Option<DateTime> {
        let after = after.to_zoned(TimeZone::UTC).ok()?;
        Some(self.cron.find_next_occurrence(&after, false).ok()?.datetime())
    }

    /// The moment when local time is `civil` for the first time, or has skipped it.
    fn first_moment(&self, civil: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        let skipped = matches!(ambiguous.offset(), jiff::tz::AmbiguousOffset::Gap { .. });
        // Of a time that comes twice, the earlier one; of a skipped time, the same distance after the change.
        let moment = ambiguous.compatible().ok()?;
        if !skipped {
            return Some(moment);
        }
        let change = self.zone.preceding(moment.checked_add(SignedDuration::from_secs(1)).ok()?).next()?;
        Some(change.timestamp())
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (self.expression(), self.zone()) == (other.expression(), other.zone())
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({self})")
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.expression, self.zone_name)
    }
}

fn zone_of(name: &str) -> Result<TimeZone> {
    limits::text("zone", name, limits::LABEL_CHARS)?;
    TimeZone::get(name).map_err(|_| {
        let message = format!("{name:?} is not known: write an IANA name such as Europe/Berlin, Asia/Shanghai or UTC");
        Error::invalid("zone", message)
    })
}

fn cron(expression: &str) -> Result<Cron> {
    let upper = expression.to_ascii_uppercase();
    let mut fields: Vec<&str> = upper.split_whitespace().collect();
    if fields.len() == 5 {
        fields.insert(0, "0");
    }
    if fields.len() != FIELDS.len() {
        return Err(Error::invalid(
            "schedule",
            format!(
                "{expression:?} must have six fields, or five without the seconds: write `0 */5 * * * ?` for every five \
                 minutes"
            ),
        ));
    }
    for (at, (field, text)) in FIELDS.iter().zip(&fields).enumerate() {
        // By itself, so that the error names the field.
        let mut alone = ["*"; 6];
        alone[at] = text;
        if !field.allows(text) || parse(&alone).is_none() {
            let message = format!("of schedule {expression:?} cannot be {text:?}: write {}", field.write);
            return Err(Error::invalid(field.name, message));
        }
    }
    parse(&fields).ok_or_else(|| Error::invalid("schedule", format!("{expression:?} cannot be read")))
}

impl Field {
    /// Refuses what the parser accepts: names of days as months, or `?` within a list.
    fn allows(&self, text: &str) -> bool {
        let day = self.name.starts_with("day");
        let mut words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        let known = words.all(|word| {
            // FRIL is the last Friday.
            let whole = self.words.contains(&word);
            whole || word.strip_suffix('L').is_some_and(|name| name.len() == 3 && self.words.contains(&name))
        });
        let sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | ',' | '-' | '/') || (c == '#' && day);
        known && (text.chars().all(sign) || (text == "?" && day))
    }
}

fn parse(fields: &[&str]) -> Option<Cron> {
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed);
    // `sloppy` ranges allow `0/10`, the Quartz form of `*/10`.
    parser.sloppy_ranges(true).build().parse(&fields.join(" ")).ok()
}

#[cfg(test)]
mod tests;
