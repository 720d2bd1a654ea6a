//! How data is printed: as a table, as one JSON document, or as a line of JSON for each row.

use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use console::{Color, Term, style};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::print_data;

/// The fields that hold sentences.
const SENTENCES: [&str; 10] = [
    "description",
    "errorMessage",
    "finding",
    "lastError",
    "message",
    "reason",
    "remedy",
    "sample",
    "samples",
    "stoppedBecause",
];
/// Times whose field does not end in `At`.
const TIMES: [&str; 6] = ["at", "first", "last", "lastFire", "nextFire", "until"];
/// The narrowest column for sentences, also if the table is then wider than the terminal.
const SENTENCE_WIDTH: u16 = 20;

/// How data is printed.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// A table that fits the terminal.
    Table,
    /// One JSON document.
    Json,
    /// A line of JSON for each row.
    Jsonl,
}

/// Prints a list; `columns` are the fields of the table.
pub(crate) fn list(format: Format, rows: &[Value], columns: &[&str]) {
    match format {
        Format::Json => print_data(format!("{:#}", Value::from(rows))),
        Format::Jsonl => rows.iter().for_each(print_data),
        Format::Table => print_data(colored(&table(rows, columns, terminal_width()))),
    }
}

/// Prints one thing.
pub(crate) fn one(format: Format, thing: &Value) {
    match (format, thing.as_object()) {
        (Format::Json, _) => print_data(format!("{thing:#}")),
        (Format::Table, Some(fields)) => {
            let now = OffsetDateTime::now_utc();
            let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            let fields = fields.iter().filter(|(_, value)| !is_empty(value));
            let lines: Vec<_> = fields.map(|(name, value)| (heading(name), field(name, value, now))).collect();
            let width = lines.iter().map(|(heading, _)| heading.chars().count()).max().unwrap_or_default();
            for (heading, value) in lines {
                print_data(format!("{}  {}", style(format!("{heading:width$}")).dim(), painted(&value)));
            }
        }
        _ => print_data(thing),
    }
}

/// The width of the terminal, or `None` for a file or a pipe, where lines are not wrapped.
pub(crate) fn terminal_width() -> Option<u16> {
    Some(Term::stdout()).filter(Term::is_term)?.size_checked().map(|(_, columns)| columns)
}

/// Words that say how something is, in the colour that the console gives them.
const WORDS: [(&[&str], Color); 4] = [
    (&["CONSUMED", "SUCCESS", "ok", "DONE"], Color::Green),
    (&["RETRYING", "PARTIAL", "PAUSED"], Color::Yellow),
    (&["FAILED", "DEAD", "failed"], Color::Red),
    (&["EXPIRED", "CANCELED"], Color::Magenta),
];

/// A table in colours.
fn colored(table: &str) -> String {
    let (heading, rows) = table.split_once('\n').unwrap_or((table, ""));
    let heading = style(heading).dim().to_string();
    if rows.is_empty() { heading } else { format!("{heading}\n{}", painted(rows)) }
}

/// The words of a text in their colours: on a terminal only, and not if `NO_COLOR` is set, as `style` decides.
pub(crate) fn painted(text: &str) -> String {
    let color = |word: &str| WORDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, color)| *color);
    let paint = |word: &str| color(word).map_or_else(|| word.to_owned(), |color| style(word).fg(color).to_string());
    let line = |line: &str| line.split(' ').map(paint).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn table(rows: &[Value], columns: &[&str], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns.iter().map(|name| heading(name)));
    let now = OffsetDateTime::now_utc();
    table.add_rows(rows.iter().map(|row| columns.iter().map(|column| cell(column, &row[*column], now))));
    if let Some(width) = width {
        table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    for (column, name) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        // Only sentences are wrapped: an id or a time in pieces can neither be read nor copied.
        column.set_constraint(if SENTENCES.contains(name) {
            ColumnConstraint::LowerBoundary(Width::Fixed(SENTENCE_WIDTH))
        } else {
            ColumnConstraint::ContentWidth
        });
    }
    table.trim_fmt()
}

