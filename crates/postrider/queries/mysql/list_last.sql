-- The last event's seq, and how far the roll-up has looked for new ones.
SELECT coalesce((SELECT max(seq) FROM postrider_event), 0), (SELECT folded_to FROM postrider_rollup WHERE id = 1)
