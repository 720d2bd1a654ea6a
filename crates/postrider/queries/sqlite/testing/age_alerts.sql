-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_alert SET since = since - ?1, over_at = over_at - ?1
