-- For tests: moves stored times back by ? ms. From the oldest on, so that no minute collides with another.
UPDATE postrider_figure SET minute = minute - ? DIV 60000 ORDER BY minute
