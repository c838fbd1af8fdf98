CREATE TABLE IF NOT EXISTS early ( -- stores with versions that were written before their commit
  store INTEGER PRIMARY KEY,
  id    TEXT NOT NULL -- of the first of them
) STRICT;
