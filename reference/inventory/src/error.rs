//! Errors, by what the caller can do about them.

use postrider::store::{TransactionError, is_transaction_lost};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field breaks a rule. Nothing was written.
    #[error("{field} {message}")]
    Invalid {
        /// The field's name in the API.
        field: String,
        /// The rule that it breaks.
        message: String,
    },
    /// The SKU was never put into stock. Nothing was written.
    #[error("{field}: there is no product {product_id:?} with SKU {sku_id:?}")]
    UnknownProduct {
        /// Its position in the request.
        field: String,
        /// The product.
        product_id: String,
        /// Its variant.
        sku_id: String,
    },
    /// The key belongs to another request. Nothing was done; use another key.
    #[error("this key belongs to another request: use another key")]
    Mismatch,
    /// A deduction with this key is in progress. Retry later with the same key and request.
    #[error("a deduction with this key is in progress: try again later")]
    InProgress,
    /// The stock is too small. Nothing was deducted; may be retried with the same key.
    #[error("not enough in stock of product {product_id:?} with SKU {sku_id:?}: nothing was deducted")]
    OutOfStock {
        /// The product.
        product_id: String,
        /// Its variant.
        sku_id: String,
    },
    /// The key was released: it can no longer deduct.
    #[error("the stock under this key was released: a new deduction needs a new key")]
    Released,
    /// A database did not answer, or refused. Retry with the same key, which is safe.
    #[error(transparent)]
    Store(#[from] postrider::Error),
    /// The same, for a statement of this service.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// The stored data is inconsistent. The transaction that found it is rolled back.
    #[error("{0}")]
    Corrupt(String),
}

impl Error {
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.to_owned(), message: message.into() }
    }

    /// Whether another transaction inserted the same row.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Sql(error) if error.as_database_error().is_some_and(|e| e.is_unique_violation()))
    }
}

impl TransactionError for Error {
    fn is_transaction_lost(&self) -> bool {
        match self {
            Self::Sql(error) => is_transaction_lost(error),
            Self::Store(error) => error.is_transaction_lost(),
            _ => false,
        }
    }
}
