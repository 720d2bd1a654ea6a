-- Stores the result. Matches a row only if the inbox row of this transaction exists. ?1 consumer, ?2 event id, ?3 result.
UPDATE postrider_inbox SET result = coalesce(?3, result) WHERE consumer = ?1 AND event_id = ?2
RETURNING true
