-- Nobody is to route it any more. ? event seq.
UPDATE postrider_event SET routing = 'ROUTED' WHERE seq = ? AND routing <> 'ROUTED'
