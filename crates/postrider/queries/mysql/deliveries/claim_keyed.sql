-- Leases what claim_keyed_lock.sql has taken; docs/decisions/0003-order-by-key.md tells the steps. ? ids as JSON, ? token,
-- ? owner, ? lease in ms.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
SET d.token = ?, d.lock_owner = ?, d.lock_time = UTC_TIMESTAMP(6),
    d.lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, d.attempts = d.attempts + 1,
    -- One that was held, behind a delivery that was removed by hand, is held no longer.
    d.place = 1
