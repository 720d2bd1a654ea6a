INSERT INTO postrider_pause (lane) VALUES (?) ON DUPLICATE KEY UPDATE lane = postrider_pause.lane
