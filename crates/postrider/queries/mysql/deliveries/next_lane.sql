-- The lane after this one. ? lane. Lanes are few and deliveries many: from one to the next by the index.
SELECT min(lane) FROM postrider_delivery WHERE lane > ?
