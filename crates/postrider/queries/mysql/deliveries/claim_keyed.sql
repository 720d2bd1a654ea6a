-- Leases what claim_keyed_lock.sql has locked; docs/decisions/0003-order-by-key.md describes the steps. ? ids as JSON, ? token,
-- ? owner, ? lease in ms.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
SET d.token = ?, d.lock_owner = ?, d.lock_time = UTC_TIMESTAMP(6),
    d.lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, d.attempts = d.attempts + 1,
    -- A delivery that was held behind one that was removed by hand is not held any more.
    d.place = 1
