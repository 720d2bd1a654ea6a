-- Removes claimed deliveries whose events were deleted by hand. $1 event seqs, $2 token.
DELETE FROM postrider_delivery WHERE event_seq = ANY ($1) AND token = $2
