-- The lane after this one. ? lane. There are few lanes and many deliveries, so this walks from lane to lane by the index.
SELECT min(lane) FROM postrider_delivery WHERE lane > ?
