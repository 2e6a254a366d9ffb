-- Schema 4: the processes that deliver, as they announce themselves (see store/node.rs). A table beside `owners`, so that
-- processes of the version before, which know nothing of it, go on beside those that do. `unable`: lanes, with commas.
CREATE TABLE nodes (
    owner INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    protocol INTEGER NOT NULL,
    address TEXT,
    unable TEXT NOT NULL,
    draining INTEGER NOT NULL,
    since INTEGER NOT NULL
) STRICT;

-- Counts changes of the nodes and lanes that were handed back: a glance tells whether to look closer.
CREATE TABLE membership (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    changes INTEGER NOT NULL
) STRICT;
INSERT INTO membership VALUES (1, 0);
