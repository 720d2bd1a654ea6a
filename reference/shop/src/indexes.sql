-- One statement per line: MySQL 8 does not know IF NOT EXISTS here, so it
-- is removed there and "already exists" is ignored.
CREATE INDEX IF NOT EXISTS shop_order_by_checkout ON shop_order (status, checked_out_at);
CREATE INDEX IF NOT EXISTS shop_order_by_change ON shop_order (updated_at);
CREATE INDEX IF NOT EXISTS shop_refund_by_order ON shop_refund (order_id);
CREATE INDEX IF NOT EXISTS shop_lock_by_age ON shop_lock (status, created_at);
CREATE INDEX IF NOT EXISTS shop_entry_by_order ON shop_entry (order_id);
CREATE INDEX IF NOT EXISTS shop_job_log_by_order ON shop_job_log (order_id);
