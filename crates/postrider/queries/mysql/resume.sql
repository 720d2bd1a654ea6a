DELETE FROM postrider_pause WHERE lane = ?
