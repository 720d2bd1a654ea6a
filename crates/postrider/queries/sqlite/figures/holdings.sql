-- Current holders: owner, kind, name, count, end of the lease.
SELECT d.lock_owner, 'lane', d.lane, count(*), max(d.lock_until)
FROM postrider_delivery d WHERE d.token IS NOT NULL AND d.lock_until > (SELECT now FROM postrider_clock) GROUP BY d.lock_owner, d.lane
UNION ALL
SELECT l.owner, 'lease', l.name, 1, l.lock_until FROM postrider_lease l WHERE l.lock_until > (SELECT now FROM postrider_clock)
UNION ALL
SELECT j.owner, 'job', j.name, 1, j.lock_until FROM postrider_job j WHERE j.token IS NOT NULL AND j.lock_until > (SELECT now FROM postrider_clock)
UNION ALL
SELECT o.lock_owner, 'operation', o.id, 1, o.lock_until
FROM postrider_operation o WHERE o.token IS NOT NULL AND o.lock_until > (SELECT now FROM postrider_clock) AND o.state = 'RUNNING'
ORDER BY 1, 2, 3
