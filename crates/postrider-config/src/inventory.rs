//! The keys of the reference inventory.

use crate::key::keys;

keys! {
    SHARDS: u32 = number("inventory.shards", "3", 1, 64), "The number of databases that stock is spread over; a product's place is a hash with 64 values";
}
