-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_inbox SET received_at = received_at - ?1
