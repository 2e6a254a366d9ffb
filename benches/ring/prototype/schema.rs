//! The tables of the ring, and what is asked of them.

use super::parts::PARTS;

/// The columns of an event that waits, of a settlement, which is its attempt.
pub(super) const EVENT_COLUMNS: i16 = 13;
pub(super) const SETTLEMENT_COLUMNS: i16 = 8;

const EVENT: &str = "delivery int8 NOT NULL, due int8 NOT NULL, expires int8 NOT NULL, received int8 NOT NULL,
    hash int8 NOT NULL, lane int4 NOT NULL, attempts int2 NOT NULL, state int2 NOT NULL, id text COLLATE \"C\" NOT NULL,
    kind text COLLATE \"C\" NOT NULL, key text, signature text, body bytea NOT NULL";
const SETTLEMENT: &str =
    "at int8 NOT NULL, delivery int8 NOT NULL, latency int8 NOT NULL, hash int8 NOT NULL,
    lane int4 NOT NULL, number int2 NOT NULL, outcome int2 NOT NULL, status int2 NOT NULL";

/// As for our store's hot connections, and without sorts.
pub(super) const HOT: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_sort = off;
    SET jit = off; SET statement_timeout = '10s'";
/// Whoever has read a part holds up nobody but this.
pub(super) const EMPTYING: &str = "SET lock_timeout = '100ms'";

/// Who settles: retries count only for the owner of the lanes.
pub(super) const FENCE: &str = "SELECT term FROM owners WHERE owner = 1 FOR SHARE";
pub(super) const TERM: i64 = 1;

pub(super) const LATE: &str = "SELECT d.* FROM unnest($1::int4[], $2::int8[], $3::int8[]) l(lane, due, delivery)
    CROSS JOIN LATERAL (SELECT * FROM late d WHERE d.lane = l.lane AND (d.due, d.delivery) > (l.due, l.delivery)
    AND d.due <= $4 ORDER BY d.due, d.delivery LIMIT 10000) d";
pub(super) const LATE_DONE: &str =
    "DELETE FROM late d USING unnest($1::int4[], $2::int8[], $3::int8[]) u(lane, due, delivery)
    WHERE d.lane = u.lane AND d.due = u.due AND d.delivery = u.delivery";

/// All tables.
pub(super) fn schema() -> String {
    let parts: String = (0..PARTS)
        .map(|part| {
            format!(
                "CREATE TABLE d_{part} ({EVENT}, PRIMARY KEY (lane, delivery)) WITH (autovacuum_enabled = off);
                CREATE UNIQUE INDEX d_{part}_id ON d_{part} (id);
                CREATE TABLE s_{part} ({SETTLEMENT}) WITH (autovacuum_enabled = off);"
            )
        })
        .collect();
    format!(
        "{parts} CREATE TABLE late ({EVENT}, PRIMARY KEY (lane, due, delivery));
        CREATE TABLE owners (owner int8 PRIMARY KEY, term int8 NOT NULL); INSERT INTO owners VALUES (1, {TERM})"
    )
}

pub(super) fn copy(table: &str) -> String {
    format!("COPY {table} FROM STDIN BINARY")
}

/// What waits in a part behind where each of some lanes has come to.
pub(super) fn claim(part: usize, max: u32) -> String {
    format!(
        "SELECT d.* FROM unnest($1::int4[], $2::int8[], $3::int8[]) l(lane, low, high) CROSS JOIN LATERAL
        (SELECT * FROM d_{part} d WHERE d.lane = l.lane AND d.delivery > l.low AND d.delivery < l.high AND d.due <= $4
        ORDER BY d.delivery LIMIT {max}) d"
    )
}

/// Which of some ids a part has.
pub(super) fn look_up(part: usize) -> String {
    format!("SELECT id FROM d_{part} WHERE id = ANY($1)")
}

/// Empties a part.
pub(super) fn empty(part: usize) -> String {
    format!("TRUNCATE d_{part}, s_{part}")
}
