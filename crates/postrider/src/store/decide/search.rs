//! Which events a text names. Ids are found by the index of ids, everything else by lookups that the roll-up writes.

use super::fold::{Lookup, beginning};
use super::page::{Lead, Scan};
use crate::error::Result;
use crate::limits;
use crate::status::Record;

/// Events whose keys begin like the text, of which the newest are compared with all of it.
const ALIKE: i64 = 200;

/// Finds events by a text, newest first.
pub(crate) async fn search(store: &impl Scan, text: &str, limit: u32) -> Result<Vec<Record>> {
    let limit = i64::from(limit.min(limits::PAGE_EVENTS));
    let mut lookups = vec![Lookup::Trace(text), Lookup::Key(text), Lookup::AggregateId(text), Lookup::CloudEvent(text)];
    lookups.extend(beginning(text).map(Lookup::TracePrefix));
    // Exact to the longest beginning that is looked up; of what begins so, the newest are compared with the whole text.
    let is_long = text.chars().count() >= 2 * limits::PREFIX_CHARS;
    let cut = |chars: usize| text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end]);
    let prefix = if is_long { Some(cut(2 * limits::PREFIX_CHARS)) } else { beginning(text) };
    let mut seqs = store.search_ids(text, &end_of_ids(text), limit).await?;
    for lookup in lookups {
        seqs.extend(store.scan(Lead::Lookup(lookup.hash()), 0, i64::MAX, limit).await?);
    }
    if let Some(prefix) = prefix {
        seqs.extend(store.scan(Lead::Lookup(Lookup::IdPrefix(prefix).hash()), 0, i64::MAX, ALIKE).await?);
    }
    seqs.sort_unstable();
    seqs.dedup();
    let mut events = store.records(&seqs).await?;
    // Hashes may collide, and a trace is looked up by its first characters only.
    events.retain(|record| names(text, record));
    events.sort_unstable_by_key(|record| std::cmp::Reverse(record.sequence));
    Ok(events)
}

/// The first text after every id that a text names: the text itself, or, if it is long enough, all that begin with it.
fn end_of_ids(text: &str) -> String {
    if beginning(text).is_none() {
        // No id holds a control character, so nothing else lies between.
        return format!("{text}\u{1}");
    }
    let mut end = text.to_owned();
    while let Some(last) = end.pop() {
        // Skips the gap of the surrogates. The last character of all has none after it: the one before it counts up instead.
        if let Some(next) = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32) {
            end.push(next);
            return end;
        }
    }
    char::MAX.to_string()
}

/// Whether a text names an event.
pub(in crate::store) fn names(text: &str, record: &Record) -> bool {
    let event = &record.envelope;
    let is = |value: Option<&str>| value == Some(text);
    let begins = |value: Option<&str>| {
        value.is_some_and(|value| value == text || (beginning(text).is_some() && value.starts_with(text)))
    };
    begins(Some(event.event_id.as_str()))
        || begins(event.trace_id.as_deref())
        || begins(event.key.as_deref())
        || is(event.cloud_event_id.as_deref())
        || begins(event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()))
}

#[cfg(test)]
mod tests {
    use super::end_of_ids;

    #[test]
    fn a_range_of_ids_ends_after_the_last_that_begins_with_the_text() {
        assert_eq!(end_of_ids("order:"), "order;");
        assert_eq!(end_of_ids("e1"), "e1\u{1}");
        assert_eq!(end_of_ids("abcde\u{d7ff}"), "abcde\u{e000}");
        assert_eq!(end_of_ids("abcde\u{10ffff}"), "abcdf");
    }
}
