-- ?1 hash.
UPDATE postrider_session SET seen_at = (SELECT now FROM postrider_clock) WHERE hash = ?1
