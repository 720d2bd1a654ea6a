-- Nobody is to route it any more. $1 event seq.
UPDATE postrider_event SET waits_for = NULL WHERE seq = $1 AND waits_for IS NOT NULL
