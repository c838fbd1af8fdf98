ALTER TABLE stores ADD COLUMN quota_bytes    INTEGER NOT NULL DEFAULT 0; -- 0 is any number
ALTER TABLE stores ADD COLUMN quota_memories INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stores ADD COLUMN quota_per_hour INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stores ADD COLUMN counted_seq    INTEGER NOT NULL DEFAULT 0; -- the commit up to which the next three count
ALTER TABLE stores ADD COLUMN total_bytes    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stores ADD COLUMN total_memories INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stores ADD COLUMN in_hour        INTEGER NOT NULL DEFAULT 0;
CREATE INDEX versions_path ON versions (store, path, seq); -- what came to each path
