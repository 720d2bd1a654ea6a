-- One folds at a time, also where two believe that they have the lease. Answers with how far new events were looked for.
SELECT folded_to FROM postrider_rollup WHERE id = 1 FOR UPDATE
