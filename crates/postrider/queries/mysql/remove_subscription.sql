-- ? topic, ? consumer. The row stays, so that a restart of the consumer does not bring it back.
UPDATE postrider_subscription SET removed = TRUE, enabled = FALSE, updated_at = UTC_TIMESTAMP(6)
WHERE topic = ? AND consumer = ? AND NOT removed
