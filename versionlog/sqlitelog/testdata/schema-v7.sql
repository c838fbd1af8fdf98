CREATE TABLE stores (
  num         INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice, so a number outlives no store
  id          TEXT    NOT NULL UNIQUE,
  slug        TEXT    NOT NULL UNIQUE,
  name        TEXT    NOT NULL,
  description TEXT    NOT NULL,
  max_bytes   INTEGER NOT NULL,
  content     TEXT    NOT NULL,
  created_at  INTEGER, -- times are microseconds since 1970, UTC; NULL is none
  archived_at INTEGER,
  tip_seq     INTEGER NOT NULL DEFAULT 0,
  tip_digest  BLOB,
  tip_time    INTEGER
, quota_bytes    INTEGER NOT NULL DEFAULT 0, quota_memories INTEGER NOT NULL DEFAULT 0, quota_per_hour INTEGER NOT NULL DEFAULT 0, counted_seq    INTEGER NOT NULL DEFAULT 0, total_bytes    INTEGER NOT NULL DEFAULT 0, total_memories INTEGER NOT NULL DEFAULT 0, in_hour        INTEGER NOT NULL DEFAULT 0, metadata   TEXT    NOT NULL DEFAULT '', updated_at INTEGER, epoch      INTEGER NOT NULL DEFAULT 1, replica    INTEGER NOT NULL DEFAULT 0, policy TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE commits (
  store      INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  key        TEXT    NOT NULL,
  time       INTEGER NOT NULL,
  actor_kind TEXT    NOT NULL,
  actor_id   TEXT    NOT NULL,
  session    TEXT    NOT NULL,
  message    TEXT    NOT NULL,
  record     BLOB    NOT NULL, -- last, so that reading the others skips its pages
  PRIMARY KEY (store, seq)
) STRICT;

CREATE UNIQUE INDEX commits_key ON commits (store, key);

CREATE TABLE versions (
  store     INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  ord       INTEGER NOT NULL, -- place in the commit
  id        TEXT    NOT NULL,
  memory_id TEXT    NOT NULL,
  parent    TEXT    NOT NULL,
  op        TEXT    NOT NULL,
  path      TEXT    NOT NULL,
  from_path TEXT    NOT NULL,
  sha256    BLOB, -- NULL for a deletion
  size      INTEGER NOT NULL, spelling TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (store, seq, ord)
) STRICT, WITHOUT ROWID;

CREATE INDEX versions_memory ON versions (store, memory_id, seq);

CREATE TABLE paths (
  store INTEGER NOT NULL,
  path  TEXT    NOT NULL,
  seq   INTEGER NOT NULL, -- the last version that took place at the path,
  ord   INTEGER NOT NULL, -- also one that renamed the memory away from it
  live  INTEGER NOT NULL, -- 1 while a memory is there, else 0
  PRIMARY KEY (store, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX paths_live ON paths (store, path) WHERE live = 1;

CREATE TABLE blobs (
  store  INTEGER NOT NULL,
  sha256 BLOB    NOT NULL,
  data   BLOB    NOT NULL, -- last, so that looking for the others skips its pages
  PRIMARY KEY (store, sha256)
) STRICT;

CREATE INDEX versions_left ON versions ( -- what freed each path
  store + 0, -- without the sum SQLite would rather walk the primary key than use this index
  CASE op WHEN 'renamed' THEN from_path ELSE path END,
  seq
) WHERE op IN ('deleted', 'renamed');

CREATE INDEX versions_path ON versions (store, path, seq);

CREATE TABLE packed (
  id     INTEGER PRIMARY KEY,
  store  INTEGER NOT NULL,
  sha256 BLOB    NOT NULL,
  base   INTEGER, -- the row whose bytes are the dictionary of data; NULL is none
  place  INTEGER NOT NULL, -- in its tree; 0 is the root
  data   BLOB -- a frame of zstd; NULL marks a content that others lean on and that is whole
) STRICT;

CREATE INDEX packed_content ON packed (store, substr(sha256, 1, 8));

CREATE INDEX packed_base ON packed (base) WHERE base IS NOT NULL;

CREATE INDEX versions_content ON versions (store, substr(sha256, 1, 8)) WHERE sha256 IS NOT NULL;

CREATE TABLE packing (
  store INTEGER PRIMARY KEY,
  seq   INTEGER NOT NULL, -- what the versions before this one have replaced is packed
  ord   INTEGER NOT NULL,
  gone  INTEGER NOT NULL -- how many contents were removed for good
) STRICT;

CREATE TABLE packed_records ( -- records of commits that follow one another, which have an empty one themselves
  store INTEGER NOT NULL,
  seq   INTEGER NOT NULL, -- of the first of them
  last  INTEGER NOT NULL, -- and of the last
  data  BLOB    NOT NULL, -- a frame of zstd with a record a line
  PRIMARY KEY (store, seq)
) STRICT;

CREATE TABLE files_left ( -- files whose contents are packed, to be removed
  store  INTEGER NOT NULL,
  sha256 BLOB    NOT NULL,
  PRIMARY KEY (store, sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE early ( -- stores with versions that were written before their commit
  store INTEGER PRIMARY KEY,
  id    TEXT NOT NULL -- of the first of them
) STRICT;
