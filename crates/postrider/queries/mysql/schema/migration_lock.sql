-- One instance migrates, the others wait for it, in s at most ?. The lock is the server's, so it has the database in its name;
-- it goes with its session, whatever ends that.
SELECT GET_LOCK(CONCAT('postrider ', LEFT(SHA2(DATABASE(), 256), 40)), ?)
