-- What stands for the records that were removed from a session: the last of them by
-- its sequence and hash, and what they folded to. crc covers the whole row.
CREATE TABLE agentd.bases (
    session_id text COLLATE "C" PRIMARY KEY,
    sequence   bigint NOT NULL,
    hash       bytea  NOT NULL,
    crc        bigint NOT NULL,
    data       bytea  NOT NULL
);
