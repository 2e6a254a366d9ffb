//! The holder of the folder's lease works. [`LEASE_NS`] after the last renewal another process takes over.

use std::cell::Cell;

use hookproof::clock::Clock;
use rusqlite::{Connection, OptionalExtension, params};

const LEASE_NS: u64 = 2_000_000_000;
pub(crate) const SAID_EVERY_NS: u64 = 500_000_000;

const TABLE: &str = "PRAGMA busy_timeout = 50; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
    CREATE TABLE IF NOT EXISTS lease (one INTEGER PRIMARY KEY, holder INTEGER, term INTEGER, until INTEGER)";
/// The last holder, known by its port, may take it again at once.
const TAKE: &str = "INSERT INTO lease VALUES (1, ?1, 1, ?3)
    ON CONFLICT (one) DO UPDATE SET holder = ?1, term = term + 1, until = ?3 WHERE until < ?2 OR holder = ?1
    RETURNING term";
const RENEW: &str = "UPDATE lease SET until = ?3 WHERE holder = ?1 AND term = ?2";
const HOLDER: &str = "SELECT holder FROM lease WHERE until >= ?1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Held,
    Lost,
    /// No write is possible now: the lease keeps its earlier end.
    Unsaid,
}

pub(crate) struct Lease {
    database: Connection,
    pub(crate) clock: Clock,
    port: u16,
    term: Cell<i64>,
    /// On the process's clock, which a stop does not halt.
    until: Cell<u64>,
}

impl Lease {
    pub(crate) fn open(dir: &str, port: u16, clock: Clock) -> Self {
        let database = Connection::open(format!("{dir}/lease.db")).unwrap();
        database.execute_batch(TABLE).unwrap();
        Self { database, clock, port, term: Cell::default(), until: Cell::default() }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.clock.now() < self.until.get()
    }

    fn wall(&self, at: u64) -> i64 {
        i64::try_from(self.clock.unix_ns(at)).unwrap()
    }

    pub(crate) fn take(&self) -> bool {
        let now = self.clock.now();
        let until = now + LEASE_NS;
        let taken =
            self.database
                .query_row(TAKE, params![self.port, self.wall(now), self.wall(until)], |row| row.get(0));
        let Ok(term) = taken else { return false };
        self.term.set(term);
        self.until.set(until);
        true
    }

    pub(crate) fn renew(&self) -> Renewal {
        let until = self.clock.now() + LEASE_NS;
        match self.database.execute(RENEW, params![self.port, self.term.get(), self.wall(until)]) {
            Ok(0) => Renewal::Lost,
            Ok(_) => {
                self.until.set(until);
                Renewal::Held
            }
            Err(_) => Renewal::Unsaid,
        }
    }

    pub(crate) fn holder(&self) -> Option<u16> {
        let now = self.wall(self.clock.now());
        self.database.query_row(HOLDER, [now], |row| row.get(0)).optional().ok()?
    }
}
