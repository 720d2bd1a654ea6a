-- ? id, ? token. No row: it is not the caller's any more.
SELECT 1 FROM postrider_operation WHERE id = ? AND token = ? AND state = 'RUNNING' FOR UPDATE
