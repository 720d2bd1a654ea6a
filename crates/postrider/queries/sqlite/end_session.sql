-- ?1 hash.
DELETE FROM postrider_session WHERE hash = ?1
