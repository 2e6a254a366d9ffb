-- What was acknowledged and has not been tried, in the order in which it came. A row leaves it once it was tried. Numbers are
-- given by the writer, and are shared with `inbox_failed`.
CREATE TABLE received (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  received_ms INTEGER NOT NULL,
  event TEXT,
  content_type TEXT,
  body BLOB NOT NULL
) STRICT;

-- What was tried and failed, under the number that it had. A row waits for another attempt while it has a time at which that
-- is due; it is given up once it has a time at which it was finished, and stays for a while after that.
CREATE TABLE inbox_failed (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  received_ms INTEGER NOT NULL,
  event TEXT,
  content_type TEXT,
  body BLOB NOT NULL,
  attempts INTEGER NOT NULL,
  due_ms INTEGER,
  finished_ms INTEGER,
  error TEXT NOT NULL,
  CHECK ((due_ms IS NULL) <> (finished_ms IS NULL))
) STRICT;
CREATE INDEX inbox_failed_due ON inbox_failed (due_ms, seq) WHERE due_ms IS NOT NULL;
CREATE INDEX inbox_failed_finished ON inbox_failed (finished_ms) WHERE finished_ms IS NOT NULL;

-- What was processed, in its order. Not unique on purpose: were anything processed twice, it would show.
CREATE TABLE effects (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  done_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX effects_done ON effects (done_ms);

-- The ids of all of these, but for rows with higher numbers than `inbox_indexed` has.
CREATE TABLE inbox_ids (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE inbox_indexed (delivery INTEGER NOT NULL, effect INTEGER NOT NULL) STRICT;
INSERT INTO inbox_indexed VALUES (0, 0);
