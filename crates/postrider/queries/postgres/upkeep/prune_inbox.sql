-- $1 older than, in ms; $2 limit.
DELETE FROM postrider_inbox
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM postrider_inbox WHERE received_at < now() - $1 * interval '1 ms' ORDER BY received_at LIMIT $2
    FOR UPDATE SKIP LOCKED))
