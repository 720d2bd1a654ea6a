//! What each asset operation tells about itself. Consumers keep it with their results, and the story of an order adds it up: the net
//! of each asset of a canceled or refunded order is 0.
//!
//! What counts is what the customer can spend: a lock takes it, a commit changes nothing more, and a release or return gives it
//! back. An operation that another consumer has already done is told again under the same key, and counts once.

use postrider::Effect;
use serde::Serialize;

use crate::ledger::Moved;
use crate::orders::Order;

/// The result of an operation, with its effect if it moved anything.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Told {
    #[serde(flatten)]
    moved: Moved,
    #[serde(flatten)]
    effect: Option<Effect>,
}

impl Told {
    /// An operation without an asset.
    pub(crate) fn nothing(why: &str) -> Self {
        Self { moved: Moved::nothing(why), effect: None }
    }

    fn new(moved: Moved, effect: impl FnOnce(i64) -> Effect) -> Self {
        let effect = match &moved {
            Moved::Done { amount } => Some(effect(*amount)),
            Moved::Nothing { .. } | Moved::Refused { .. } => None,
        };
        Self { moved, effect }
    }

    pub(crate) fn moved(&self) -> &Moved {
        &self.moved
    }
}

/// An operation on a coupon: `checkout`, `commit`, `release` or `return`.
pub(crate) fn coupon(order: &Order, operation: &str, moved: Moved) -> Told {
    Told::new(moved, |_| {
        let id = order.coupon_id.as_deref().unwrap_or_default();
        let key = |operation: &str| format!("order:{}:{operation}", order.order_id);
        let (did, delta) = match operation {
            "checkout" => ("locked", "-1"),
            "commit" => ("spent", "0"),
            "release" => ("released", "+1"),
            _ => ("returned", "+1"),
        };
        let effect = Effect::new(format!("{did} {id}")).moved(format!("Coupon {id}"), delta).key(key(operation));
        match operation {
            "release" => effect.undoes(key("checkout")),
            "return" => effect.undoes(key("checkout")).undoes(key("commit")),
            _ => effect,
        }
    })
}

/// An operation on a wallet: `freeze`, `commit`, `release` or `revert`. The key of the last is that of its refund.
pub(crate) fn wallet(order: &Order, operation: &str, of: &str, moved: Moved) -> Told {
    Told::new(moved, |cents| {
        let amount = format!("{}.{:02}", cents / 100, cents % 100);
        let key = |operation: &str| format!("wallet:{}:{operation}", order.order_id);
        let (did, delta) = match operation {
            "freeze" => ("froze", format!("-{amount}")),
            "commit" => ("paid", "0".into()),
            "release" => ("released", format!("+{amount}")),
            _ => ("gave back", format!("+{amount}")),
        };
        let effect = Effect::new(format!("{did} {amount}")).moved(format!("Wallet of {}", order.user_id), delta);
        match operation {
            "release" => effect.key(key(operation)).undoes(key("freeze")),
            "revert" => effect.key(format!("wallet:{of}:revert")).undoes(key("freeze")).undoes(key("commit")),
            _ => effect.key(key(operation)),
        }
    })
}

/// An operation on points: `freeze`, `commit`, `release`, `earn` or `revert`. The key of the last is that of its refund.
pub(crate) fn points(order: &Order, operation: &str, of: &str, moved: Moved) -> Told {
    Told::new(moved, |amount| {
        let key = |operation: &str| format!("points:{}:{operation}", order.order_id);
        let (did, delta) = match operation {
            "freeze" => (format!("froze {amount}"), -amount),
            "commit" => (format!("spent {amount}"), 0),
            "release" => (format!("released {amount}"), amount),
            "earn" => (format!("earned {amount}"), amount),
            // What was spent comes back, and what was earned goes.
            _ => (format!("reverted {amount:+}"), amount),
        };
        let effect = Effect::new(did).moved(format!("Points of {}", order.user_id), format!("{delta:+}"));
        match operation {
            "release" => effect.key(key(operation)).undoes(key("freeze")),
            "revert" => {
                let names = ["freeze", "commit", "earn"].map(key);
                names.into_iter().fold(effect.key(format!("points:{of}:revert")), Effect::undoes)
            }
            _ => effect.key(key(operation)),
        }
    })
}

/// Goods that were taken from the stock, or put back.
pub(crate) fn stock(order: &Order, key: &str, taken: bool) -> Vec<Effect> {
    let effect = |item: &crate::orders::Item| {
        let goods = format!("{}/{}", item.product_id, item.sku_id);
        let (did, sign) = if taken { ("took", '-') } else { ("put back", '+') };
        let effect = Effect::new(format!("{did} {} × {goods}", item.quantity));
        let effect = effect.moved(format!("Stock of {goods}"), format!("{sign}{}", item.quantity));
        if taken {
            effect.key(format!("{key}/{goods}"))
        } else {
            effect.key(format!("{key}/{goods}:release")).undoes(format!("{key}/{goods}"))
        }
    };
    order.items.iter().map(effect).collect()
}
