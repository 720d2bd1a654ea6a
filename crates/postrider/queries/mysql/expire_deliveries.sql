-- Nothing of it is delivered any more, and whoever has a lease has lost it. ? event seq.
DELETE FROM postrider_delivery WHERE event_seq = ?
