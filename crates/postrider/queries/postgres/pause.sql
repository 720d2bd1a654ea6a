INSERT INTO postrider_pause (lane) VALUES ($1) ON CONFLICT (lane) DO NOTHING
