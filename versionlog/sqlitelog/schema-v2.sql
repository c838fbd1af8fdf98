CREATE TABLE blobs (
  store  INTEGER NOT NULL,
  sha256 BLOB    NOT NULL,
  data   BLOB    NOT NULL, -- last, so that looking for the others skips its pages
  PRIMARY KEY (store, sha256)
) STRICT;
