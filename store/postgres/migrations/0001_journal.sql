-- The end and the owner of every session that was ever claimed. Only columns
-- without an index change on an append, and pages keep room, so that the update
-- stays within its page.
CREATE TABLE agentd.sessions (
    session_id text COLLATE "C" PRIMARY KEY,
    head       bigint NOT NULL DEFAULT 0,
    hash       bytea  NOT NULL DEFAULT '\x',
    epoch      bigint NOT NULL DEFAULT 0,
    owner      text COLLATE "C"
) WITH (fillfactor = 60);

-- data is what is delivered, byte for byte. crc covers the whole row.
CREATE TABLE agentd.events (
    session_id text COLLATE "C" NOT NULL,
    sequence   bigint NOT NULL,
    hash       bytea  NOT NULL,
    crc        bigint NOT NULL,
    data       bytea  NOT NULL,
    PRIMARY KEY (session_id, sequence)
);

CREATE TABLE agentd.snapshots (
    session_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    sequence   bigint NOT NULL,
    hash       bytea  NOT NULL,
    crc        bigint NOT NULL,
    data       bytea  NOT NULL,
    PRIMARY KEY (session_id, name)
);

-- Keys are bytes: they are ordered bytewise whatever the database's encoding.
CREATE TABLE agentd.index_entries (
    kind  text COLLATE "C" NOT NULL,
    key   bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (kind, key)
);

-- A blob is found by the SHA-256 of its content; its chunks hang on an id,
-- because a long upload knows its sum only at the end.
CREATE SEQUENCE agentd.blob_ids;

CREATE TABLE agentd.blobs (
    sum  bytea PRIMARY KEY,
    id   bigint NOT NULL DEFAULT nextval('agentd.blob_ids'),
    size bigint NOT NULL
);

CREATE TABLE agentd.blob_chunks (
    blob_id bigint  NOT NULL,
    part    integer NOT NULL,
    data    bytea   NOT NULL,
    PRIMARY KEY (blob_id, part)
);
-- Chunks are compressed already.
ALTER TABLE agentd.blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Uploads under way, so that the chunks of a node that died can be removed.
CREATE TABLE agentd.blob_uploads (
    id      bigint PRIMARY KEY,
    node_id text COLLATE "C" NOT NULL
);

CREATE TABLE agentd.nodes (
    node_id     text COLLATE "C" PRIMARY KEY,
    incarnation text NOT NULL,
    address     text NOT NULL,
    lease_until timestamptz NOT NULL,
    heartbeat   timestamptz NOT NULL
);

CREATE TABLE agentd.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);

-- What was appended lately, one row a group commit, for the nodes that follow.
-- Unlogged: it costs no WAL; a crash empties it, and a follower whose connection
-- broke looks at all sessions once.
CREATE UNLOGGED TABLE agentd.appends (
    xid      bigint   NOT NULL,
    node_id  text COLLATE "C" NOT NULL,
    sessions text[]   NOT NULL,
    heads    bigint[] NOT NULL
);
-- Written once and read once or twice: not worth compressing.
ALTER TABLE agentd.appends ALTER COLUMN sessions SET STORAGE EXTERNAL, ALTER COLUMN heads SET STORAGE EXTERNAL;
CREATE INDEX appends_xid ON agentd.appends (xid);

-- Rows of appends with a lower xid may have been removed.
CREATE TABLE agentd.appends_pruned (
    xid bigint NOT NULL
);
INSERT INTO agentd.appends_pruned (xid) VALUES (0);

-- Aborts the transaction unless all of a group's sessions were where the group
-- expected them.
CREATE FUNCTION agentd.require(ok boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT ok THEN
        RAISE EXCEPTION 'agentd: a session is not where the append expects it' USING ERRCODE = 'AG001';
    END IF;
    RETURN ok;
END
$$;
