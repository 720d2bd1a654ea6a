-- Setup of the store's own sessions. A plan that is cached while the tables are empty is still used when they have grown, so
-- only index scans and nested loops are allowed. One generic plan fits all values, so it is made once and not five times on
-- each session. JIT compilation takes longer than any of these queries. A claim reads again what others have committed, which a
-- stricter isolation level would refuse.
SET default_transaction_isolation = 'read committed';
SET jit = off;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
