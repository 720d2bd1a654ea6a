-- The isolation level of this session. The variable's name depends on the server and its version; one of them exists.
SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')
