ALTER TABLE stores ADD COLUMN policy TEXT NOT NULL DEFAULT ''; -- JSON; the empty text is none
