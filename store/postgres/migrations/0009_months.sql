-- Events are kept in a table for each month in which they were appended: events_202611 and
-- so on, made ahead by the nodes. They inherit from agentd.events, so whoever reads or
-- deletes from agentd.events means all of them. What was appended before this step, or is
-- appended by an earlier version, is in agentd.events itself. Nothing is copied or scanned.
CREATE TABLE agentd.months (
    month  integer PRIMARY KEY,
    -- When a node counted last which rows of the month are needed, and how many these were.
    looked timestamptz,
    live   bigint
);
