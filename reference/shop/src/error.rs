//! Errors, by what the caller can do about them.

use postrider::Failure;
use postrider::idempotency::IdempotencyError;
use postrider::store::{TransactionError, is_transaction_lost};

/// A result whose error is [`ShopError`].
pub type Result<T, E = ShopError> = std::result::Result<T, E>;

/// Why a call failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ShopError {
    /// The object does not exist.
    #[error("there is no {what} {id:?}")]
    NotFound {
        /// The kind of object.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The current status does not allow this step.
    #[error("{what} {id} is {status}: this needs {}", needed.join(" or "))]
    Illegal {
        /// The kind of object.
        what: &'static str,
        /// Its id.
        id: String,
        /// Its status.
        status: String,
        /// The statuses that allow the step.
        needed: &'static [&'static str],
    },
    /// Another object conflicts.
    #[error("{detail}")]
    Conflict {
        /// A code for programs.
        code: &'static str,
        /// A message for users.
        detail: String,
    },
    /// An asset is not available now, but may be later.
    #[error("{detail}")]
    NotYet {
        /// A code for programs.
        code: &'static str,
        /// A message for users.
        detail: String,
    },
    /// A field breaks a rule.
    #[error("{field} {message}")]
    Invalid {
        /// The field's name in the API.
        field: &'static str,
        /// The rule that it breaks.
        message: String,
    },
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// An error of the event store.
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

    /// A code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "notFound",
            Self::Illegal { .. } => "illegalTransition",
            Self::Conflict { code, .. } | Self::NotYet { code, .. } => code,
            Self::Invalid { .. } => "invalid",
            Self::Database(_) | Self::Store(_) => "store",
        }
    }

    /// Maps the error to a consumer's failure. An error that a retry cannot fix is rejected.
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

impl TransactionError for ShopError {
    fn is_transaction_lost(&self) -> bool {
        match self {
            Self::Database(error) => is_transaction_lost(error),
            Self::Store(error) => error.is_transaction_lost(),
            _ => false,
        }
    }
}
