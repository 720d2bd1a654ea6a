-- ?1 id, ?2 token.
UPDATE postrider_operation SET token = NULL, lock_owner = NULL, lock_until = NULL WHERE id = ?1 AND token = ?2
