-- One instance migrates, and the others wait up to ? seconds. The lock belongs to the server, so its name contains the
-- database; it ends with its session.
SELECT GET_LOCK(CONCAT('postrider ', LEFT(SHA2(DATABASE(), 256), 40)), ?)
