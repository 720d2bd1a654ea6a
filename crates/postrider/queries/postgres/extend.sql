-- $1 ids, $2 token, $3 lease in ms.
UPDATE postrider_delivery SET lock_until = now() + $3 * interval '1 ms'
WHERE id = ANY ($1) AND token = $2
RETURNING id
