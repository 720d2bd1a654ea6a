//! Every limit of an event, each with its reason. `enqueue` refuses what exceeds a limit, before anything is written,
//! with an error that names the field and the limit.

use crate::error::{Error, Result};

/// Payload bytes. Larger documents belong in a blob store with a reference in the event.
pub const PAYLOAD_BYTES: usize = 1024 * 1024;
/// Event id, in characters: a UUID or a readable id such as `order:123:paid`, short enough to index.
pub const EVENT_ID_CHARS: usize = 64;
/// Topic and consumer, in characters: they become routing keys, queue names and metric labels.
pub const NAME_CHARS: usize = 128;
/// Ordering key, in characters: it is indexed on every waiting delivery.
pub const KEY_CHARS: usize = 256;
/// Ids that are only passed on (trace, span, aggregate, tenant, store), in characters.
pub const LABEL_CHARS: usize = 128;
/// Exchange and routing key, in bytes: AMQP's own limit for a short string.
pub const ROUTE_BYTES: usize = 255;
/// Metadata bytes: it is read with every list row, so it stays small.
pub const METADATA_BYTES: usize = 16 * 1024;
/// Initiator bytes: four short strings.
pub const INITIATOR_BYTES: usize = 4 * 1024;
/// Events in one `enqueue_many`: one statement of this size is still planned and parsed quickly.
pub const BATCH_EVENTS: usize = 1_000;
/// Deliveries in one claim: a larger batch only needs more memory.
pub const CLAIM_DELIVERIES: u32 = 500;
/// Default of the payload bytes in one claim, above which only a single event goes: its rows, its parsed events and its
/// answer are in memory at the same time.
pub const CLAIM_BYTES: usize = 8 * 1024 * 1024;
/// Default of the payload bytes that a lane holds, claimed and not written yet: four claims.
pub const LANE_BYTES: usize = 4 * CLAIM_BYTES;
/// Rows in one pass of the router or the pruner: short transactions under load.
pub const PASS_ROWS: u32 = 10_000;
/// Events on one page of a list.
pub const PAGE_EVENTS: u32 = 500;
/// Checks the size of a page.
pub(crate) fn page(limit: u32) -> Result<()> {
    if limit == 0 || limit > PAGE_EVENTS {
        return Err(Error::invalid("limit", format!("must be 1 to {PAGE_EVENTS}, is {limit}")));
    }
    Ok(())
}
/// Events that one page reads, whatever matches: a list answers in time on a table of any size.
pub const SCAN_EVENTS: i64 = 10_000;
/// The shortest beginning of an id that a search finds: shorter ones are shared by too many.
pub const PREFIX_CHARS: usize = 6;
/// Events of one trace that are shown: a larger tree is not readable.
pub const TRACE_EVENTS: usize = 1_000;
/// Events of one story that are shown: a longer story is not readable.
pub const STORY_EVENTS: usize = 200;
/// Business keys that one story reads.
pub const STORY_KEYS: usize = 1_000;
/// Maximum nesting of JSON: deeper documents are attacks or mistakes.
pub const JSON_DEPTH: usize = 64;
/// Error text kept with an attempt, in characters.
pub const ERROR_CHARS: usize = 1_000;
/// Target of an audit record, in characters: the longest path of the API, with its names and ids.
pub const AUDIT_TARGET_CHARS: usize = 512;
/// Rows on one page of any list.
pub const PAGE_ROWS: u32 = 500;
/// A business idempotency key, in characters, as in the HTTP header of that name.
pub const IDEMPOTENCY_KEY_CHARS: usize = 255;
/// The result stored under an idempotency key, in bytes as JSON: it is read as a whole at every repeated call.
pub const RESULT_BYTES: usize = 256 * 1024;
/// Default maximum of attempts, if neither the event nor the lane sets one.
pub const MAX_ATTEMPTS: u32 = 10;
/// The largest maximum of attempts: it is stored in two bytes.
pub const MAX_ATTEMPTS_CEILING: u32 = 10_000;
/// The largest rate of a subscription, per second: more than one lane delivers.
pub const RATE_PER_SECOND_CEILING: u32 = 100_000;
/// The longest timeout of a subscription, in seconds: as long as the longest lease of a consumer that pulls.
pub const TIMEOUT_SECONDS_CEILING: u32 = 3_600;
/// Steps of a ramp, without the rest. More are no ramp.
pub const RAMP_STEPS: usize = 10;
/// Events in a step of a ramp.
pub const RAMP_STEP_EVENTS: u32 = 1_000_000;
/// How long a gate of a ramp may wait.
pub const GATE: std::time::Duration = std::time::Duration::from_secs(86_400);
/// Events that one operation may name by their ids.
pub const CHOSEN_EVENTS: usize = 1_000;
/// Failure groups that one filter may name.
pub const FAILURE_GROUPS: usize = 50;

