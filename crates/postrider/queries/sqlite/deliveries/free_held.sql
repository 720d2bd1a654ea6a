-- Releases deliveries that were held behind dead ones, after the policy was changed to skip. ?1 lane.
UPDATE postrider_delivery SET held = false WHERE lane = ?1 AND held
