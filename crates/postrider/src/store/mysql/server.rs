//! Checks whether the server is supported.

use crate::error::{Error, Result};

/// The oldest supported versions: both have `SKIP LOCKED` and `JSON_TABLE`, and MySQL's has the collation that
/// compares byte for byte and keeps trailing spaces.
const NEEDED: &str = "use MariaDB 10.6 or later, or MySQL 8.0.17 or later";
const OLDEST_MARIADB: (u32, u32, u32) = (10, 6, 0);
const OLDEST_MYSQL: (u32, u32, u32) = (8, 0, 17);
/// The largest event has 1 MiB of payload and about 40 KiB of other fields.
const SMALLEST_PACKET: u64 = 2 * 1024 * 1024;

/// The server's properties, as `server.sql` reads them.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) version: String,
    /// `ROW`, `MIXED` or `STATEMENT`; empty without a binary log.
    pub(super) binlog_format: String,
    pub(super) max_allowed_packet: u64,
}

impl Server {
    /// Refuses a server that would lose, mix up or refuse work, and names what to change.
    pub(super) fn check(&self, store: &str) -> Result<()> {
        let unsupported = |why: String| Err(Error::Unsupported(format!("{store}: {why}")));
        let mariadb = self.version.to_ascii_lowercase().contains("mariadb");
        let (name, oldest) = if mariadb { ("MariaDB", OLDEST_MARIADB) } else { ("MySQL", OLDEST_MYSQL) };
        match number(&self.version) {
            Some(version) if version >= oldest => {}
            Some((major, minor, patch)) => {
                return unsupported(format!(
                    "{name} {major}.{minor}.{patch} lacks what claims need (SKIP LOCKED, JSON_TABLE): {NEEDED}"
                ));
            }
            None => return unsupported(format!("the server calls itself {:?}: {NEEDED}", self.version)),
        }
        if self.binlog_format.eq_ignore_ascii_case("STATEMENT") {
            return unsupported(
                "its binary log is written by statement, which refuses READ COMMITTED: set binlog_format to MIXED or ROW"
                    .into(),
            );
        }
        if self.max_allowed_packet < SMALLEST_PACKET {
            return unsupported(format!(
                "max_allowed_packet is {}, and an event may be larger: set it to {SMALLEST_PACKET} or more",
                self.max_allowed_packet
            ));
        }
        Ok(())
    }
}

/// The first three numbers of a version: `10.11.6-MariaDB-1:…`, `8.0.36-28`, `8.4.0`. Some MariaDB versions have the
/// prefix `5.5.5-`.
fn number(version: &str) -> Option<(u32, u32, u32)> {
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let numbers = version.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(version: &str) -> Server {
        Server { version: version.into(), binlog_format: String::new(), max_allowed_packet: 16 << 20 }
    }

    /// F29: a server without SKIP LOCKED is refused with the versions that have it, and never reports "0 jobs".
    #[test]
    fn a_server_without_skip_locked_is_refused() {
        for old in
            ["10.5.27-MariaDB", "5.5.5-10.3.39-MariaDB-log", "5.7.44", "8.0.11-TiDB-v7.5.0", "8.0.16", "nonsense"]
        {
            let refused = server(old).check("mysql://host/shop").expect_err(old).to_string();
            assert!(refused.contains("MariaDB 10.6") && refused.contains("MySQL 8.0.17"), "{refused}");
        }
        for new in
            ["10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB", "8.0.17", "8.0.36-28", "8.4.0", "9.1.0"]
        {
            server(new).check("").expect(new);
        }
    }

    #[test]
    fn a_server_that_would_refuse_our_statements_is_refused_first() {
        let by_statement = Server { binlog_format: "STATEMENT".into(), ..server("8.0.36") };
        assert!(by_statement.check("").expect_err("refused").to_string().contains("binlog_format"));
        let small = Server { max_allowed_packet: 1 << 20, ..server("8.0.36") };
        assert!(small.check("").expect_err("refused").to_string().contains("max_allowed_packet"));
    }
}
