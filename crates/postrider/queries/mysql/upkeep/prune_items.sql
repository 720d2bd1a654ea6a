-- Events of operations that go. ? older than, in ms; ? limit. The inner list is a table of its own, because MySQL cannot read what
-- it deletes from.
DELETE i
FROM (SELECT m.operation, m.event_seq
      FROM postrider_operation o
      STRAIGHT_JOIN postrider_operation_item m FORCE INDEX (PRIMARY) ON m.operation = o.number
      WHERE o.finished_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND LIMIT ?) old
STRAIGHT_JOIN postrider_operation_item i FORCE INDEX (PRIMARY) ON i.operation = old.operation AND i.event_seq = old.event_seq
