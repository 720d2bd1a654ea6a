-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_status SET redriven_at = redriven_at - ?1, expired_at = expired_at - ?1, sent_at = sent_at - ?1,
    last_sent_at = last_sent_at - ?1, created_at = created_at - ?1, expires_at = expires_at - ?1, status_at = status_at - ?1,
    updated_at = updated_at - ?1
