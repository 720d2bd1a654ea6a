-- Adds to the figures per minute. ?1 [[minute, created, sent, consumed, failed, dead], …] as JSON.
INSERT INTO postrider_figure AS f (minute, created, sent, consumed, failed, dead)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
       json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(?1)
WHERE true
ON CONFLICT (minute) DO UPDATE
SET created = f.created + excluded.created, sent = f.sent + excluded.sent, consumed = f.consumed + excluded.consumed,
    failed = f.failed + excluded.failed, dead = f.dead + excluded.dead