/// A topic or consumer name: `[A-Za-z0-9._-]`, not empty, within [`NAME_CHARS`].
pub(crate) fn name(field: &'static str, value: &str) -> Result<()> {
    let chars = value.chars().count();
    if chars == 0 || chars > NAME_CHARS {
        return Err(Error::invalid(field, format!("must have 1 to {NAME_CHARS} characters, has {chars}")));
    }
    match value.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
        Some(c) => Err(Error::invalid(field, format!("may hold A-Z a-z 0-9 . _ - only, not {c:?}"))),
        None => Ok(()),
    }
}

/// A consumer name that may be registered: the library's own names are reserved.
pub(crate) fn consumer(value: &str) -> Result<()> {
    name("consumer", value)?;
    if value.starts_with("postrider") {
        return Err(Error::invalid("consumer", "names that start with `postrider` are reserved".into()));
    }
    Ok(())
}

/// Text within `max` characters, without control characters (PostgreSQL cannot store NUL, and the others are
/// unreadable in a list).
pub(crate) fn text(field: &'static str, value: &str, max: usize) -> Result<()> {
    // Most texts are short ASCII. This check runs several times per event, and bytes are faster to check than
    // characters.
    if (1..=max).contains(&value.len()) && value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    let chars = value.chars().count();
    if chars == 0 || chars > max {
        return Err(Error::invalid(field, format!("must have 1 to {max} characters, has {chars}")));
    }
    match value.chars().find(|c| c.is_control()) {
        Some(c) => Err(Error::invalid(field, format!("may not hold the control character {c:?}"))),
        None => Ok(()),
    }
}

/// Text within `max` bytes and without NUL, which no SQL store keeps intact.
pub(crate) fn bytes(field: &'static str, value: &str, max: usize) -> Result<()> {
    if value.len() > max {
        return Err(Error::too_large(field, format!("may have {max} bytes at most, has {}", value.len())));
    }
    if value.contains('\0') {
        return Err(Error::invalid(field, "may not hold a NUL character; send bytes as base64".into()));
    }
    Ok(())
}

