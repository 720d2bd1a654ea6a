INSERT INTO postrider_pause (lane, paused_at) VALUES (?1, (SELECT now FROM postrider_clock)) ON CONFLICT (lane) DO NOTHING
