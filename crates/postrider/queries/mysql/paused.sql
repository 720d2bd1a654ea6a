SELECT lane FROM postrider_pause
