-- What a node says of itself: the pool that it is in, its labels, what it does.
ALTER TABLE agentd.nodes ADD COLUMN about jsonb NOT NULL DEFAULT '{}';
