-- The whole file: SQLite counts the pages of single tables only in builds with an extension.
SELECT 'database', p.page_count * s.page_size FROM pragma_page_count() p, pragma_page_size() s
