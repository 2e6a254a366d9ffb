//! Which of several processes works: the one that holds the lease of their folder. It says so again and again; who has not for
//! [`LEASE_NS`] is taken to be gone, and another one takes its work over.

use std::cell::Cell;

use hookproof::run::Clock;
use rusqlite::{Connection, OptionalExtension, params};

/// How long it holds since it was said last.
const LEASE_NS: u64 = 2_000_000_000;
/// How often it is said.
pub(crate) const SAID_EVERY_NS: u64 = 500_000_000;

const TABLE: &str = "PRAGMA busy_timeout = 50; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
    CREATE TABLE IF NOT EXISTS lease (one INTEGER PRIMARY KEY, holder INTEGER, term INTEGER, until INTEGER)";
/// Its last holder is known by its port, and has it again at once.
const TAKE: &str = "INSERT INTO lease VALUES (1, ?1, 1, ?3)
    ON CONFLICT (one) DO UPDATE SET holder = ?1, term = term + 1, until = ?3 WHERE until < ?2 OR holder = ?1
    RETURNING term";
const RENEW: &str = "UPDATE lease SET until = ?3 WHERE holder = ?1 AND term = ?2";
const HOLDER: &str = "SELECT holder FROM lease WHERE until >= ?1";

/// What became of saying it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// It holds for longer.
    Held,
    /// Another process has it.
    Lost,
    /// Nothing can be written now: it holds for as long as it held before.
    Unsaid,
}

/// The lease, as one process sees it.
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

    /// Whether it holds now.
    pub(crate) fn is_held(&self) -> bool {
        self.clock.now() < self.until.get()
    }

    /// By everybody's clock, as the database keeps it.
    fn wall(&self, at: u64) -> i64 {
        i64::try_from(self.clock.unix_ns(at)).unwrap()
    }

    /// Takes it, if nobody else has it.
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

    /// Says once more that this process has it.
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

    /// The port of the process that has it.
    pub(crate) fn holder(&self) -> Option<u16> {
        let now = self.wall(self.clock.now());
        self.database.query_row(HOLDER, [now], |row| row.get(0)).optional().ok()?
    }
}