/// A field of one thing, where there is room: a time with its distance from now, and a duration with its unit.
fn field(name: &str, value: &Value, now: OffsetDateTime) -> String {
    match (cell(name, value, now), value) {
        (_, Value::Number(seconds)) if name.ends_with("Seconds") => format!("{seconds} s"),
        (age, Value::String(time)) if age != shown(value) => format!("{time} ({age})"),
        (cell, _) => cell,
    }
}

/// A time is shown as its distance from now, and a truth as yes or no; the other formats have them as they are.
pub(crate) fn cell(column: &str, value: &Value, now: OffsetDateTime) -> String {
    match value {
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(time) if column.ends_with("At") || TIMES.contains(&column) => {
            OffsetDateTime::parse(time, &Rfc3339).map_or_else(|_| shown(value), |time| distance(time - now))
        }
        Value::Number(seconds) if column.ends_with("AgeSeconds") => {
            seconds.as_f64().map_or_else(|| shown(value), |seconds| largest_unit(time::Duration::seconds_f64(seconds)))
        }
        _ => shown(value),
    }
}

/// `3m ago`, or `in 2h`.
fn distance(from_now: time::Duration) -> String {
    if from_now.is_positive() {
        format!("in {}", largest_unit(from_now))
    } else {
        format!("{} ago", largest_unit(from_now.abs()))
    }
}

fn largest_unit(duration: time::Duration) -> String {
    match duration.whole_seconds() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// `eventId` as people read it: EVENT ID; `consumedConsumers` is CONSUMED, and `createdAt` is CREATED.
fn heading(field: &str) -> String {
    let mut heading = String::new();
    let field = field.trim_end_matches("Consumers").trim_end_matches("Seconds");
    for letter in field.strip_suffix("At").unwrap_or(field).chars() {
        if letter.is_uppercase() {
            heading.push(' ');
        }
        heading.extend(letter.to_uppercase());
    }
    heading
}

/// A value in a cell. Control characters of others must not reach a terminal.
pub(crate) fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_headings_and_fits_the_terminal() {
        let rows = [json!({ "eventId": "01a0-41b2", "lastError": "the mail server does not answer" })];
        let columns = ["eventId", "lastError", "dueAt"];
        assert_eq!(
            table(&rows, &columns, None),
            "EVENT ID   LAST ERROR                       DUE\n01a0-41b2  the mail server does not answer  -"
        );
        assert_eq!(
            table(&rows, &columns, Some(40)),
            "EVENT ID   LAST ERROR              DUE\n01a0-41b2  the mail server does    -\n           not answer"
        );
        assert!(table(&rows, &columns, Some(10)).contains("01a0-41b2  the mail server"), "the least width");
    }

    #[test]
    fn times_are_ages_and_truths_are_words() {
        let now = OffsetDateTime::parse("2026-03-01T12:00:00Z", &Rfc3339).expect("a time");
        let at = |time: &str| cell("createdAt", &json!(time), now);
        assert_eq!(at("2026-03-01T11:59:18Z"), "42s ago");
        assert_eq!(at("2026-03-01T11:00:01Z"), "59m ago");
        assert_eq!(at("2026-03-01T14:00:00Z"), "in 2h");
        assert_eq!(at("2026-02-01T12:00:00Z"), "28d ago");
        assert_eq!(at("soon"), "soon");
        assert_eq!(field("createdAt", &json!("2026-03-01T11:59:18Z"), now), "2026-03-01T11:59:18Z (42s ago)");
        assert_eq!(field("timeoutSeconds", &json!(90), now), "90 s");
        assert_eq!((field("enabled", &json!(true), now), field("topic", &json!("a"), now)), ("yes".into(), "a".into()));
        assert_eq!(cell("oldestAgeSeconds", &json!(125.4), now), "2m");
        assert_eq!((cell("ok", &json!(true), now), cell("paused", &json!(false), now)), ("yes".into(), "no".into()));
        assert_eq!((heading("lastUsedAt"), heading("oldestAgeSeconds")), ("LAST USED".into(), "OLDEST AGE".into()));
    }
}
