//! The size of a file over a month and more of virtual time, with the default retention. Every commit and each step of
//! upkeep is the sender's own.

use std::path::Path;

use hookproof_sender::engine::{LaneId, Nanos, StoreTime, Term};
use hookproof_sender::runtime::{Retention, UPKEEP_ROWS, upkeep_due};
use hookproof_sender::store::command::{Claim, Fate, Reason};
use hookproof_sender::store::reply::Purged;
use hookproof_sender::store::sqlite::SqliteStore;
use hookproof_sender::store::{Command, Durability, Reply, Store};

use crate::{NOW, event, number, open, settled};

/// `HOOKPROOF_DAYS` and `HOOKPROOF_A_DAY` override them.
const DAYS: u64 = 40;
const EVENTS_A_DAY: u64 = 1_000_000;
const LANES: u64 = 10;
/// Events in one commit.
const AT_ONCE: u64 = 1_000;
/// One delivery in so many becomes a dead letter.
const DEAD_EACH: u64 = 1_000;
/// Dead letters are the oldest rows that are kept. From this day on, as much is deleted as is recorded.
const FULL_AFTER: usize = 31;

struct World {
    store: SqliteStore,
    now: StoreTime,
    lanes: Vec<(LaneId, Term)>,
    recorded: u64,
    deleted: Purged,
}

pub(crate) fn measure() {
    let (days, a_day) = (number("HOOKPROOF_DAYS", DAYS), number("HOOKPROOF_A_DAY", EVENTS_A_DAY));
    let rounds = (a_day / AT_ONCE).max(1);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, lanes) = open(folder.path(), Durability::Process, LANES);
    let mut world = World { store, now: NOW, lanes, recorded: 0, deleted: Purged::default() };
    let columns = ["recorded", "kept", "attempts kept", "file, MiB", "log, MiB"];
    println!("{:>4} {}", "day", columns.map(|column| format!("{column:>14}")).join(""));
    let mut sizes = Vec::new();
    for day in 1..=days {
        for _ in 0..rounds {
            world.round();
            world.now = StoreTime(world.now.0 + Nanos::DAY.0 / rounds);
            world.upkeep();
        }
        let [file, log] = ["bench.db", "bench.db-wal"].map(|name| mebibytes(&folder.path().join(name)));
        let (recorded, deleted) = (world.recorded, &world.deleted);
        let figures = [recorded, recorded - deleted.events, recorded - deleted.attempts, file, log];
        println!("{day:>4} {}", figures.map(|figure| format!("{figure:>14}")).join(""));
        sizes.push(file);
    }
    let (month, rest) = sizes.split_at(sizes.len().min(FULL_AFTER));
    let largest = |sizes: &[u64]| sizes.iter().max().copied().unwrap_or_default();
    println!("at most {} MiB until day {FULL_AFTER}, {} MiB after it", largest(month), largest(rest));
}

impl World {
    fn commit(&mut self, commands: &[Command]) -> Vec<Reply> {
        self.store.commit(self.now, commands).expect("the disk works")
    }

    /// Records events, and settles each of their deliveries.
    fn round(&mut self) {
        let lane = |number: u64| self.lanes[usize::try_from(number % LANES).expect("small")].0;
        let all = self.recorded..self.recorded + AT_ONCE;
        let events: Vec<_> = all.map(|number| event(number, self.now, LANES, &[lane(number)])).collect();
        self.commit(&events);
        self.recorded += AT_ONCE;
        let claim = |(lane, term): &(LaneId, Term)| {
            Command::Claim(Claim { lane: *lane, term: *term, max: u32::MAX, bytes_max: u64::MAX })
        };
        let claims: Vec<_> = self.lanes.iter().map(claim).collect();
        let mut settlements = Vec::new();
        for reply in self.commit(&claims) {
            let Reply::Claimed(claimed) = reply else { panic!("claimed") };
            for row in &claimed.rows {
                let mut settlement = settled(claimed.lane, claimed.term, row.delivery, self.now);
                if row.delivery.0.is_multiple_of(DEAD_EACH) {
                    settlement.fate = Fate::Dead(Reason::Exhausted);
                }
                settlements.push(settlement);
            }
        }
        assert_eq!(u64::try_from(settlements.len()), Ok(AT_ONCE), "each delivery is claimed");
        self.commit(&[Command::Settle(settlements)]);
    }

    fn upkeep(&mut self) {
        for command in upkeep_due(&Retention::default(), self.now, UPKEEP_ROWS) {
            while self.step(&command) {}
        }
    }

    /// Whether there is more to do.
    fn step(&mut self, command: &Command) -> bool {
        match self.commit(std::slice::from_ref(command)).pop() {
            Some(Reply::Swept(swept)) => swept.more,
            Some(Reply::Purged(purged)) => {
                self.deleted.events += purged.events;
                self.deleted.attempts += purged.attempts;
                purged.more
            }
            other => panic!("{other:?}"),
        }
    }
}

fn mebibytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len() >> 20)
}
