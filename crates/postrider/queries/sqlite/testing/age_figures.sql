-- For tests: moves every minute back by ?1 ms, and negates it. A second statement makes them positive again: moved in one step, one
-- minute would collide with another that has not moved yet.
UPDATE postrider_figure SET minute = ?1 / 60000 - minute
