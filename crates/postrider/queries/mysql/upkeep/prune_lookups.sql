-- ? [[hash, event seq], …] as JSON.
DELETE l
FROM JSON_TABLE(?, '$[*]' COLUMNS (hash BIGINT PATH '$[0]', seq BIGINT PATH '$[1]')) i
STRAIGHT_JOIN postrider_lookup l FORCE INDEX (PRIMARY) ON l.hash = i.hash AND l.event_seq = i.seq
