-- Schema 5: what was delivered leaves the table of what is owed, and rows come by the record.
--
-- A row that is changed where it lies is written again into each of its indexes, and leaves all of its former self behind. One
-- that is deleted costs an eighth of that, so that a delivery that is done is deleted here and written once more there, where one
-- index is enough. What processes of versions before settle stays where it was, as one that is delivered, until it is deleted for its age.
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

-- Rows on their way into tables. An array of them is taken apart in one pass, where as many arrays as there are columns are put
-- down and read again one by one. A released type never changes: processes of two versions write at the same time.
CREATE TYPE new_event AS (
    event int8, id text, kind text, key text, received int8, in_part bool, deliveries int8[], bodies int8[], hash int8, bytes bytea
);
CREATE TYPE new_delivery AS (
    delivery int8, lane int8, event int8, body int8, bytes int8, state int2, at int8, expires int8, ttl int8, reason int2,
    coalesce text, signature text
);
CREATE TYPE new_attempt AS (
    at int8, delivery int8, lane int8, number int8, latency int8, outcome int2, status int4, error text, body_hash int8,
    before int8, capped bool
);
CREATE TYPE settled AS (
    delivery int8, state int2, at int8, attempts int8, last_attempt int8, status int4, error text, reason int2
);
