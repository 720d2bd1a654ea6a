//! Why stock did not move, sorted by what the caller can do.

use sqlx::mysql::MySqlDatabaseError;

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field breaks a rule. Nothing was written.
    #[error("{field} {message}")]
    Invalid {
        /// The field, in the words of the API.
        field: String,
        /// The rule and how it was broken.
        message: String,
    },
    /// Nobody has ever put this into stock. Nothing was written.
    #[error("{field}: there is no product {product_id:?} with SKU {sku_id:?}")]
    UnknownProduct {
        /// Where it stands in the request.
        field: String,
        /// The product.
        product_id: String,
        /// Its variant.
        sku_id: String,
    },
    /// The key belongs to another request, done or not. Nothing was done; use another key.
    #[error("this key belongs to another request: use another key")]
    Mismatch,
    /// Somebody is at it. Ask again later, with the same key and request.
    #[error("a deduction with this key is in progress: try again later")]
    InProgress,
    /// There is not enough of something. Nothing was deducted; may be tried again with the same key.
    #[error("not enough in stock of product {product_id:?} with SKU {sku_id:?}: nothing was deducted")]
    OutOfStock {
        /// The product.
        product_id: String,
        /// Its variant.
        sku_id: String,
    },
    /// The order was canceled: this key deducts nothing any more.
    #[error("the stock under this key was released: a new deduction needs a new key")]
    Released,
    /// A database did not answer, or refused. Ask again with the same key: it knows what became of it.
    #[error(transparent)]
    Store(#[from] postrider::Error),
    /// The same, of a statement of ours.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// The books contradict themselves; the transaction that found it is rolled back.
    #[error("{0}")]
    Corrupt(String),
}

impl Error {
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.to_owned(), message: message.into() }
    }

    /// The database has ended the transaction for the sake of another, or one of its statements did not get a lock: nothing
    /// of it stays, and it can be run again whole.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Sql(error) => {
                // What both PostgreSQL and MySQL call a deadlock or a conflict; then MySQL's lock that did not come, and
                // its snapshot that is too old to write on.
                let code = error.as_database_error().and_then(|error| error.code());
                matches!(code.as_deref(), Some("40001" | "40P01")) || matches!(mysql_number(error), Some(1205 | 1020))
            }
            Self::Store(error) => matches!(error, postrider::Error::TransactionLost(_)),
            _ => false,
        }
    }

    /// A row that somebody else made at the same moment.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Sql(error) if error.as_database_error().is_some_and(|e| e.is_unique_violation()))
    }
}

fn mysql_number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}
