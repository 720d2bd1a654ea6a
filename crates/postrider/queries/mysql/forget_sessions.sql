DELETE FROM postrider_session WHERE expires_at <= UTC_TIMESTAMP(6)
