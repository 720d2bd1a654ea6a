-- Never inside a caller's transaction: a commit that notifies takes a lock that all such commits share. $1 who announces.
SELECT pg_notify('postrider', $1)
