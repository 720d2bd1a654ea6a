//! `postrider migrate`: updates the schema of a database, shows its version, or prints the statements for another migration
//! tool.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use postrider::store::{self, SchemaVersion};
use serde_json::{Value, json};

use crate::config::server;
use crate::output::Format;
use crate::{Context, End, output, print_data};

/// Bring a database's schema up to date, or see how
#[derive(Args)]
#[command(after_help = "Examples:
  postrider migrate up                                            the default SQLite file
  postrider migrate up --store postgres://app@localhost/shop
  postrider migrate up --store mysql://app@localhost/shop         MySQL or MariaDB
  postrider migrate status --store postgres://app@localhost/shop  exits with 5 if it is out of date
  postrider migrate print --store postgres: > schema.sql          for your own migration tool; connects to nothing
  postrider migrate print --store postgres: --from 8              only what an upgrade from version 8 adds
  postrider migrate print --store postgres: --roles               roles for producers, relays and the console")]
pub(crate) struct Migrate {
    #[command(subcommand)]
    action: Action,
    /// The store: sqlite://path, postgres://user@host/database or mysql://user@host/database
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
}

#[derive(Subcommand)]
enum Action {
    /// Apply missing migrations; many instances may do so at once
    Up,
    /// Show which version the database has and which this program needs
    Status,
    /// Print all statements, with the rows that mark them as applied
    Print {
        /// Only the migrations after this version, for a database that has it
        #[arg(long, value_name = "VERSION", default_value_t = 0)]
        from: i64,
        /// Instead, the roles with the rights of producers, relays and the console
        #[arg(long, conflicts_with = "from")]
        roles: bool,
    },
}

/// The file of a SQLite URL if it does not exist. To connect would create it.
pub(crate) fn missing_file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    let file = PathBuf::from(path.split_once('?').map_or(path, |(path, _)| path));
    (!file.exists()).then_some(file)
}

/// A sentence for people, or the same as JSON.
fn show(context: &Context, sentence: String, data: &Value) {
    match context.output {
        Format::Table => print_data(sentence),
        format => output::one(format, data),
    }
}

impl Migrate {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let url = &context.flags.load(vec![server::STORE.to(self.store.as_deref())])?.get(&server::STORE);
        match self.action {
            Action::Up => {
                let store = store::connect(url).await?;
                let before = store.schema_version().await?;
                store.migrate().await?;
                let (before, after) = (before.found, store.schema_version().await?.found);
                let sentence = if before == after {
                    format!("the schema is at version {after}, nothing to do")
                } else {
                    format!("the schema is at version {after}, was {before}")
                };
                show(context, sentence, &json!({ "found": after, "was": before }));
                Ok(())
            }
            Action::Status => {
                if let Some(file) = missing_file(url) {
                    let missing = format!("{} does not exist: `postrider migrate up` creates it", file.display());
                    show(context, missing, &json!({ "found": 0, "current": false }));
                    return Err(End::OutOfDate);
                }
                let SchemaVersion { found, needed } = store::connect(url).await?.schema_version().await?;
                let sentence = format!("the schema is at version {found}, this program needs {needed}");
                show(context, sentence, &json!({ "found": found, "needed": needed, "current": found == needed }));
                if found == needed { Ok(()) } else { Err(End::OutOfDate) }
            }
            Action::Print { roles: true, .. } => {
                print_data(store::roles(url)?);
                Ok(())
            }
            Action::Print { from, .. } => {
                print_data(store::migrations(url, from)?);
                Ok(())
            }
        }
    }
}
