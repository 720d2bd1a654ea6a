-- ?1 event seqs as JSON.
DELETE FROM postrider_status WHERE event_seq IN (SELECT value FROM json_each(?1))
