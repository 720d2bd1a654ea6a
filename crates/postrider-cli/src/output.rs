//! How data is printed: as a table for people, as JSON for programs, or a line of JSON for each row.

use clap::ValueEnum;
use serde_json::Value;

use crate::print_data;

/// How data is printed.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
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
        Format::Table => table(rows, columns),
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

fn table(rows: &[Value], columns: &[&str]) {
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(ToString::to_string).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|column| shown(&row[*column])).collect()));
    let widths: Vec<usize> = (0..columns.len())
        .map(|n| lines.iter().map(|line| line[n].chars().count()).max().unwrap_or_default())
        .collect();
    for line in lines {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        print_data(cells.join("  ").trim_end());
    }
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
