-- The policy was changed to skip: what waited behind dead deliveries flows again. ?1 lane.
UPDATE postrider_delivery SET held = false WHERE lane = ?1 AND held
