-- Schema 3: the time that processes count from (see store/clock.rs): the store's time `at` a moment of the machine.
-- The other columns are set while rows are looked at that may have times of a clock that was ahead: the place of the last.
CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL,
    boot TEXT,
    uptime INTEGER NOT NULL,
    correcting_lane INTEGER,
    correcting_at INTEGER NOT NULL,
    correcting_delivery INTEGER NOT NULL
) STRICT;
INSERT INTO clock VALUES (1, 0, NULL, 0, NULL, 0, 0);

-- Dead letters of which some part could not be read (reason 4).
CREATE INDEX deliveries_unreadable ON deliveries (delivery) WHERE state = 2 AND reason = 4;

-- Lanes that have, or had, window caps, and their attempts: whoever seizes such a lane counts what ended since its record.
CREATE TABLE capped (lane INTEGER PRIMARY KEY) STRICT;
INSERT INTO capped SELECT lane FROM subscribers
    WHERE iif(json_valid(settings), coalesce(json_array_length(settings, '$.limit.windows'), 0) > 0, 1);
ALTER TABLE attempts ADD COLUMN capped INTEGER;
UPDATE attempts SET capped = 1 WHERE lane IN (SELECT lane FROM capped);
CREATE INDEX attempts_capped ON attempts (lane, at, latency, outcome) WHERE capped = 1;

-- One row for each of three measures (store/latency.rs): how long attempts took, emit to first attempt, emit to delivered.
CREATE TABLE measured (
    lane INTEGER NOT NULL,
    measure INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    counted BLOB NOT NULL,
    PRIMARY KEY (lane, measure, hour)
) STRICT, WITHOUT ROWID;
INSERT INTO measured SELECT lane, 0, hour, counted FROM latencies;
DROP TABLE latencies;
ALTER TABLE measured RENAME TO latencies;
CREATE INDEX latencies_hour ON latencies (hour);

-- Events of which some subscriber had no room for its part: whoever has the same id already never gets it again.
ALTER TABLE events ADD COLUMN in_part INTEGER;
