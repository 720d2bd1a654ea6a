-- ?1 name, ?2 token.
DELETE FROM postrider_lease WHERE name = ?1 AND token = ?2
