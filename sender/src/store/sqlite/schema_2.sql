-- Schema 2: how long endpoints take. A row for each lane and hour in which it was sent something, and one with the
-- hour 0 for all of its time.
CREATE TABLE latencies (
    lane INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    counted BLOB NOT NULL,
    PRIMARY KEY (lane, hour)
) STRICT, WITHOUT ROWID;
CREATE INDEX latencies_hour ON latencies (hour);
