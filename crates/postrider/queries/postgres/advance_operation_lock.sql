-- $1 id, $2 token. No row: it is not the caller's any more.
SELECT 1 FROM postrider_operation WHERE id = $1 AND token = $2 AND state = 'RUNNING' FOR UPDATE
