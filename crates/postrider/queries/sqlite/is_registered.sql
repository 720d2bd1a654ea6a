-- ?1 topic, ?2 consumer. Asked by a reader first, so that the start of an instance waits for no writer.
SELECT EXISTS (SELECT 1 FROM postrider_subscription WHERE topic = ?1 AND consumer = ?2)
