SELECT version, checksum FROM postrider_migrations WHERE success
