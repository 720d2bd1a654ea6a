-- Removes what is done. $1 event seqs, $2 ids, $3 token. Whoever must be told which adds RETURNING; it costs a tenth.
DELETE FROM postrider_delivery d
-- IS TRUE, here and below: a hash of the ids, and no join whose plan could walk the whole table instead.
WHERE d.event_seq = ANY ($1) AND (d.id IN (SELECT unnest($2::bigint[]))) IS TRUE AND d.token = $3
  -- Those with a key only as a gapless stretch from the first of it on. Asked once for all, and only if there are any.
  AND (d.event_key IS NULL OR d.id IN (
      SELECT r.id
      FROM (
          SELECT m.lane, m.event_key, count(*) AS rows
          FROM postrider_delivery m
          WHERE m.event_seq = ANY ($1) AND (m.id IN (SELECT unnest($2::bigint[]))) IS TRUE AND m.token = $3
            -- Not IS NOT NULL, which would offer the index of all keys.
            AND coalesce(m.event_key, '') <> ''
          GROUP BY m.lane, m.event_key
      ) k
      CROSS JOIN LATERAL (
          SELECT f.id, bool_and(f.mine) OVER (ORDER BY f.event_seq) AS unbroken
          FROM (
              SELECT p.id, p.event_seq, p.token IS NOT DISTINCT FROM $3 AND p.id IN (SELECT unnest($2::bigint[])) AS mine
              FROM postrider_delivery p
              WHERE p.lane = k.lane AND p.event_key = k.event_key AND p.place <> 3
              ORDER BY p.event_seq LIMIT k.rows
          ) f
      ) r
      WHERE r.unbroken))
