CREATE INDEX versions_left ON versions ( -- what freed each path
  store + 0, -- without the sum SQLite would rather walk the primary key than use this index
  CASE op WHEN 'renamed' THEN from_path ELSE path END,
  seq
) WHERE op IN ('deleted', 'renamed');
