-- A migration that died in between: a CREATE commits by itself, so part of it is there. It can be run again from the top.
DELETE FROM postrider_migrations WHERE NOT success
