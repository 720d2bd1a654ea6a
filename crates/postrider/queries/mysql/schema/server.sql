-- Properties of the server that are checked at connect. The format of the binary log matters only if there is one.
SELECT version(), CASE WHEN @@log_bin THEN @@binlog_format ELSE '' END, @@max_allowed_packet
