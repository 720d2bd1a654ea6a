-- For tests: moves stored times back by $1 ms.
WITH age AS (SELECT $1 * interval '1 ms' AS by),
token AS (
    UPDATE postrider_token SET created_at = created_at - by, last_used_at = last_used_at - by, revoked_at = revoked_at - by,
        expires_at = expires_at - by FROM age
)
UPDATE postrider_session SET created_at = created_at - by, seen_at = seen_at - by, expires_at = expires_at - by FROM age
