-- Deletes settled deliveries. $1 addresses, $2 ids, $3 token, $4 seqs of events whose deliveries must be searched for, $5 lane
-- (NULL: any). Returns one row with the ids: one row per delivery costs more.
WITH settled AS (
    DELETE FROM postrider_delivery d
    -- IS TRUE, here and below: the planner hashes the ids, and makes no join whose plan could scan the whole table.
    WHERE d.ctid = ANY ($1 || ARRAY(SELECT ctid FROM postrider_delivery WHERE event_seq = ANY ($4) AND token = $3))
      AND (d.id IN (SELECT unnest($2::bigint[]))) IS TRUE AND d.token = $3
      AND ($5::text IS NULL OR d.lane = $5)
      -- Of a key nothing behind a delivery that stays, unless that is dead. Computed once for all, and only if any has a key.
      AND (d.event_key IS NULL OR d.id NOT IN (
          SELECT b.id
          FROM (
              -- All deliveries under one token belong to one lane.
              SELECT min(m.lane) AS lane, m.event_key, max(m.event_seq) AS last
              FROM (
                  SELECT lane, event_key, event_seq FROM postrider_delivery
                  WHERE ctid = ANY ($1 || ARRAY(SELECT ctid FROM postrider_delivery WHERE event_seq = ANY ($4) AND token = $3))
                    AND token = $3
                    -- Not IS NOT NULL, which would allow the index of all keys.
                    AND coalesce(event_key, '') <> ''
                  -- OFFSET 0: otherwise the grouping would use an index in its order and read the whole table.
                  OFFSET 0
              ) m
              GROUP BY m.event_key
          ) k
          CROSS JOIN LATERAL (
              SELECT p.event_seq FROM postrider_delivery p
              WHERE p.lane = k.lane AND p.event_key = k.event_key AND p.event_seq < k.last AND p.place <> 3
                -- A delivery whose row has moved stays too, for this statement.
                AND (p.token = $3 AND p.id IN (SELECT unnest($2::bigint[])) AND p.ctid IN (SELECT unnest(
                    $1 || ARRAY(SELECT ctid FROM postrider_delivery WHERE event_seq = ANY ($4) AND token = $3)))) IS NOT TRUE
              ORDER BY p.event_seq LIMIT 1
          ) stays
          CROSS JOIN LATERAL (
              SELECT p.id FROM postrider_delivery p
              WHERE p.lane = k.lane AND p.event_key = k.event_key AND p.event_seq > stays.event_seq AND p.event_seq <= k.last
              OFFSET 0
          ) b))
    RETURNING d.id
)
SELECT array_agg(id) FROM settled
