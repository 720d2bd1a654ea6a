-- ? up to which seq new events were looked for.
UPDATE postrider_rollup SET folded_to = greatest(folded_to, ?) WHERE id = 1
