//! Tokens, sessions of the console, secrets of webhooks, and the audit log. Of tokens and sessions only hashes are stored.

use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::limits;
use crate::scope::Scope;

use super::OwnSecrets;
use super::audit::Change;
pub use super::audit::{
    AuditCheck, AuditEnds, AuditFault, AuditLog, AuditQuery, AuditRecord, Audited, Link, NewAudit, Sealed, audited,
    explain, verify_audit,
};

/// Precision of "last used". A write for every request would cost too much.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) const USED_WITHIN: Duration = Duration::from_secs(60);

/// Tokens and sessions of a server, and secrets that sign. Object safe, and part of every [`Store`](super::Store).
#[async_trait]
pub trait Access: Send + Sync + 'static {
    /// Stores a token. Returns false, and writes nothing, if its id or its hash is taken.
    async fn create_token(&self, token: &NewToken<'_>) -> Result<bool>;

    /// Returns the token with this hash and records its use, to the minute. Returns `None` if it does not exist, is
    /// revoked or has expired.
    async fn find_token(&self, hash: &str) -> Result<Option<StoredToken>>;

    /// All tokens, including revoked ones, in order of creation.
    async fn tokens(&self) -> Result<Vec<StoredToken>>;

    /// Revokes a token permanently and ends all of its sessions. Returns false if it does not exist or is revoked
    /// already.
    async fn revoke_token(&self, token_id: &str) -> Result<bool>;

    /// Begins a session of a token, and removes sessions that have ended.
    async fn create_session(&self, session: &NewSession<'_>) -> Result<()>;

    /// Returns the token of a session and records its use, to the minute. Returns `None` if the session does not
    /// exist, has ended or was not used for `idle`, or if its token is revoked.
    async fn find_session(&self, hash: &str, idle: Duration) -> Result<Option<StoredToken>>;

    /// Ends a session. Returns false if it does not exist.
    async fn end_session(&self, hash: &str) -> Result<bool>;

    /// The secrets of webhooks that have their own, by topic and consumer. Only for those who sign: no other read shows them.
    async fn webhook_secrets(&self) -> Result<Vec<OwnSecrets>>;
}

/// Hashes a secret for storage. The hash is fast, so the secret must be impossible to guess.
pub fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret))
}

/// Returns the token from an `Authorization: Bearer …` header.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What a token may do. The server defines which role may call what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// May read.
    Viewer,
    /// May publish events.
    Publisher,
    /// May claim events and report on them.
    Consumer,
    /// May pause, resume and redrive.
    Operator,
    /// May do everything.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Publisher, Self::Consumer, Self::Operator, Self::Admin];

    /// Its name in SQL, API and command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Publisher => "publisher",
            Self::Consumer => "consumer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            Error::invalid("role", format!("must be viewer, publisher, consumer, operator or admin, is {text:?}"))
        })
    }
}

/// A token to be stored.
#[derive(Debug, Clone)]
pub struct NewToken<'a> {
    /// Unique id.
    pub token_id: &'a str,
    /// The owner's name. It appears in the audit log and as initiator of events.
    pub name: &'a str,
    /// What it may do.
    pub role: Role,
    /// The hash of the secret, as text.
    pub hash: &'a str,
    /// What it reaches.
    pub scope: Scope,
    /// How long it lasts; `None`: until it is revoked.
    pub lasts: Option<Duration>,
}

impl NewToken<'_> {
    /// Validates the fields, so that stores do not have to.
    pub(crate) fn check(&self) -> Result<()> {
        limits::text("tokenId", self.token_id, limits::EVENT_ID_CHARS)?;
        limits::text("name", self.name, limits::LABEL_CHARS)?;
        self.scope.check()?;
        if self.role == Role::Publisher && !self.scope.consumers.is_empty() {
            let message =
                "limit no publisher, because an event belongs to all of its consumers: limit topics or tenants";
            return Err(Error::invalid("consumers", message.into()));
        }
        limits::text("hash", self.hash, limits::LABEL_CHARS)
    }

    /// What the audit has of it: everything but the secret.
    pub(super) fn change(&self) -> Change {
        let token = serde_json::json!({
            "tokenId": self.token_id, "name": self.name, "role": self.role.as_str(), "scope": self.scope,
            "lastsSeconds": self.lasts.map(|lasts| lasts.as_secs()),
        });
        Change::new(None, token)
    }
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Unique id.
    pub token_id: String,
    /// The owner's name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// When it was last used, to the minute; `None` if never.
    pub last_used_at: Option<OffsetDateTime>,
    /// When it was revoked.
    pub revoked_at: Option<OffsetDateTime>,
    /// When it stops working by itself.
    pub expires_at: Option<OffsetDateTime>,
    /// What it reaches.
    pub scope: Scope,
}

impl StoredToken {
    /// Whether it works at this time.
    pub fn is_live(&self, now: OffsetDateTime) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|until| now < until)
    }
}

/// A session to be stored.
#[derive(Debug, Clone)]
pub struct NewSession<'a> {
    /// The hash of its secret, as text.
    pub hash: &'a str,
    /// The token that it belongs to.
    pub token_id: &'a str,
    /// How long it lasts, even if it is in use.
    pub lasts: Duration,
}

impl NewSession<'_> {
    /// Validates the fields, so that stores do not have to.
    pub(crate) fn check(&self) -> Result<()> {
        limits::text("hash", self.hash, limits::LABEL_CHARS)?;
        limits::text("tokenId", self.token_id, limits::EVENT_ID_CHARS)
    }
}
