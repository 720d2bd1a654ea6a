//! Who may come in, and who did what: tokens, sessions of the console, and the audit. Secrets are never stored, only what
//! they hash to.

use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::limits;

/// How exactly the last use of a token or session is known: a write for every request would cost more than it tells.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) const USED_WITHIN: Duration = Duration::from_secs(60);

/// Tokens, sessions and the audit of a server. Every [`Store`](super::Store) has them; it is object safe as that is.
#[async_trait]
pub trait Access: Send + Sync + 'static {
    /// Writes a token down. False: its id or its hash is taken, and nothing is written.
    async fn create_token(&self, token: &NewToken<'_>) -> Result<bool>;

    /// The token with this hash, and takes note that it was used, to the minute. None: there is none, or it is revoked.
    async fn find_token(&self, hash: &str) -> Result<Option<StoredToken>>;

    /// All tokens, the revoked ones too, by their creation.
    async fn tokens(&self) -> Result<Vec<StoredToken>>;

    /// Revokes a token for good, and with it every session it has begun. False: there is none, or it was revoked before.
    async fn revoke_token(&self, token_id: &str) -> Result<bool>;

    /// Begins a session of a token, and forgets those that are over.
    async fn create_session(&self, session: &NewSession<'_>) -> Result<()>;

    /// The token behind a session that is not over, and takes note that it was used, to the minute. None: there is none,
    /// it is over, it was not used for `idle`, or its token is revoked.
    async fn find_session(&self, hash: &str, idle: Duration) -> Result<Option<StoredToken>>;

    /// Ends a session. False: there was none.
    async fn end_session(&self, hash: &str) -> Result<bool>;

    /// Appends a record. Nothing ever changes one.
    async fn append_audit(&self, record: &NewAudit<'_>) -> Result<()>;

    /// Up to `limit` records, newest first: those before the record with the number `before`, or the newest.
    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditRecord>>;
}

/// What is kept of a secret. The secret must be impossible to guess, because this hash is fast.
pub fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret))
}

/// The token of a caller who sends `Authorization: Bearer …`, from that header.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What a token may do; a server says which role may call what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Sees.
    Viewer,
    /// Writes events.
    Publisher,
    /// Takes events and reports.
    Consumer,
    /// Mends: pauses, resumes, redrives.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Publisher, Self::Consumer, Self::Operator, Self::Admin];

    /// The word for it everywhere: SQL, API, command line.
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

/// A token that is about to be stored.
#[derive(Debug, Clone)]
pub struct NewToken<'a> {
    /// Unique.
    pub token_id: &'a str,
    /// Whose it is, for people: it stands in the audit and as initiator of events.
    pub name: &'a str,
    /// What it may do.
    pub role: Role,
    /// What the secret hashes to, as text.
    pub hash: &'a str,
}

impl NewToken<'_> {
    /// Refuses what a store should not have to ask about.
    pub(crate) fn check(&self) -> Result<()> {
        limits::text("tokenId", self.token_id, limits::EVENT_ID_CHARS)?;
        limits::text("name", self.name, limits::LABEL_CHARS)?;
        limits::text("hash", self.hash, limits::LABEL_CHARS)
    }
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Unique.
    pub token_id: String,
    /// Whose it is.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it was last used, to the minute; None: never.
    pub last_used_at: Option<OffsetDateTime>,
    /// Since when it is no use.
    pub revoked_at: Option<OffsetDateTime>,
}

/// A session that begins.
#[derive(Debug, Clone)]
pub struct NewSession<'a> {
    /// What its secret hashes to, as text.
    pub hash: &'a str,
    /// The token that it stands for.
    pub token_id: &'a str,
    /// How long it lasts, however much it is used.
    pub lasts: Duration,
}

impl NewSession<'_> {
    /// Refuses what a store should not have to ask about.
    pub(crate) fn check(&self) -> Result<()> {
        limits::text("hash", self.hash, limits::LABEL_CHARS)?;
        limits::text("tokenId", self.token_id, limits::EVENT_ID_CHARS)
    }
}

/// Something that somebody did, or tried.
#[derive(Debug, Clone, Default)]
pub struct NewAudit<'a> {
    /// Who: the name of a token, or of a program.
    pub actor: &'a str,
    /// With which token.
    pub token_id: Option<&'a str>,
    /// What.
    pub action: &'a str,
    /// On what.
    pub target: Option<&'a str>,
    /// What came of it.
    pub outcome: &'a str,
    /// In which request.
    pub request_id: Option<&'a str>,
    /// Why, or what else there is to say.
    pub detail: Option<&'a str>,
}

/// A record as text that every store keeps: cut and without NUL, because a record is never refused for what it says.
#[derive(Debug, Clone)]
pub(super) struct AuditText {
    pub(super) actor: String,
    pub(super) token_id: Option<String>,
    pub(super) action: String,
    pub(super) target: Option<String>,
    pub(super) outcome: String,
    pub(super) request_id: Option<String>,
    pub(super) detail: Option<String>,
}

impl From<&NewAudit<'_>> for AuditText {
    fn from(record: &NewAudit<'_>) -> Self {
        let cut = |text: &str, chars| limits::error_text(text).chars().take(chars).collect::<String>();
        let label = |text: &str| cut(text, limits::LABEL_CHARS);
        Self {
            actor: label(record.actor),
            token_id: record.token_id.map(label),
            action: label(record.action),
            target: record.target.map(|text| cut(text, limits::AUDIT_TARGET_CHARS)),
            outcome: label(record.outcome),
            request_id: record.request_id.map(label),
            detail: record.detail.map(|text| cut(text, limits::ERROR_CHARS)),
        }
    }
}

/// A record of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its number: later ones are larger.
    pub number: i64,
    /// When.
    pub at: OffsetDateTime,
    /// Who.
    pub actor: String,
    /// With which token.
    pub token_id: Option<String>,
    /// What.
    pub action: String,
    /// On what.
    pub target: Option<String>,
    /// What came of it.
    pub outcome: String,
    /// In which request.
    pub request_id: Option<String>,
    /// Why, or what else there is to say.
    pub detail: Option<String>,
}
