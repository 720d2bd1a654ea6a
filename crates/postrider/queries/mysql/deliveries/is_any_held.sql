-- Whether any delivery of a lane is held. ? lane.
SELECT EXISTS (SELECT 1 FROM postrider_delivery WHERE lane = ? AND place = 2)
