-- One to a line: where IF NOT EXISTS is unknown here (MySQL 8), it is left out and an index that is there is no error.
CREATE INDEX IF NOT EXISTS shop_order_by_checkout ON shop_order (status, checked_out_at);
CREATE INDEX IF NOT EXISTS shop_order_by_payment ON shop_order (paid_at);
CREATE INDEX IF NOT EXISTS shop_refund_by_order ON shop_refund (order_id);
CREATE INDEX IF NOT EXISTS shop_lock_by_age ON shop_lock (status, created_at);
CREATE INDEX IF NOT EXISTS shop_entry_by_order ON shop_entry (order_id);
CREATE INDEX IF NOT EXISTS shop_job_log_by_order ON shop_job_log (order_id);
