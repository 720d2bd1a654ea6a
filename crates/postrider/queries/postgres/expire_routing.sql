-- Nobody is to route it any more. $1 event seq.
UPDATE postrider_event SET routing = 'ROUTED' WHERE seq = $1 AND routing <> 'ROUTED'
