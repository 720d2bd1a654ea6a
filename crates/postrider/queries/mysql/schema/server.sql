-- What we need to know of the server before we trust it with anything. The binary log's format matters only where there is one.
SELECT version(), CASE WHEN @@log_bin THEN @@binlog_format ELSE '' END, @@max_allowed_packet
