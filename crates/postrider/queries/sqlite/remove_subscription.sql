-- ?1 topic, ?2 consumer. The row stays, so that a restart of the consumer does not bring it back.
UPDATE postrider_subscription SET removed = true, enabled = false, updated_at = (SELECT now FROM postrider_clock)
WHERE topic = ?1 AND consumer = ?2 AND NOT removed
