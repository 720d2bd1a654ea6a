-- One instance migrates, the others wait for it, in s at most ?. The lock is the server's, so it has the database in its name;
-- it goes with its session, whatever ends that.
SELECT GET_LOCK(CONCAT('postrider ', SHA1(DATABASE())), ?)
