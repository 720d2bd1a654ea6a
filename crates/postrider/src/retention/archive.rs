//! Events in files, to keep them longer than in the database: JSON lines, one file a day.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use time::OffsetDateTime;

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::status::{EventStatus, Record};

/// One event, as a line has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event: &'a Envelope,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    status: EventStatus,
    retry_count: u32,
    consumptions: Vec<Attempt<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attempt<'a> {
    consumer_id: &'a str,
    attempt_no: u32,
    success: Option<bool>,
    #[serde(with = "time::serde::rfc3339::option")]
    consumed_at: Option<OffsetDateTime>,
    error_message: Option<&'a str>,
    error_code: Option<&'a str>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
}

/// Appends events to the files of their days. When it returns they are synced to disk.
pub(super) async fn write(folder: PathBuf, events: Vec<Record>) -> Result<()> {
    let written = tokio::task::spawn_blocking(move || append(&folder, &events)).await;
    written.map_err(|e| Error::Store(e.into()))?
}

fn append(folder: &Path, events: &[Record]) -> Result<()> {
    let mut days: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for record in events {
        let lines = days.entry(file_name(record.created_at)).or_default();
        serde_json::to_writer(&mut *lines, &line(record)).map_err(Error::Encode)?;
        lines.push(b'\n');
    }
    let failed =
        |e: std::io::Error| Error::Store(format!("the archive {} cannot be written: {e}", folder.display()).into());
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (name, lines) in days {
        // One write for each batch, so that a reader sees whole lines.
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join(name)).map_err(failed)?;
        file.write_all(&lines).and_then(|()| file.sync_all()).map_err(failed)?;
    }
    // A new file is durable once its folder is synced.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

fn file_name(at: OffsetDateTime) -> String {
    let date = at.to_offset(time::UtcOffset::UTC).date();
    format!("events-{:04}-{:02}-{:02}.jsonl", date.year(), u8::from(date.month()), date.day())
}

fn line(record: &Record) -> Line<'_> {
    let standing = record.standing();
    Line {
        event: &record.envelope,
        created_at: record.created_at,
        status: standing.status,
        retry_count: standing.redrives,
        consumptions: record
            .consumptions
            .iter()
            .map(|one| Attempt {
                consumer_id: &one.consumer,
                attempt_no: one.attempt,
                success: one.success,
                consumed_at: one.consumed_at,
                error_message: one.error.as_deref(),
                error_code: one.code.as_deref(),
                created_at: one.created_at,
            })
            .collect(),
    }
}
