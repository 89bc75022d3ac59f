-- When a blob was stored last, or said to be needed: contents are stored ahead of the
-- facts that refer to them, perhaps by another node than the one that clears up.
ALTER TABLE agentd.blobs ADD COLUMN touched timestamptz NOT NULL DEFAULT now();

-- Where the content is: in chunks of this database, or in an object whose parts are
-- listed with their lengths and sums.
ALTER TABLE agentd.blobs ADD COLUMN object text COLLATE "C";
ALTER TABLE agentd.blobs ADD COLUMN parts bytea;

-- Objects that no blob names: those that are being written, with the blob that they are
-- for and the process that writes them, and those that are to be deleted.
CREATE TABLE agentd.blob_strays (
    object      text COLLATE "C" PRIMARY KEY,
    blob_id     bigint UNIQUE,
    incarnation text,
    since       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX blob_strays_since ON agentd.blob_strays (since) WHERE blob_id IS NULL;
