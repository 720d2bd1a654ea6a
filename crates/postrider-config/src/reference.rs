//! The reference page, `docs/configuration.md`.

use std::fmt::Write as _;

use crate::key::{Kind, Spec};
use crate::{inventory, server, shop};

const HEAD: &str = "\
# Configuration

A value comes from a flag, else from the environment, else from `postrider.toml`, else it is the default.
`GET /api/v1/config` lists the values that a server uses and where each comes from; secrets are hidden.

| where | how |
|---|---|
| flag | `--set outbox.batch-size=50`, as often as needed; some keys also have a flag of their own |
| environment | `POSTRIDER_OUTBOX__BATCH_SIZE=50`: two underscores after the section, one for each hyphen |
| file | `postrider.toml` in the working directory, or the file that `--config` or `POSTRIDER_CONFIG` names |

```toml
listen = \"127.0.0.1:7070\"

[outbox]
batch-size = 50
```

All programs may share one file. Each reads its own keys; a key of no program is refused. A file with a secret, or with a password in a URL,
is refused if every user can open it (`chmod 600 postrider.toml`).
This page is generated from `crates/postrider-config`.
";

/// The reference page.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for (heading, keys) in [("The server", server::ALL), ("The shop", shop::ALL), ("The inventory", inventory::ALL)] {
        let _ = write!(page, "\n## {heading}\n\n| key | default | value | what it is for |\n|---|---|---|---|\n");
        for Spec { name, default, about, kind } in keys {
            let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
            let rule = match kind {
                Kind::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
                kind => kind.rule(),
            };
            let _ = writeln!(page, "| `{name}` | {default} | {rule} | {about} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// `POSTRIDER_UPDATE=1` writes the page anew.
    #[test]
    fn the_reference_page_is_golden() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let now = super::reference();
        if std::env::var_os("POSTRIDER_UPDATE").is_some() {
            std::fs::write(&path, &now).expect("the page can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(golden == now, "docs/configuration.md is out of date: run this test with POSTRIDER_UPDATE=1");
    }
}
