//! Whether the server that answers is the one that the URL names. Its certificate is verified unless the URL says otherwise or
//! the connection does not leave this machine.

use std::error::Error as StdError;
use std::io;

use crate::error::Error;
use crate::host::is_this_machine;

/// What a URL says about the certificate of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verify {
    /// Nothing, and other machines are on the way: it is verified.
    ByDefault,
    /// What to do, and other machines are on the way.
    AsAsked,
    /// The connection does not leave this machine.
    Local,
}

impl Verify {
    /// `variable` is one of the environment that names a mode for every URL.
    pub(super) fn of(url: &str, host: &str, is_socket: bool, variable: Option<&str>) -> Self {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let names_mode = |pair: &str| pair.starts_with("sslmode=") || pair.starts_with("ssl-mode=");
        let is_asked =
            query.split('&').any(names_mode) || variable.is_some_and(|name| std::env::var_os(name).is_some());
        if is_socket || is_this_machine(host) {
            Self::Local
        } else if is_asked {
            Self::AsAsked
        } else {
            Self::ByDefault
        }
    }

    /// The author of the URL has chosen an insecure mode. Others should see it.
    pub(super) fn warn(self, store: &str, is_verified: bool) {
        if self == Self::AsAsked && !is_verified {
            tracing::warn!(
                store,
                "the certificate of the database is not verified: another server could read and change everything"
            );
        }
    }

    /// What to do about a certificate that is verified without being asked for.
    pub(super) fn advise(self, error: Error, secure: &str, insecure: &str) -> Error {
        match (&error, self) {
            (Error::Unavailable(cause), Self::ByDefault) if is_untrusted(&**cause) => Error::Unsupported(format!(
                "the server's certificate cannot be verified ({cause}). Add {secure} to the URL, with the file of its authority, \
                 or {insecure} if the network is trusted"
            )),
            _ => error,
        }
    }
}

/// A server without TLS, or with a certificate that is refused: the driver reports the latter as an error of reading.
fn is_untrusted(cause: &(dyn StdError + Send + Sync + 'static)) -> bool {
    match cause.downcast_ref::<sqlx::Error>() {
        Some(sqlx::Error::Tls(_)) => true,
        Some(sqlx::Error::Io(error)) => error.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S23
    #[test]
    fn a_certificate_is_verified_unless_the_url_says_otherwise() {
        let of = |url: &str, host: &str| Verify::of(url, host, false, None);
        assert_eq!(of("postgres://app@db/bus", "db"), Verify::ByDefault);
        assert_eq!(of("postgres://app@db/bus?application_name=x", "10.0.0.1"), Verify::ByDefault);
        assert_eq!(of("postgres://app@db/sslmode=disable", "db"), Verify::ByDefault);
        for asked in ["sslmode=require", "application_name=x&sslmode=disable", "ssl-mode=PREFERRED"] {
            assert_eq!(of(&format!("mysql://app@db/bus?{asked}"), "db"), Verify::AsAsked, "{asked}");
        }
        for local in ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"] {
            assert_eq!(of("postgres://app@db/bus", local), Verify::Local, "{local}");
        }
        assert_eq!(Verify::of("postgres:///bus", "/run/postgresql", true, None), Verify::Local);
        assert_eq!(of("postgres://app@0.0.0.0/bus", "0.0.0.0"), Verify::ByDefault);
    }
}
