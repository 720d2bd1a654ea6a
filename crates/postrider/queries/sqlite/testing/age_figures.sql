-- For tests: as if ?1 ms had passed.
UPDATE postrider_figure SET minute = minute - ?1 / 60000
