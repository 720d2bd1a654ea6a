-- Our own session's isolation. The variable has another name on each server and in each version; one of them is there.
SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')
