-- Adds to the figures per minute. $1 [[minute, created, sent, consumed, failed, dead], …] as JSON.
INSERT INTO postrider_figure AS f (minute, created, sent, consumed, failed, dead)
SELECT (i ->> 0)::bigint, (i ->> 1)::bigint, (i ->> 2)::bigint, (i ->> 3)::bigint, (i ->> 4)::bigint, (i ->> 5)::bigint
FROM json_array_elements($1::json) AS i
ON CONFLICT (minute) DO UPDATE
SET created = f.created + excluded.created, sent = f.sent + excluded.sent, consumed = f.consumed + excluded.consumed,
    failed = f.failed + excluded.failed, dead = f.dead + excluded.dead
