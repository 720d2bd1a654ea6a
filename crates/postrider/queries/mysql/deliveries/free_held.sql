-- Releases deliveries that were held behind dead ones, after the policy was changed to skip. ? lane.
UPDATE postrider_delivery SET place = 1 WHERE lane = ? AND place = 2
