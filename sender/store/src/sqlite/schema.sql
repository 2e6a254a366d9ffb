-- Schema 1. Times are nanoseconds since 1970. Numbers come from `totals`, not from SQLite, and are never reused.

-- Counts of the whole store, and the next free numbers.
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    identity INTEGER NOT NULL,
    clock INTEGER NOT NULL,
    roster INTEGER NOT NULL,
    stirred INTEGER NOT NULL,
    next_lane INTEGER NOT NULL,
    next_event INTEGER NOT NULL,
    next_body INTEGER NOT NULL,
    next_delivery INTEGER NOT NULL,
    marked_minute INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    coalesced INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    waiting_bytes INTEGER NOT NULL,
    retrying INTEGER NOT NULL,
    dead_kept INTEGER NOT NULL,
    failed_attempts INTEGER NOT NULL,
    latency_us INTEGER NOT NULL
) STRICT;

-- The anchor of the store's time (see clock.rs): the store's time `at` a moment of the machine. The
-- `correcting_` columns hold the position while sweeps correct times written by a clock that was ahead.
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

-- A row if the store is encrypted (seal.rs). `proof`: sealed with its key. `plain`: 1 while values from before may be plain.
CREATE TABLE sealing (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    proof TEXT NOT NULL,
    plain INTEGER NOT NULL
) STRICT;

-- The totals before the first commit of each minute.
CREATE TABLE marks (
    minute INTEGER PRIMARY KEY,
    delivered INTEGER NOT NULL,
    failed_attempts INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    latency_us INTEGER NOT NULL
) STRICT;

CREATE TABLE subscribers (
    lane INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    patterns TEXT NOT NULL,
    settings TEXT NOT NULL,
    created INTEGER NOT NULL,
    version INTEGER NOT NULL,
    removed INTEGER,
    -- The versions with which an operator last asked to try its endpoint at once, and to end the endpoint's own pause.
    retried INTEGER NOT NULL,
    insisted INTEGER NOT NULL,
    -- An operator's pause.
    pause_reason TEXT,
    pause_until INTEGER
) STRICT;
CREATE UNIQUE INDEX subscribers_name ON subscribers (name) WHERE removed IS NULL;
CREATE INDEX subscribers_version ON subscribers (version);
CREATE INDEX subscribers_pause ON subscribers (pause_until) WHERE pause_until IS NOT NULL;

-- Apart from subscribers, so that ordinary reads do not load secrets.
CREATE TABLE secrets (
    id INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    secret TEXT NOT NULL,
    created INTEGER NOT NULL,
    retires INTEGER
) STRICT;
CREATE INDEX secrets_lane ON secrets (lane);

-- The conditions of subscribers that operators were notified of, until they are notified of the end.
CREATE TABLE notified (
    lane INTEGER NOT NULL,
    condition INTEGER NOT NULL,
    PRIMARY KEY (lane, condition)
) STRICT, WITHOUT ROWID;

-- The frequently changing part of a subscriber, written once per commit. `record` comes last, so that reads of the
-- other columns skip it. A lane without an owner was handed back in order, or never had one.
CREATE TABLE lanes (
    lane INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,
    rows_max INTEGER NOT NULL,
    bytes_max INTEGER NOT NULL,
    when_full INTEGER NOT NULL,
    owner INTEGER,
    term INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    coalesced INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    waiting_bytes INTEGER NOT NULL,
    retrying INTEGER NOT NULL,
    dead_kept INTEGER NOT NULL,
    failed_attempts INTEGER NOT NULL,
    latency_us INTEGER NOT NULL,
    record_at INTEGER,
    record BLOB
) STRICT;
CREATE INDEX lanes_owner ON lanes (owner) WHERE owner IS NOT NULL;
CREATE INDEX lanes_removed ON lanes (lane) WHERE state = 3;

-- A lease covers all lanes of its owner, so a renewal writes one row. `taken` counts the lanes that others took from
-- it.
CREATE TABLE owners (
    owner INTEGER PRIMARY KEY,
    until INTEGER NOT NULL,
    evicted INTEGER NOT NULL,
    taken INTEGER NOT NULL
) STRICT;

-- Lanes that have, or had, window caps. The next owner counts the attempts since the checkpoint.
CREATE TABLE capped (lane INTEGER PRIMARY KEY) STRICT;

-- The processes that deliver, as announced (see messages/node.rs). `unable`: lanes, separated by commas.
CREATE TABLE nodes (
    owner INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    address TEXT,
    unable TEXT NOT NULL,
    draining INTEGER NOT NULL,
    since INTEGER NOT NULL
) STRICT;

-- Counts changes of nodes, and lanes handed back, so that a poll tells whether to read them again.
CREATE TABLE membership (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    changes INTEGER NOT NULL
) STRICT;
INSERT INTO membership VALUES (1, 0);

-- An event's deliveries and bodies have consecutive numbers, so neither needs an index by event.
CREATE TABLE events (
    event INTEGER PRIMARY KEY,
    -- 16 bytes, if it was made here, and else the emitter's own text (see event_id.rs).
    id ANY NOT NULL,
    kind TEXT NOT NULL,
    key TEXT,
    received INTEGER NOT NULL,
    first_delivery INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    -- 0, which takes no room, where there are none.
    first_body INTEGER NOT NULL,
    bodies INTEGER NOT NULL,
    -- Set where some subscriber had no room for its part. For as long as a row of the outbox has its id, such an event is kept.
    in_part INTEGER,
    -- The first body. Deliveries name it with 0.
    body BLOB
) STRICT;
CREATE INDEX events_id ON events (id);

