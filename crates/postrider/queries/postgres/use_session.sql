-- $1 hash.
UPDATE postrider_session SET seen_at = now() WHERE hash = $1
