-- ? name, ? token.
DELETE FROM postrider_lease WHERE name = ? AND token = ?
