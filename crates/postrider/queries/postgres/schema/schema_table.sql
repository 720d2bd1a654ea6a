SELECT count(to_regclass('postrider_migrations'))
