-- For tests: moves stored times back by $1 ms.
WITH age AS (SELECT $1 * interval '1 ms' AS by),
event AS (
    UPDATE postrider_event SET created_at = created_at - by, expire_at = expire_at - by, deliver_at = deliver_at - by FROM age
), delivery AS (
    UPDATE postrider_delivery SET due_at = due_at - by, lock_time = lock_time - by, lock_until = lock_until - by FROM age
), consumption AS (
    UPDATE postrider_consumption SET created_at = created_at - by, consumed_at = consumed_at - by FROM age
), inbox AS (
    UPDATE postrider_inbox SET received_at = received_at - by FROM age
), idempotency AS (
    UPDATE postrider_idempotency SET lock_until = lock_until - by, created_at = created_at - by, updated_at = updated_at - by FROM age
), status AS (
    UPDATE postrider_status SET redriven_at = redriven_at - by, expired_at = expired_at - by, sent_at = sent_at - by,
        last_sent_at = last_sent_at - by, created_at = created_at - by, expires_at = expires_at - by,
        status_at = status_at - by, updated_at = updated_at - by
    FROM age
)
UPDATE postrider_lease SET lock_time = lock_time - by, lock_until = lock_until - by FROM age
