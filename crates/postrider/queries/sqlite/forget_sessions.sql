DELETE FROM postrider_session WHERE expires_at <= (SELECT now FROM postrider_clock)
