DELETE FROM postrider_session WHERE expires_at <= now()
