-- Bytes of each table with its indexes, as the server last estimated them.
SELECT CAST(table_name AS CHAR(64)), CAST(data_length + index_length AS SIGNED)
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name LIKE 'postrider\_%'
ORDER BY 1
