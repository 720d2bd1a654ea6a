-- How far new events were looked for. The transaction has the write lock already.
SELECT folded_to FROM postrider_rollup WHERE id = 1
