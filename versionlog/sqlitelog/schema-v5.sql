ALTER TABLE stores ADD COLUMN metadata   TEXT    NOT NULL DEFAULT ''; -- JSON; the empty text is none
ALTER TABLE stores ADD COLUMN updated_at INTEGER;
ALTER TABLE stores ADD COLUMN epoch      INTEGER NOT NULL DEFAULT 1;
ALTER TABLE stores ADD COLUMN replica    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN spelling TEXT    NOT NULL DEFAULT '';
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
CREATE INDEX versions_content ON versions (store, substr(sha256, 1, 8)) WHERE sha256 IS NOT NULL; -- which versions have a content
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
