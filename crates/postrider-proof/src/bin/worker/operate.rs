//! `worker operate`: processes bulk operations until it is killed.

use std::error::Error;

use postrider::Store;
use postrider::operations::Operations;

pub(crate) async fn operate(store: impl Store) -> Result<(), Box<dyn Error>> {
    println!("operating");
    Operations::new(store).run(std::future::pending()).await?;
    Ok(())
}