-- The bodies of an event after its first.
CREATE TABLE further_bodies (
    body INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;

-- `state`: 0 waiting, 1 delivered, 2 dead, 3 coalesced, 4 forgotten. `at`: due time while it waits, settlement time afterwards.
-- `last_attempt`: the start of the chain through `attempts`.
CREATE TABLE deliveries (
    delivery INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    event INTEGER NOT NULL,
    body INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    at INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    last_attempt INTEGER,
    reason INTEGER,
    status INTEGER,
    error TEXT,
    coalesce TEXT,
    signature TEXT
) STRICT;
CREATE INDEX deliveries_due ON deliveries (lane, at) WHERE state = 0;
CREATE INDEX deliveries_coalescing ON deliveries (lane, coalesce, at) WHERE state = 0 AND coalesce IS NOT NULL;
CREATE INDEX deliveries_dead ON deliveries (delivery) WHERE state = 2;
CREATE INDEX deliveries_dead_of_lane ON deliveries (lane, delivery) WHERE state = 2;
-- Unreadable dead letters (reason 4).
CREATE INDEX deliveries_unreadable ON deliveries (delivery) WHERE state = 2 AND reason = 4;

-- Expiries of deliveries that still waited when a sweep examined them. An entry is valid while its delivery waits and
-- expires then. Sweeps delete the others. Fast deliveries never get an entry.
CREATE TABLE expiring (
    expires INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    PRIMARY KEY (expires, delivery)
) STRICT, WITHOUT ROWID;

-- The last delivery that a sweep has examined for this.
CREATE TABLE swept (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    delivery INTEGER NOT NULL
) STRICT;
INSERT INTO swept VALUES (1, 0);

-- Ordered by time, so that inserts and deletes touch few pages. `before` chains the attempts of one delivery, which
-- saves an index. `capped`: 1 for an attempt on a lane in `capped`. `connect`, `first_byte`: parts of `latency`. `asked`:
-- 1 if the answer asked by Retry-After to wait.
CREATE TABLE attempts (
    at INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    number INTEGER NOT NULL,
    latency INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    status INTEGER,
    error TEXT,
    body_hash INTEGER NOT NULL,
    before INTEGER,
    capped INTEGER,
    connect INTEGER,
    first_byte INTEGER,
    asked INTEGER,
    PRIMARY KEY (at, delivery)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_capped ON attempts (lane, at, latency, outcome) WHERE capped = 1;

-- The beginning of answers to failed attempts. Each lane has 64 slots, so a newer answer replaces an older one (settle.rs).
CREATE TABLE answers (
    lane INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    head TEXT NOT NULL,
    body BLOB NOT NULL,
    cut INTEGER NOT NULL,
    PRIMARY KEY (lane, slot)
) STRICT;
CREATE INDEX answers_at ON answers (at);

-- When operators had a settled delivery sent again, and its last attempt before. Kept as long as attempts.
CREATE TABLE resent (
    delivery INTEGER NOT NULL,
    at INTEGER NOT NULL,
    after INTEGER,
    PRIMARY KEY (delivery, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX resent_at ON resent (at);

-- Work of operators on many deliveries (commit/job.rs). `lane`, `ids`: of which deliveries; `ids` are separated by commas.
CREATE TABLE jobs (
    job INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    lane INTEGER,
    ids TEXT,
    since INTEGER NOT NULL,
    before INTEGER NOT NULL,
    up_to INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    begun_by TEXT NOT NULL,
    state INTEGER NOT NULL,
    done INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    cursor INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    ended INTEGER,
    error TEXT,
    worker INTEGER NOT NULL,
    until INTEGER NOT NULL,
    events TEXT
) STRICT;

-- Tokens of the API. `digest`: the SHA-256, so no row reveals a token. `subscribers`: JSON; NULL reaches all. A change
-- increments `roster`.
CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    scope INTEGER NOT NULL,
    created INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires INTEGER,
    subscribers TEXT
) STRICT, WITHOUT ROWID;

-- The log of changes (commit/change.rs), the newest last. `subscriber`: its id; `name`: its name at that time.
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    made_by TEXT NOT NULL,
    operation TEXT NOT NULL,
    subscriber TEXT,
    name TEXT,
    subject TEXT,
    changed TEXT NOT NULL
) STRICT;
CREATE INDEX changes_of_subscriber ON changes (subscriber);

-- Latencies of endpoints: one row for each of three measures (latency.rs) and each hour with attempts. Hour 0
-- holds the sum of all hours.
CREATE TABLE latencies (
    lane INTEGER NOT NULL,
    measure INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    counted BLOB NOT NULL,
    PRIMARY KEY (lane, measure, hour)
) STRICT, WITHOUT ROWID;
CREATE INDEX latencies_hour ON latencies (hour);

-- Any program may emit in its own transaction: INSERT INTO outbox (type, key, data) VALUES ('a.b', 'k', '{}').
-- `event` may name the event, so that a repeated insert is delivered once.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 256),
    key TEXT CHECK (length(key) <= 1024),
    data TEXT NOT NULL CHECK (json_valid(data)),
    event TEXT CHECK (length(event) BETWEEN 1 AND 256)
) STRICT;
CREATE INDEX outbox_event ON outbox (event) WHERE event IS NOT NULL;

CREATE TABLE outbox_rejected (
    id INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    key TEXT,
    data TEXT NOT NULL,
    event TEXT,
    why TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
