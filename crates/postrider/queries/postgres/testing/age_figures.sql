-- For tests: moves stored times back by $1 ms.
UPDATE postrider_figure SET minute = minute - $1 / 60000
