SELECT coalesce(max(version), 0) FROM postrider_migrations WHERE success
