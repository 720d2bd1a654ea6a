-- For tests: as if ?1 ms had passed.
UPDATE postrider_inbox SET received_at = received_at - ?1
