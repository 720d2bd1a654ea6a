-- Whether any migration was ever applied here.
SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = 'postrider_migrations'
