-- Current holders: owner, kind, name, count, end of the lease.
SELECT d.lock_owner, 'lane', d.lane, CAST(count(*) AS SIGNED), max(d.lock_until)
FROM postrider_delivery d WHERE d.token IS NOT NULL AND d.lock_until > UTC_TIMESTAMP(6) GROUP BY d.lock_owner, d.lane
UNION ALL
SELECT l.owner, 'lease', l.name, 1, l.lock_until FROM postrider_lease l WHERE l.lock_until > UTC_TIMESTAMP(6)
UNION ALL
SELECT j.owner, 'job', j.name, 1, j.lock_until FROM postrider_job j WHERE j.token IS NOT NULL AND j.lock_until > UTC_TIMESTAMP(6)
UNION ALL
SELECT o.lock_owner, 'operation', o.id, 1, o.lock_until
FROM postrider_operation o WHERE o.token IS NOT NULL AND o.lock_until > UTC_TIMESTAMP(6) AND o.state = 'RUNNING'
ORDER BY 1, 2, 3
