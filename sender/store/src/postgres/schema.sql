-- Schema 1.
--
-- Times are nanoseconds since 1970. Changing a lane or its rows requires the lock of the lane's row. The order of
-- locks: lanes by number, then owners by number, then `state`, then the writer's own row of `totals`.

-- Changes only with subscribers, tokens and nodes. `nodes` counts changes of nodes, and lanes handed back.
CREATE TABLE state (
    id int2 PRIMARY KEY CHECK (id = 1),
    identity int8 NOT NULL,
    roster int8 NOT NULL,
    stirred int8 NOT NULL,
    next_lane int8 NOT NULL,
    nodes int8 NOT NULL
);

-- The counts of each writer. Each has a row of its own, so writers do not wait for each other. `token` names the
-- writer's last commit, which resolves a commit in doubt. Row 0 sums the writers that are gone.
CREATE TABLE totals (
    writer int8 PRIMARY KEY,
    token int8 NOT NULL DEFAULT 0,
    clock int8 NOT NULL DEFAULT 0,
    accepted int8 NOT NULL DEFAULT 0,
    delivered int8 NOT NULL DEFAULT 0,
    dead int8 NOT NULL DEFAULT 0,
    coalesced int8 NOT NULL DEFAULT 0,
    waiting int8 NOT NULL DEFAULT 0,
    waiting_bytes int8 NOT NULL DEFAULT 0,
    retrying int8 NOT NULL DEFAULT 0,
    dead_kept int8 NOT NULL DEFAULT 0,
    failed_attempts int8 NOT NULL DEFAULT 0,
    latency_us int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

-- An update leaves a dead version of the row in the table and its indexes until no open transaction can see it, and a
-- search by an unchanged key scans all of them. So the keys of frequently changed rows grow. The newest key is last
-- in its index, and a backward search finds it first. A writer has 2^32 consecutive numbers with the same upper 31
-- bits.
CREATE VIEW newest_totals AS
    WITH RECURSIVE newest (found) AS (
        (SELECT t FROM totals t ORDER BY t.writer DESC LIMIT 1)
        UNION ALL
        SELECT (SELECT t FROM totals t WHERE t.writer < (n.found).writer >> 32 << 32 ORDER BY t.writer DESC LIMIT 1)
        FROM newest n WHERE n.found IS NOT NULL
    )
    SELECT (found).* FROM newest WHERE found IS NOT NULL;

-- The totals before the first commit of each minute.
CREATE TABLE marks (
    minute int8 PRIMARY KEY,
    delivered int8 NOT NULL,
    failed_attempts int8 NOT NULL,
    dead int8 NOT NULL,
    latency_us int8 NOT NULL
);

-- A row if the store is encrypted (seal.rs). `proof`: sealed with its key. `plain`: 1 while values from before may be plain.
CREATE TABLE sealing (
    id int2 PRIMARY KEY CHECK (id = 1),
    proof text NOT NULL,
    plain int2 NOT NULL
);

CREATE TABLE subscribers (
    lane int8 PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    name text COLLATE "C" NOT NULL,
    url text NOT NULL,
    patterns text NOT NULL,
    settings text NOT NULL,
    created int8 NOT NULL,
    version int8 NOT NULL,
    removed int8,
    -- The versions with which an operator last asked to try its endpoint at once, and to end the endpoint's own pause.
    retried int8 NOT NULL,
    insisted int8 NOT NULL,
    -- An operator's pause.
    pause_reason text,
    pause_until int8
);
CREATE UNIQUE INDEX subscribers_name ON subscribers (name) WHERE removed IS NULL;
CREATE INDEX subscribers_version ON subscribers (version);
CREATE INDEX subscribers_pause ON subscribers (pause_until) WHERE pause_until IS NOT NULL;

-- Apart from subscribers, so that ordinary reads do not load secrets.
CREATE TABLE secrets (
    id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane int8 NOT NULL,
    secret text NOT NULL,
    created int8 NOT NULL,
    retires int8
);
CREATE INDEX secrets_lane ON secrets (lane);

-- The conditions of subscribers that operators were notified of, until they are notified of the end.
CREATE TABLE notified (
    lane int8,
    condition int2,
    PRIMARY KEY (lane, condition)
);

-- The frequently changing part of a subscriber, written once per commit. A lane without an owner was handed back in
-- order, or never had one. `arrivals`, `earliest`, `disturbed` and `head` describe changes to its queue (queues.rs).
-- The key grows with every 64th change (see `newest_totals`); the other changes touch no index and cost less.
CREATE TABLE lanes (
    lane int8 NOT NULL,
    state int2 NOT NULL,
    rows_max int8 NOT NULL,
    bytes_max int8 NOT NULL,
    when_full int2 NOT NULL,
    capped bool NOT NULL,
    arrivals int8 NOT NULL DEFAULT 0,
    earliest int8 NOT NULL DEFAULT 9223372036854775807,
    disturbed int8 NOT NULL DEFAULT 0,
    head int8 NOT NULL DEFAULT 0,
    owner int8,
    term int8 NOT NULL DEFAULT 0,
    accepted int8 NOT NULL DEFAULT 0,
    delivered int8 NOT NULL DEFAULT 0,
    dead int8 NOT NULL DEFAULT 0,
    coalesced int8 NOT NULL DEFAULT 0,
    waiting int8 NOT NULL DEFAULT 0,
    waiting_bytes int8 NOT NULL DEFAULT 0,
    retrying int8 NOT NULL DEFAULT 0,
    dead_kept int8 NOT NULL DEFAULT 0,
    failed_attempts int8 NOT NULL DEFAULT 0,
    latency_us int8 NOT NULL DEFAULT 0,
    record_at int8,
    record bytea,
    changes int8 NOT NULL DEFAULT 0,
    era int8 NOT NULL GENERATED ALWAYS AS (changes / 64) STORED,
    PRIMARY KEY (lane, era)
) WITH (fillfactor = 50);
CREATE INDEX lanes_owner ON lanes (owner) WHERE owner IS NOT NULL;
CREATE INDEX lanes_removed ON lanes (lane) WHERE state = 3;

-- A lease covers all lanes of its owner. `taken` counts the lanes that others took from it.
CREATE TABLE owners (
    owner int8 PRIMARY KEY,
    until int8 NOT NULL,
    evicted bool NOT NULL,
    taken int8 NOT NULL
) WITH (fillfactor = 50);

-- The processes that deliver, as announced (messages/node.rs). Changing one requires the lock of the owners.
CREATE TABLE nodes (
    owner int8 PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    address text,
    unable int8[] NOT NULL,
    draining bool NOT NULL,
    since int8 NOT NULL
);

-- Delivery numbers grow, but may have gaps and become visible in any order.
CREATE SEQUENCE event_numbers;
CREATE SEQUENCE body_numbers;
CREATE SEQUENCE delivery_numbers;

-- An event's first body is in its row. `bodies` lists the others.
CREATE TABLE events (
    event int8 PRIMARY KEY,
    id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    key text,
    received int8 NOT NULL,
    in_part bool NOT NULL,
    deliveries int8[] NOT NULL,
    bodies int8[] NOT NULL,
    bytes bytea
);
CREATE INDEX events_id ON events (id);

CREATE TABLE bodies (
    body int8 PRIMARY KEY,
    bytes bytea NOT NULL
);

-- `body` is null if the body is in the event's row.
-- `state`: 0 waiting, 1 delivered, 2 dead, 3 coalesced, 4 forgotten. `at`: due time while it waits, settlement time afterwards.
-- `last_attempt`: the start of the chain through `attempts`.
CREATE TABLE deliveries (
    delivery int8 PRIMARY KEY,
    lane int8 NOT NULL,
    event int8 NOT NULL,
    body int8,
    bytes int8 NOT NULL,
    state int2 NOT NULL,
    attempts int8 NOT NULL,
    at int8 NOT NULL,
    expires int8 NOT NULL,
    ttl int8 NOT NULL,
    last_attempt int8,
    reason int2,
    status int4,
    error text COLLATE "C",
    coalesce text COLLATE "C",
    signature text
) WITH (fillfactor = 80);
CREATE INDEX deliveries_due ON deliveries (lane, at, delivery) WHERE state = 0;
-- Each index of waiting deliveries serves only its own statements. PostgreSQL sees an almost empty table when it
-- analyses it, so it would consider any of these indexes equally good. It uses a partial index only if the statement
-- repeats its WHERE, so each WHERE states `state = 0` in its own form.
CREATE INDEX deliveries_expires ON deliveries (expires, delivery) WHERE state + 0 = 0;
CREATE INDEX deliveries_alike ON deliveries (lane, coalesce, at) WHERE 0 + state = 0 AND coalesce IS NOT NULL;
CREATE INDEX deliveries_dead ON deliveries (delivery) WHERE state = 2;
CREATE INDEX deliveries_dead_of_lane ON deliveries (lane, delivery) WHERE state = 2;
CREATE INDEX deliveries_unreadable ON deliveries (delivery) WHERE state = 2 AND reason = 4;

-- Delivered rows. An update in place would add a version to every index and leave the whole former row behind. A
-- delete costs an eighth of that. So a delivered row moves here, where one index is enough.
CREATE TABLE done (
    delivery int8 PRIMARY KEY,
    lane int8 NOT NULL,
    event int8 NOT NULL,
    body int8,
    bytes int8 NOT NULL,
    attempts int8 NOT NULL,
    at int8 NOT NULL,
    expires int8 NOT NULL,
    ttl int8 NOT NULL,
    last_attempt int8,
    status int4,
    error text COLLATE "C",
    coalesce text COLLATE "C",
    signature text
);

CREATE VIEW all_deliveries AS
    SELECT delivery, lane, event, body, bytes, state, attempts, at, expires, ttl, last_attempt, reason, status, error,
        coalesce, signature, false AS is_done FROM deliveries
    UNION ALL
    SELECT delivery, lane, event, body, bytes, 1::int2, attempts, at, expires, ttl, last_attempt, NULL, status, error,
        coalesce, signature, true FROM done;

-- Ordered by time. `before` chains the attempts of one delivery, which saves an index. `connect`, `first_byte`: parts of
-- `latency`. `asked`: the answer asked by Retry-After to wait.
CREATE TABLE attempts (
    at int8 NOT NULL,
    delivery int8 NOT NULL,
    lane int8 NOT NULL,
    number int8 NOT NULL,
    latency int8 NOT NULL,
    outcome int2 NOT NULL,
    status int4,
    error text,
    body_hash int8 NOT NULL,
    before int8,
    capped bool NOT NULL,
    connect int8,
    first_byte int8,
    asked bool NOT NULL DEFAULT false,
    PRIMARY KEY (at, delivery)
);
-- By the attempt's end. By its start, the next owner of a busy lane would read an extra hour of attempts while all
-- others wait for the lock of leases. `least` prevents an overflow when a clock is far ahead.
CREATE INDEX attempts_capped ON attempts (lane, (at + least(latency, 9223372036854775807 - at))) WHERE capped;

-- The beginning of answers to failed attempts. Each lane has 64 slots, so a newer answer replaces an older one (settle.rs).
CREATE TABLE answers (
    lane int8 NOT NULL,
    slot int2 NOT NULL,
    at int8 NOT NULL,
    delivery int8 NOT NULL,
    head text NOT NULL,
    body bytea NOT NULL,
    cut bool NOT NULL,
    PRIMARY KEY (lane, slot)
);
CREATE INDEX answers_at ON answers (at);

-- When operators had a settled delivery sent again, and its last attempt before. Kept as long as attempts.
CREATE TABLE resent (
    delivery int8 NOT NULL,
    at int8 NOT NULL,
    after int8,
    PRIMARY KEY (delivery, at)
);
CREATE INDEX resent_at ON resent (at);

-- Work of operators on many deliveries (commit/job.rs). `lane`, `ids`: of which deliveries; `ids` are separated by commas.
-- Locked after all other rows.
CREATE TABLE jobs (
    job int8 PRIMARY KEY,
    kind int2 NOT NULL,
    lane int8,
    ids text,
    since int8 NOT NULL,
    before int8 NOT NULL,
    up_to int8 NOT NULL,
    planned int8 NOT NULL,
    begun_by text NOT NULL,
    state int2 NOT NULL,
    done int8 NOT NULL,
    skipped int8 NOT NULL,
    cursor int8 NOT NULL,
    begun int8 NOT NULL,
    ended int8,
    error text,
    worker int8 NOT NULL,
    until int8 NOT NULL,
    events text
) WITH (fillfactor = 50);

-- Tokens of the API. `digest`: the SHA-256, so no row reveals a token. `subscribers`: JSON; NULL reaches all. A change
-- increments `roster`.
CREATE TABLE tokens (
    name text COLLATE "C" PRIMARY KEY,
    digest bytea NOT NULL,
    scope int2 NOT NULL,
    created int8 NOT NULL,
    created_by text NOT NULL,
    expires int8,
    subscribers text
);

-- The log of changes (commit/change.rs), the newest last. `subscriber`: its id; `name`: its name at that time. Written under the
-- lock of `state`.
CREATE TABLE changes (
    number int8 PRIMARY KEY,
    at int8 NOT NULL,
    made_by text NOT NULL,
    operation text NOT NULL,
    subscriber text,
    name text,
    subject text,
    changed text NOT NULL
);
CREATE INDEX changes_of_subscriber ON changes (subscriber, number);

-- One row for each of three measures (latency.rs). Hour 0 holds the sum of all hours.
CREATE TABLE latencies (
    lane int8 NOT NULL,
    measure int2 NOT NULL,
    hour int8 NOT NULL,
    counted bytea NOT NULL,
    PRIMARY KEY (lane, measure, hour)
);
CREATE INDEX latencies_hour ON latencies (hour);

-- Any program may emit in its own transaction: INSERT INTO outbox (type, key, data) VALUES ('a.b', 'k', '{}').
-- `event` may name the event, so that a repeated insert is delivered once.
CREATE TABLE outbox (
    id int8 GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    type text NOT NULL CHECK (length(type) BETWEEN 1 AND 256),
    key text CHECK (length(key) <= 1024),
    data text NOT NULL CHECK (data::json IS NOT NULL),
    event text CHECK (length(event) BETWEEN 1 AND 256)
);
CREATE INDEX outbox_event ON outbox (event) WHERE event IS NOT NULL;

CREATE TABLE outbox_rejected (
    id int8 PRIMARY KEY,
    type text NOT NULL,
    key text,
    data text NOT NULL,
    event text,
    why text NOT NULL,
    at int8 NOT NULL
);

-- Rows for bulk inserts. The server unpacks an array of these in one pass, while an array for each column would be
-- materialised and read again.
CREATE TYPE new_event AS (
    event int8, id text, kind text, key text, received int8, in_part bool, deliveries int8[], bodies int8[], bytes bytea
);
CREATE TYPE new_delivery AS (
    delivery int8, lane int8, event int8, body int8, bytes int8, state int2, at int8, expires int8, ttl int8, reason int2,
    coalesce text, signature text
);
CREATE TYPE new_attempt AS (
    at int8, delivery int8, lane int8, number int8, latency int8, outcome int2, status int4, error text, body_hash int8,
    before int8, capped bool, connect int8, first_byte int8, asked bool
);
CREATE TYPE settled AS (
    delivery int8, state int2, at int8, attempts int8, last_attempt int8, status int4, error text, reason int2
);
