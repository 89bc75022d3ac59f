-- Sessions by their owner, so that those of a node that is gone are found without
-- looking at the others. The owner changes with a claim, never with an append.
CREATE INDEX sessions_owner ON agentd.sessions (owner) WHERE owner IS NOT NULL;

-- An empty owner stands for "whoever comes first": the session has unfinished work and
-- no node has it. Earlier versions left such sessions without an owner.
UPDATE agentd.sessions s SET owner = ''
WHERE owner IS NULL AND EXISTS (
    SELECT 1 FROM agentd.index_entries x WHERE x.kind = 'open' AND x.key = convert_to(s.session_id, 'UTF8'));
