-- ?1 event seqs as JSON.
DELETE FROM postrider_event WHERE seq IN (SELECT value FROM json_each(?1))
