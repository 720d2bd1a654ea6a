-- For tests: as if ?1 ms had passed.
UPDATE postrider_idempotency SET lock_until = lock_until - ?1, created_at = created_at - ?1, updated_at = updated_at - ?1
