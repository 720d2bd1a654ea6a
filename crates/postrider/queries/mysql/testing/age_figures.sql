-- For tests: as if ? ms had passed. From the oldest on, so that no minute meets another.
UPDATE postrider_figure SET minute = minute - ? DIV 60000 ORDER BY minute
