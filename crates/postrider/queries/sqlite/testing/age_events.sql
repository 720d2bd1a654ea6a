-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_event SET created_at = created_at - ?1, expire_at = expire_at - ?1, deliver_at = deliver_at - ?1
