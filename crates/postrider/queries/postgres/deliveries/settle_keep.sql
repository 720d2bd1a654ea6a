-- Removes what is done, appends the successes and marks their events. $1 addresses, $2 ids, $3 token, $4 seqs of events
-- whose deliveries are to be searched for. Answers as settle.sql.
WITH settled AS (
    DELETE FROM postrider_delivery d
    -- IS TRUE, here and below: a hash of the ids, and no join whose plan could walk the whole table instead.
    WHERE d.ctid = ANY ($1 || ARRAY(SELECT ctid FROM postrider_delivery WHERE event_seq = ANY ($4) AND token = $3))
      AND (d.id IN (SELECT unnest($2::bigint[]))) IS TRUE AND d.token = $3
      -- Of a key nothing behind one that stays, unless that is dead. Asked once for all, and only if any has a key.
      AND (d.event_key IS NULL OR d.id NOT IN (
          SELECT b.id
          FROM (
              -- What one token leases is of one lane.
              SELECT min(m.lane) AS lane, m.event_key, max(m.event_seq) AS last
              FROM (
                  SELECT lane, event_key, event_seq FROM postrider_delivery
                  WHERE ctid = ANY ($1 || ARRAY(SELECT ctid FROM postrider_delivery WHERE event_seq = ANY ($4) AND token = $3))
                    AND token = $3
                    -- Not IS NOT NULL, which would offer the index of all keys.
                    AND coalesce(event_key, '') <> ''
                  -- OFFSET 0: the grouping must not ask for an index in its order, which would be the whole table.
                  OFFSET 0
              ) m
              GROUP BY m.event_key
          ) k
          CROSS JOIN LATERAL (
              SELECT p.event_seq FROM postrider_delivery p
              WHERE p.lane = k.lane AND p.event_key = k.event_key AND p.event_seq < k.last AND p.place <> 3
                -- One that lies elsewhere by now stays too, for this statement.
                AND (p.token = $3 AND p.id IN (SELECT unnest($2::bigint[])) AND p.ctid IN (SELECT unnest(
                    $1 || ARRAY(SELECT ctid FROM postrider_delivery WHERE event_seq = ANY ($4) AND token = $3)))) IS NOT TRUE
              ORDER BY p.event_seq LIMIT 1
          ) stays
          CROSS JOIN LATERAL (
              SELECT p.id FROM postrider_delivery p
              WHERE p.lane = k.lane AND p.event_key = k.event_key AND p.event_seq > stays.event_seq AND p.event_seq <= k.last
              OFFSET 0
          ) b))
    RETURNING d.event_seq, d.id, d.lane AS consumer
), appended AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at)
    -- Of the lane, not of its target: what the broker has confirmed, no consumer has had yet. Two targets of one event are
    -- two attempts.
    SELECT s.event_seq, s.consumer, coalesce(
               (SELECT max(c.attempt) FROM postrider_consumption c WHERE c.event_seq = s.event_seq AND c.consumer = s.consumer), 0)
               + row_number() OVER (PARTITION BY s.event_seq, s.consumer),
           true, now()
    FROM settled s
), marked AS (
    INSERT INTO postrider_mark (event_seq) SELECT event_seq FROM settled
)
SELECT array_agg(id) FROM settled
