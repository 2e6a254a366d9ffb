-- Everything that was acknowledged. A row is waiting while it has a time at which it is due; it is done, or given up
-- with an error, once it has a time at which it was finished. It stays after that so that its id is known.
CREATE TABLE received (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  received_ms INTEGER NOT NULL,
  event TEXT,
  content_type TEXT,
  body BLOB,
  attempts INTEGER NOT NULL DEFAULT 0,
  due_ms INTEGER,
  finished_ms INTEGER,
  error TEXT,
  CHECK ((due_ms IS NULL) <> (finished_ms IS NULL))
) STRICT;
CREATE INDEX received_due ON received (due_ms, seq) WHERE due_ms IS NOT NULL;
CREATE INDEX received_finished ON received (finished_ms) WHERE finished_ms IS NOT NULL;

-- What was processed, in its order. Not unique on purpose: were anything processed twice, it would show.
CREATE TABLE effects (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  done_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX effects_done ON effects (done_ms);
