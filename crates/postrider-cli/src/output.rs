//! How data is printed: as a table, as one JSON document, or as a line of JSON for each row.

use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use console::Term;
use serde_json::Value;

use crate::print_data;

/// The fields that hold sentences.
const SENTENCES: [&str; 6] = ["description", "errorMessage", "finding", "lastError", "reason", "remedy"];
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
        Format::Table => print_data(table(rows, columns, terminal_width())),
    }
}

/// Prints one thing.
pub(crate) fn one(format: Format, thing: &Value) {
    match (format, thing.as_object()) {
        (Format::Json, _) => print_data(format!("{thing:#}")),
        (Format::Table, Some(fields)) => {
            let width = fields.keys().map(|name| name.chars().count()).max().unwrap_or_default();
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                print_data(format!("{name:width$}  {}", shown(value)));
            }
        }
        _ => print_data(thing),
    }
}

/// The width of the terminal, or `None` for a file or a pipe, where lines are not wrapped.
pub(crate) fn terminal_width() -> Option<u16> {
    Some(Term::stdout()).filter(Term::is_term)?.size_checked().map(|(_, columns)| columns)
}

fn table(rows: &[Value], columns: &[&str], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns.iter().map(|name| heading(name)));
    table.add_rows(rows.iter().map(|row| columns.iter().map(|column| shown(&row[*column]))));
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

/// `eventId` as people read it: EVENT ID; `consumedConsumers` is CONSUMED.
fn heading(field: &str) -> String {
    let mut heading = String::new();
    for letter in field.trim_end_matches("Consumers").chars() {
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
            "EVENT ID   LAST ERROR                       DUE AT\n01a0-41b2  the mail server does not answer  -"
        );
        assert_eq!(
            table(&rows, &columns, Some(40)),
            "EVENT ID   LAST ERROR          DUE AT\n01a0-41b2  the mail server     -\n           does not answer"
        );
        assert!(table(&rows, &columns, Some(10)).contains("01a0-41b2  the mail server"), "the least width");
    }
}
