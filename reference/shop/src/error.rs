//! What can go wrong, sorted by what the caller can do about it.

use postrider::Failure;
use postrider::idempotency::IdempotencyError;

use crate::database;

/// A result whose error is [`ShopError`].
pub type Result<T, E = ShopError> = std::result::Result<T, E>;

/// Why something did not happen. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ShopError {
    /// There is no such thing.
    #[error("there is no {what} {id:?}")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// Which.
        id: String,
    },
    /// A step that its state does not allow.
    #[error("{what} {id} is {status}: this needs {}", needed.join(" or "))]
    Illegal {
        /// What kind of thing.
        what: &'static str,
        /// Which.
        id: String,
        /// Its state.
        status: String,
        /// The states from which it would have been possible.
        needed: &'static [&'static str],
    },
    /// Something else is in the way.
    #[error("{detail}")]
    Conflict {
        /// What, for programs.
        code: &'static str,
        /// What, for people.
        detail: String,
    },
    /// An asset cannot be had now, but may be later.
    #[error("{detail}")]
    NotYet {
        /// Why, for programs.
        code: &'static str,
        /// Why, for people.
        detail: String,
    },
    /// A field breaks a rule.
    #[error("{field} {message}")]
    Invalid {
        /// The field, in the words of the API.
        field: &'static str,
        /// The rule, and how it was broken.
        message: String,
    },
    /// The database said no.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The store of events said no.
    #[error(transparent)]
    Store(#[from] postrider::Error),
}

impl ShopError {
    pub(crate) fn not_found(what: &'static str, id: &str) -> Self {
        Self::NotFound { what, id: id.to_owned() }
    }

    pub(crate) fn not_yet(code: &'static str, detail: impl Into<String>) -> Self {
        Self::NotYet { code, detail: detail.into() }
    }

    pub(crate) fn invalid(field: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { field, message: message.into() }
    }

    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "notFound",
            Self::Illegal { .. } => "illegalTransition",
            Self::Conflict { code, .. } | Self::NotYet { code, .. } => code,
            Self::Invalid { .. } => "invalid",
            Self::Database(_) | Self::Store(_) => "store",
        }
    }

    /// The database has ended the transaction for the sake of another: it can be run again whole.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Database(error) => database::is_lost(error),
            Self::Store(error) => matches!(error, postrider::Error::TransactionLost(_)),
            _ => false,
        }
    }

    /// What it is to a consumer: what a later try cannot mend either is rejected.
    pub(crate) fn failure(self) -> Failure {
        let code = self.code();
        let failure = match &self {
            Self::NotFound { .. } | Self::Illegal { .. } | Self::Conflict { .. } | Self::Invalid { .. } => {
                Failure::reject(&self)
            }
            Self::NotYet { .. } => Failure::retry(&self),
            Self::Database(_) | Self::Store(_) => Failure::from(self),
        };
        failure.code(code)
    }
}

impl From<IdempotencyError<ShopError>> for ShopError {
    fn from(error: IdempotencyError<ShopError>) -> Self {
        match error {
            IdempotencyError::Work(error) => error,
            IdempotencyError::Store(error) => Self::Store(error),
            IdempotencyError::Mismatch => {
                Self::Conflict { code: "keyMismatch", detail: "this key was used for another operation".into() }
            }
            other => Self::not_yet("inProgress", other.to_string()),
        }
    }
}
