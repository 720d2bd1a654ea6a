-- $1 up to which seq new events were looked for.
UPDATE postrider_rollup SET folded_to = $1 WHERE id = 1 AND folded_to < $1
