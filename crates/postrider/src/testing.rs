//! What only tests may do. Behind the feature `testing`, so that no release program has it.

use std::future::Future;
use std::time::Duration;

use crate::error::Result;
use crate::store::Store;

/// Ages what is stored, so that no test has to sleep until a lease runs out.
pub trait Age: Store {
    /// Moves every stored time back, as if `by` had passed.
    fn age(&self, by: Duration) -> impl Future<Output = Result<()>> + Send;
}
