-- ? topic, ? consumer. Removed or not.
SELECT EXISTS (SELECT 1 FROM postrider_subscription WHERE topic = ? AND consumer = ?)
