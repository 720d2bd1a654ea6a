-- How our own sessions are set up. A plan that is cached while the tables are empty stays when they have grown, so it may only
-- be what is right then: from row to row by an index. That one plan does for all values, so it is made once and not five
-- times on each session. Compiling a query takes longer than running any of ours, and a claim looks again at what others
-- have committed, which a stricter isolation would call an error.
SET default_transaction_isolation = 'read committed';
SET jit = off;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
