-- All enabled subscriptions. A plain read; subscribers.sql gives the reason.
SELECT topic, consumer, via FROM postrider_subscription
WHERE enabled AND NOT removed
