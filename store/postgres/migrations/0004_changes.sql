-- The rows of appends are the changes of the whole database, in order: they are kept, and
-- are as durable as the records that they stand for.
ALTER TABLE agentd.appends SET LOGGED;
DROP TABLE agentd.appends_pruned;
