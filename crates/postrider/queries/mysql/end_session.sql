-- ? hash.
DELETE FROM postrider_session WHERE hash = ?
