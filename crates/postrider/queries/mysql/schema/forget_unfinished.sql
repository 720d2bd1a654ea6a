-- Removes the entry of an interrupted migration: each CREATE commits, so part of it exists. It is run again from the start.
DELETE FROM postrider_migrations WHERE NOT success
