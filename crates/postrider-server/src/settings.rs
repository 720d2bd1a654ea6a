//! The effective configuration, for `GET /config`.

use serde::Serialize;
use utoipa::ToSchema;

/// One value of the configuration, and where it comes from.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Setting {
    /// Its key, as in `postrider.toml`.
    pub key: String,
    /// What counts; `***` for a secret.
    pub value: String,
    /// `flag`, `environment`, `file` or `default`.
    pub origin: String,
}