/// JSON nested no deeper than [`JSON_DEPTH`]. Counts brackets outside strings; does not check whether it parses.
pub(crate) fn json_depth(field: &'static str, json: &str) -> Result<()> {
    // A text with no more brackets than levels cannot be too deep. Every event is checked, and counting is fast: in
    // parts whose count fits a byte, the compiler counts sixteen at once.
    let parts = json.as_bytes().chunks(usize::from(u8::MAX));
    let brackets = parts.map(|part| part.iter().map(|byte| u8::from(matches!(byte, b'{' | b'['))).sum::<u8>());
    if brackets.map(usize::from).sum::<usize>() <= JSON_DEPTH {
        return Ok(());
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > JSON_DEPTH {
                    return Err(Error::invalid(field, format!("is nested deeper than {JSON_DEPTH} levels")));
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Error text as it is stored: control characters replaced, except for line breaks and tabs, and cut on a character boundary
/// at [`ERROR_CHARS`]. Storing a failure never fails because of its text.
pub fn error_text(text: &str) -> String {
    let clean =
        |c: char| if c.is_control() && !matches!(c, '\n' | '\r' | '\t') { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(ERROR_CHARS).map(clean).collect()
}

/// An error code as it is stored: without control characters, and cut at [`LABEL_CHARS`]. It is a word to group failures by.
pub fn error_code(code: &str) -> String {
    code.chars().filter(|c| !c.is_control()).take(LABEL_CHARS).collect()
}

/// Reads an optional text of a report leniently: half of a character pair, which a program writes that cuts a text in the
/// middle of an emoji, becomes U+FFFD instead of failing the whole request. For `#[serde(deserialize_with = …)]`.
pub fn lossy_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<String>, D::Error> {
    struct Lossy;

    impl<'de> serde::de::Visitor<'de> for Lossy {
        type Value = Option<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string or null")
        }

        fn visit_none<E>(self) -> std::result::Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: serde::Deserializer<'de>>(
            self,
            deserializer: D,
        ) -> std::result::Result<Self::Value, D::Error> {
            // As bytes: serde_json checks the escapes of texts only.
            deserializer.deserialize_bytes(self)
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> std::result::Result<Self::Value, E> {
            Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
        }

        fn visit_str<E>(self, text: &str) -> std::result::Result<Self::Value, E> {
            Ok(Some(text.into()))
        }
    }

    deserializer.deserialize_option(Lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_text_is_cut_on_a_character_boundary() {
        let long = "错".repeat(ERROR_CHARS + 1);
        assert_eq!(error_text(&long).chars().count(), ERROR_CHARS);
        assert_eq!(error_text("a\0b"), "a\u{fffd}b");
        assert_eq!(error_text("a\u{1b}[31m\u{85}\n\tb"), "a\u{fffd}[31m\u{fffd}\n\tb");
        assert_eq!(error_code("E\u{7}\n1"), "E1");
        assert_eq!(error_code(&"x".repeat(LABEL_CHARS + 1)).len(), LABEL_CHARS);
    }

    /// F61
    #[test]
    fn half_of_a_character_pair_is_read_as_a_replacement() {
        #[derive(serde::Deserialize)]
        struct Report {
            #[serde(default, deserialize_with = "lossy_text")]
            error: Option<String>,
        }
        let read = |json: &str| serde_json::from_str::<Report>(json).map(|report| report.error);
        assert!(read(r#"{"error":"cut \ud83d"}"#).expect("reads").expect("a text").starts_with("cut \u{fffd}"));
        assert_eq!(read(r#"{"error":"whole \ud83d\ude00"}"#).expect("reads").as_deref(), Some("whole 😀"));
        assert_eq!((read("{}").expect("reads"), read(r#"{"error":null}"#).expect("reads")), (None, None));
        assert!(read(r#"{"error":7}"#).is_err() && read(r#"{"error":[1]}"#).is_err());
    }

    #[test]
    fn names_stop_at_their_limit() {
        assert!(name("topic", &"a".repeat(NAME_CHARS)).is_ok());
        assert!(name("topic", &"a".repeat(NAME_CHARS + 1)).is_err());
        assert!(name("topic", "").is_err());
        assert!(name("topic", "order paid").is_err());
        assert!(consumer("postrider-x").is_err());
    }

    #[test]
    fn text_stops_at_its_limit_in_characters() {
        assert!(text("key", &"钥".repeat(KEY_CHARS), KEY_CHARS).is_ok());
        assert!(text("key", &"钥".repeat(KEY_CHARS + 1), KEY_CHARS).is_err());
        assert!(text("key", "a\u{7}", KEY_CHARS).is_err());
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(json_depth("payload", &deep(JSON_DEPTH)).is_ok());
        assert!(json_depth("payload", &deep(JSON_DEPTH + 1)).is_err());
        assert!(json_depth("payload", &format!(r#""{}\"[""#, "[".repeat(100))).is_ok());
    }
}
