-- How often the node renewed its lease. A node that finds fewer renewals than were
-- acknowledged to it knows that the database was restored to an earlier moment.
ALTER TABLE agentd.nodes ADD COLUMN beats bigint NOT NULL DEFAULT 0;
