-- Who hears what. A plain read: heard.sql tells why.
SELECT topic, consumer, via FROM postrider_subscription
WHERE enabled AND NOT removed
