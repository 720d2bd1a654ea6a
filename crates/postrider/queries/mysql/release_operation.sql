-- ? id, ? token.
UPDATE postrider_operation SET token = NULL, lock_owner = NULL, lock_until = NULL WHERE id = ? AND token = ?
