-- Bytes of each table with its indexes.
SELECT c.relname::text, pg_total_relation_size(c.oid)
FROM pg_class c
WHERE c.relkind IN ('r', 'p') AND c.relname LIKE 'postrider\_%' AND c.relnamespace = current_schema()::regnamespace
ORDER BY 1
