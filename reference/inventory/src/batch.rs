//! A batch to deduct, validated before anything is written.

use std::collections::BTreeMap;

use serde_json::json;

use crate::Error;

/// The limit of an order, product or SKU id: short enough for an index in every database.
pub const ID_CHARS: usize = 64;
/// The limit of an idempotency key: that of the HTTP header.
pub const KEY_CHARS: usize = postrider::limits::IDEMPOTENCY_KEY_CHARS;
/// The limit of items per batch: each is a locked row until its shard commits.
pub const ITEMS: usize = 500;
/// The limit of an item's quantity and of a product's stock, so that sums do not overflow 64 bits.
pub const PIECES: i64 = 1_000_000_000_000;

/// A quantity of one SKU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The product. Its hash selects the shard.
    pub product_id: String,
    /// Its variant.
    pub sku_id: String,
    /// The quantity, at least 1.
    pub quantity: i64,
}

/// The items that one order deducts.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(crate) order_id: String,
    pub(crate) product_ids: Vec<String>,
    pub(crate) sku_ids: Vec<String>,
    pub(crate) quantities: Vec<i64>,
    /// The items, each SKU once and sorted. All transactions lock stock in this order, which prevents deadlocks.
    pub(crate) items: Vec<Item>,
}

impl Batch {
    /// Creates a batch from three parallel lists, as the log stores them.
    pub fn new(
        order_id: String,
        product_ids: Vec<String>,
        sku_ids: Vec<String>,
        quantities: Vec<i64>,
    ) -> Result<Self, Error> {
        check_id("orderId", &order_id)?;
        let lengths = [product_ids.len(), sku_ids.len(), quantities.len()];
        if lengths.iter().any(|length| *length != lengths[0]) {
            let [products, skus, quantities] = lengths;
            let message = format!("are {products}, skuIds {skus}, quantities {quantities}: give as many of each");
            return Err(Error::invalid("productIds", message));
        }
        if product_ids.is_empty() || product_ids.len() > ITEMS {
            return Err(Error::invalid("productIds", format!("must be 1 to {ITEMS}, are {}", product_ids.len())));
        }
        let mut sums: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for (at, ((product, sku), quantity)) in product_ids.iter().zip(&sku_ids).zip(&quantities).enumerate() {
            check_id(&format!("productIds[{at}]"), product)?;
            check_id(&format!("skuIds[{at}]"), sku)?;
            if !(1..=PIECES).contains(quantity) {
                return Err(Error::invalid(
                    &format!("quantities[{at}]"),
                    format!("must be 1 to {PIECES}, is {quantity}"),
                ));
            }
            *sums.entry((product, sku)).or_default() += quantity;
        }
        let items = sums.into_iter().map(|((product, sku), quantity)| Item {
            product_id: product.to_owned(),
            sku_id: sku.to_owned(),
            quantity,
        });
        Ok(Self { items: items.collect(), order_id, product_ids, sku_ids, quantities })
    }

    /// The key of a batch without an explicit key.
    pub fn default_key(&self) -> String {
        format!("{}-DEDUCT", self.order_id)
    }

    /// The identity of a request: the order and its total quantities, independent of the order of the lists.
    pub(crate) fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        let items: Vec<_> = self.items.iter().map(|item| (&item.product_id, &item.sku_id, item.quantity)).collect();
        let request = json!({ "orderId": self.order_id, "items": items });
        Ok(postrider::idempotency::fingerprint(&request)?.to_vec())
    }
}

/// Validates an id. Spaces at its ends are refused, because such ids look the same.
pub fn check_id(field: &str, id: &str) -> Result<(), Error> {
    check_text(field, id, ID_CHARS)
}

/// Validates a key.
pub fn check_key(key: &str) -> Result<(), Error> {
    check_text("idempotencyKey", key, KEY_CHARS)
}

fn check_text(field: &str, text: &str, max: usize) -> Result<(), Error> {
    let chars = text.chars().count();
    let message = match () {
        () if chars == 0 || chars > max => format!("must have 1 to {max} characters, has {chars}"),
        () if text.chars().any(char::is_control) => "may not hold control characters".to_owned(),
        () if text.trim() != text => "may not begin or end with a space".to_owned(),
        () => return Ok(()),
    };
    Err(Error::invalid(field, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(products: &[&str], skus: &[&str], quantities: &[i64]) -> Result<Batch, Error> {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        Batch::new("7".into(), owned(products), owned(skus), quantities.to_vec())
    }

    /// C.3
    #[test]
    fn one_sku_listed_twice_is_one_item_of_both() {
        let items = batch(&["b", "a", "b"], &["1", "1", "1"], &[2, 1, 3]).expect("valid").items;
        let items: Vec<_> = items.iter().map(|i| (i.product_id.as_str(), i.quantity)).collect();
        assert_eq!(items, [("a", 1), ("b", 5)]);
    }

    /// C.5
    #[test]
    fn the_order_of_a_list_makes_no_other_request_but_a_quantity_does() {
        let one = batch(&["a", "b"], &["1", "2"], &[1, 2]).expect("valid").fingerprint().expect("JSON");
        let turned = batch(&["b", "a"], &["2", "1"], &[2, 1]).expect("valid").fingerprint().expect("JSON");
        let more = batch(&["a", "b"], &["1", "2"], &[1, 3]).expect("valid").fingerprint().expect("JSON");
        assert_eq!(one, turned);
        assert_ne!(one, more);
    }

    /// C.3
    #[test]
    fn what_cannot_be_deducted_is_refused() {
        assert!(batch(&["a"], &["1"], &[PIECES]).is_ok());
        assert!(batch(&["a"; ITEMS], &["1"; ITEMS], &[1; ITEMS]).is_ok());
        assert!(batch(&[], &[], &[]).is_err());
        assert!(batch(&["a"], &["1"], &[]).is_err());
        assert!(batch(&["a"], &["1", "2"], &[1]).is_err());
        assert!(batch(&["a"; ITEMS + 1], &["1"; ITEMS + 1], &[1; ITEMS + 1]).is_err());
        for quantity in [0, -1, i64::MIN, PIECES + 1] {
            assert!(batch(&["a"], &["1"], &[quantity]).is_err(), "{quantity}");
        }
        for id in ["", " a", "a\n", &"a".repeat(ID_CHARS + 1)] {
            assert!(batch(&[id], &["1"], &[1]).is_err(), "{id:?}");
        }
    }
}
