-- ? hash.
UPDATE postrider_session SET seen_at = UTC_TIMESTAMP(6) WHERE hash = ?
