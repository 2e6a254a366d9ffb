-- Schema 5: fewer trees that each delivery changes.

-- The first body of an event is in the event's own row, and its deliveries name it with 0. `further_bodies` has the others,
-- and all bodies of older events. It has a name of its own because a process of the version before, which may still run,
-- would take a delivery without a row in `bodies` for one that is damaged: so it claims nothing, and says why.
ALTER TABLE events ADD COLUMN hash INTEGER;
ALTER TABLE events ADD COLUMN body BLOB;
ALTER TABLE bodies RENAME TO further_bodies;

-- What expires, in that order: deliveries that still waited when a sweep came by. An entry holds while its delivery waits and
-- expires then; others are left behind, and sweeps delete them. So what is delivered at once is never in here.
CREATE TABLE expiring (
    expires INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    PRIMARY KEY (expires, delivery)
) STRICT, WITHOUT ROWID;
INSERT INTO expiring SELECT expires, delivery FROM deliveries INDEXED BY deliveries_expiring WHERE state = 0
    ORDER BY expires, delivery;
DROP INDEX deliveries_expiring;

-- The last delivery that a sweep has looked at for that.
CREATE TABLE swept (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    delivery INTEGER NOT NULL
) STRICT;
INSERT INTO swept SELECT 1, next_delivery - 1 FROM totals;
