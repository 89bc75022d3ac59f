-- The head of each session before the append, so that whoever follows knows which
-- records a row stands for. Rows without it were written by an earlier version.
ALTER TABLE agentd.appends ADD COLUMN befores bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE agentd.appends ALTER COLUMN befores SET STORAGE EXTERNAL;
