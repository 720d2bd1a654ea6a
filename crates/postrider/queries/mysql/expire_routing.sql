-- Nobody is to route it any more. ? event seq.
UPDATE postrider_event SET waits_for = NULL WHERE seq = ? AND waits_for IS NOT NULL
