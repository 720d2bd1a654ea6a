-- The subscribers of a topic. ? topic. A plain read takes no lock at any isolation level below SERIALIZABLE; inside INSERT …
-- SELECT it would lock the subscriptions until the caller commits.
SELECT topic, consumer, via FROM postrider_subscription
WHERE topic IN (?, '*') AND enabled AND NOT removed
