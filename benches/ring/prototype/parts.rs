//! The parts of the ring: which of them hold anything, and what is still owed of each, as the process counts that has all lanes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tables of events, and as many of settlements.
pub(crate) const PARTS: usize = 4;
/// With so many rows a part is full, as soon as the next one is empty.
const ROWS_MAX: u64 = 250_000;

/// All parts.
pub(super) struct Parts(Mutex<VecDeque<Part>>);

/// One that holds something, or is about to.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Its tables.
    pub(super) table: usize,
    /// The deliveries in it: as their numbers grow, one part follows the other.
    pub(super) deliveries: Range<i64>,
    /// How many of them wait, and are not in `late`.
    owed: u64,
}

impl Default for Parts {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::from([Part { table: 0, deliveries: 1..1, owed: 0 }])))
    }
}

impl Parts {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Part>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that hold anything, the oldest first.
    pub(super) fn living(&self) -> Vec<Part> {
        self.lock().iter().cloned().collect()
    }

    /// Where the next commit writes to: its table, and the number of its first delivery.
    pub(super) fn begin(&self) -> (usize, i64) {
        let mut parts = self.lock();
        let newest = parts.back().expect("there is always one").clone();
        let end = newest.deliveries.end;
        let is_full = (newest.deliveries.end - newest.deliveries.start).unsigned_abs() >= ROWS_MAX;
        if !is_full || parts.len() == PARTS {
            return (newest.table, end);
        }
        let table = (newest.table + 1) % PARTS;
        parts.push_back(Part { table, deliveries: end..end, owed: 0 });
        (table, end)
    }

    /// A commit is durable: so many deliveries were recorded, and of each table so many are settled.
    pub(super) fn commit(&self, recorded: u64, settled: &[u64; PARTS]) {
        let mut parts = self.lock();
        let newest = parts.back_mut().expect("there is always one");
        newest.deliveries.end += i64::try_from(recorded).expect("a commit is small");
        newest.owed += recorded;
        for part in parts.iter_mut() {
            part.owed -= settled[part.table];
        }
    }

    /// The table of the oldest part, if nothing is owed in it any more.
    pub(super) fn done(&self) -> Option<usize> {
        let parts = self.lock();
        let oldest = parts.front().filter(|oldest| oldest.owed == 0 && parts.len() > 1);
        oldest.map(|oldest| oldest.table)
    }

    /// The oldest part is empty.
    pub(super) fn emptied(&self) {
        self.lock().pop_front();
    }
}
