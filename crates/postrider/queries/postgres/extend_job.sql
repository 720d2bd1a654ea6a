-- $1 name, $2 token, $3 lease in ms.
UPDATE postrider_job SET lock_until = now() + $3 * interval '1 ms' WHERE name = $1 AND token = $2
