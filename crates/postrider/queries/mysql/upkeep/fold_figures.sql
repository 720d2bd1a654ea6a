-- Adds to the figures per minute. ? [[minute, created, sent, consumed, failed, dead], …] as JSON.
INSERT INTO postrider_figure (minute, created, sent, consumed, failed, dead)
SELECT i.minute, i.created, i.sent, i.consumed, i.failed, i.dead
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    minute BIGINT PATH '$[0]', created BIGINT PATH '$[1]', sent BIGINT PATH '$[2]', consumed BIGINT PATH '$[3]',
    failed BIGINT PATH '$[4]', dead BIGINT PATH '$[5]')) i
ON DUPLICATE KEY UPDATE created = postrider_figure.created + VALUES(created), sent = postrider_figure.sent + VALUES(sent),
    consumed = postrider_figure.consumed + VALUES(consumed), failed = postrider_figure.failed + VALUES(failed),
    dead = postrider_figure.dead + VALUES(dead)
