//! Accounts: the wallet, points and coupons of a user.

use postrider::prelude::*;
use serde::Serialize;

use crate::database::Database;
use crate::error::{Result, ShopError};
use crate::orders::{check_amount, check_id};
use crate::shop::Shop;
use crate::{coupons, points, wallet};

/// The balances of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Account {
    /// In cents.
    pub wallet: wallet::Balance,
    /// In points.
    pub points: points::Balance,
}

/// Opens the wallet and the points of a user.
pub async fn open<S: Database>(shop: &Shop<S>, user_id: &str, wallet_cents: i64, points: i64) -> Result<Account> {
    check_id("userId", user_id)?;
    check_amount("walletCents", wallet_cents)?;
    check_amount("points", points)?;
    shop.store
        .transaction(|mut tx| async move {
            wallet::open::<S>(&mut tx, user_id, wallet_cents).await.map_err(|e| taken(e, "account", user_id))?;
            points::open::<S>(&mut tx, user_id, points).await?;
            Ok::<_, ShopError>((tx, ()))
        })
        .await?;
    find(shop, user_id).await
}

/// Reads the balances of a user.
pub async fn find<S: Database>(shop: &Shop<S>, user_id: &str) -> Result<Account> {
    let mut tx = shop.store.begin().await?;
    match (wallet::find::<S>(&mut tx, user_id).await?, points::find::<S>(&mut tx, user_id).await?) {
        (Some(wallet), Some(points)) => Ok(Account { wallet, points }),
        _ => Err(ShopError::not_found("account", user_id)),
    }
}

/// Gives a user a coupon.
pub async fn give_coupon<S: Database>(
    shop: &Shop<S>,
    coupon_id: &str,
    user_id: &str,
    discount_cents: i64,
) -> Result<coupons::Coupon> {
    check_id("couponId", coupon_id)?;
    check_id("userId", user_id)?;
    check_amount("discountCents", discount_cents)?;
    shop.store
        .transaction(|mut tx| async move {
            let opened = coupons::open::<S>(&mut tx, coupon_id, user_id, discount_cents).await;
            opened.map_err(|e| taken(e, "coupon", coupon_id))?;
            Ok::<_, ShopError>((tx, ()))
        })
        .await?;
    find_coupon(shop, coupon_id).await
}

/// Reads a coupon.
pub async fn find_coupon<S: Database>(shop: &Shop<S>, coupon_id: &str) -> Result<coupons::Coupon> {
    let mut tx = shop.store.begin().await?;
    coupons::find::<S>(&mut tx, coupon_id).await?.ok_or_else(|| ShopError::not_found("coupon", coupon_id))
}

/// Maps a unique violation to a conflict.
fn taken(error: ShopError, what: &str, id: &str) -> ShopError {
    match error {
        ShopError::Database(e) if e.as_database_error().is_some_and(|e| e.is_unique_violation()) => {
            ShopError::Conflict { code: "exists", detail: format!("{what} {id:?} already exists") }
        }
        other => other,
    }
}
