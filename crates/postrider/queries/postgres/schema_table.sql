-- Whether any migration was ever applied here.
SELECT to_regclass('postrider_migrations')::text
