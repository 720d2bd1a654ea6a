//! What is held for every text from outside. Each returns whether it could read the text. `fuzz/` runs them with coverage.

use postrider::Envelope;
use postrider::envelope::{cloudevents, unreadable};
use postrider::jobs::Schedule;
use postrider::store::{Cursor, Filter};
use serde::de::IgnoredAny;
use time::OffsetDateTime;

/// An envelope reads what it writes.
pub(crate) fn envelope(text: &str) -> bool {
    let Ok(envelope) = serde_json::from_str::<Envelope>(text) else { return false };
    let Ok(()) = envelope.check() else { return false };
    let written = serde_json::to_string(&envelope).expect("an envelope is JSON");
    assert_eq!(serde_json::from_str::<Envelope>(&written).expect("it reads its own form"), envelope, "{text}");
    true
}

/// A CloudEvent comes out with the id and the data with which it went in.
pub(crate) fn cloudevent(text: &str) -> bool {
    let Ok(envelope) = cloudevents::from_structured(text, OffsetDateTime::UNIX_EPOCH) else { return false };
    let Ok(()) = envelope.check() else { return false };
    let written = cloudevents::to_structured(&envelope).expect("a checked event is a CloudEvent");
    let again = cloudevents::from_structured(&written, OffsetDateTime::UNIX_EPOCH).expect("it reads its own form");
    assert_eq!((&again.event_id, &again.payload), (&envelope.event_id, &envelope.payload), "{text}");
    true
}

/// JSON that is called readable is read by a parser that keeps its values.
pub(crate) fn payload(text: &str) -> bool {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json && unreadable(text).is_none() {
        serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    is_json
}

/// The filter of a list reads what it writes.
pub(crate) fn filter(text: &str) -> bool {
    let Ok(filter) = serde_json::from_str::<Filter>(text) else { return false };
    let written = serde_json::to_string(&filter).expect("a filter is JSON");
    assert_eq!(serde_json::from_str::<Filter>(&written).expect("it reads its own form"), filter, "{text}");
    filter.check().is_ok()
}

/// The place in a list reads what it writes.
pub(crate) fn cursor(text: &str) -> bool {
    let Ok(cursor) = text.parse::<Cursor>() else { return false };
    assert_eq!(cursor.to_string().parse::<Cursor>().expect("it reads its own form"), cursor, "{text}");
    true
}

/// The next time of a schedule is in the future, and searching for it ends.
pub(crate) fn cron(text: &str) -> bool {
    let Ok(schedule) = Schedule::parse(text, "UTC") else { return false };
    let now = OffsetDateTime::UNIX_EPOCH;
    if let Some(next) = schedule.next_after(now) {
        assert!(next > now, "{text}: {next}");
    }
    true
}

/// A receipt of a remote consumer reads what it writes.
pub(crate) fn receipt(text: &str) -> bool {
    let Some(written) = postrider::testing::reread_receipt(text) else { return false };
    assert_eq!(postrider::testing::reread_receipt(&written).expect("it reads its own form"), written, "{text}");
    true
}
