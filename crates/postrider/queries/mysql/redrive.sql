-- Makes a delivery due now. ? delivery.
UPDATE postrider_delivery
SET due_at = UTC_TIMESTAMP(6), attempts = 0, place = CASE WHEN event_key IS NULL THEN 0 ELSE 1 END,
    token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
WHERE id = ?
