-- The policy was changed to skip: what waited behind dead deliveries flows again. ? lane.
UPDATE postrider_delivery SET place = 1 WHERE lane = ? AND place = 2
