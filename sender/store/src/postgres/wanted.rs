//! The rows that a commit locks, in the one order that all commits use.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::clock::server_clock;
use super::failure::{Result, Stop, Wanted};
use super::ledger::{Entry, Lease, Ledger, Writer, counts};
use super::link::Query;
use crate::Command;
use crate::command::{Retry, ToRetry};
use crate::engine::{LaneId, StoreTime};

macro_rules! summed {
    () => {
        "sum(accepted)::int8, sum(delivered)::int8, sum(dead)::int8, sum(coalesced)::int8, sum(waiting)::int8,
         sum(waiting_bytes)::int8, sum(retrying)::int8, sum(dead_kept)::int8, sum(failed_attempts)::int8,
         sum(latency_us)::int8, max(clock)"
    };
}
pub(super) use summed;

const LANES: &str = concat!(
    "SELECT ",
    counts!(),
    ", lane, state, rows_max, bytes_max, when_full, owner, term, capped, arrivals, earliest, disturbed, head, changes
     FROM unnest($1::int8[]) u (wanted) CROSS JOIN LATERAL (
        SELECT * FROM lanes l WHERE l.lane = u.wanted ORDER BY l.era DESC LIMIT 1 FOR UPDATE) l"
);
const OWNERS: &str = "SELECT owner, until, evicted, taken FROM owners ORDER BY owner FOR UPDATE";
const STATE: &str = "SELECT roster, stirred, next_lane, nodes FROM state";
const STATE_LOCKED: &str = "SELECT roster, stirred, next_lane, nodes FROM state FOR UPDATE";
const TOTALS: &str = concat!(
    "SELECT ",
    summed!(),
    ", (SELECT max(minute) FROM marks), ",
    server_clock!(),
    " FROM newest_totals"
);

impl Wanted {
    pub(super) fn queries<'a>(&self, lanes: &'a Vec<LaneId>, writer: &'a Writer) -> Vec<Query<'a>> {
        let mut asks = vec![Query { text: LANES, values: vec![lanes] }];
        asks.extend(self.owners.then(|| Query { text: OWNERS, values: Vec::new() }));
        asks.push(Query { text: if self.state { STATE_LOCKED } else { STATE }, values: Vec::new() });
        asks.push(writer.lock());
        asks.push(Query { text: TOTALS, values: Vec::new() });
        asks
    }

    pub(super) fn read(
        &self,
        answers: &mut impl Iterator<Item = Vec<Row>>,
        (writer, now): (Writer, StoreTime),
    ) -> Result<Ledger> {
        let mut next = || answers.next().unwrap_or_default();
        let mut lanes: BTreeMap<_, _> = self.lanes.iter().map(|lane| (*lane, None)).collect();
        for row in next() {
            lanes.insert(row.try_get(10)?, Some(Entry::read(&row)?));
        }
        let mut owners = BTreeMap::new();
        if self.owners {
            for row in next() {
                owners.insert(row.try_get(0)?, Lease::read(&row)?);
            }
        }
        let missing = || Stop::Broken("the table `state` or `totals` is empty");
        let state = next().into_iter().next().ok_or_else(missing)?;
        if next().is_empty() {
            return Err(Stop::Unlocked(Self { writer: true, ..Self::default() }));
        }
        let totals = next().into_iter().next().ok_or_else(missing)?;
        Ledger::read(self, (lanes, owners), (&state, &totals), (writer, now))
    }

    /// Finds the rows that commands will need, as far as they name them.
    pub(super) fn by(commands: &[Command]) -> Self {
        let mut wanted = Self::default();
        for command in commands {
            wanted.owners |= asks_who_lives(command);
            // The log of changes is written under this lock.
            wanted.state |= matches!(command, Command::Attributed(_));
            match command.itself() {
                Command::Emit(emit) => {
                    wanted.lanes.extend(emit.targets.iter().map(|target| target.lane));
                    wanted.lanes.extend(emit.notifies.map(|transition| transition.lane));
                }
                Command::Settle(settlements) => {
                    wanted.lanes.extend(settlements.iter().map(|settlement| settlement.lane));
                }
                Command::Claim(claim) => drop(wanted.lanes.insert(claim.lane)),
                Command::Persist(persist) => {
                    wanted.lanes.insert(persist.lane);
                    wanted.state |= persist.hand_back;
                }
                Command::Evict(_) | Command::Retire(_) | Command::Drain(_) | Command::Subscribe(_) => {
                    wanted.state = true;
                }
                Command::Change(change) => wanted.roster_of(change.lane),
                Command::Rotate(rotate) => wanted.roster_of(rotate.lane),
                Command::Remove(lane) => wanted.roster_of(*lane),
                Command::StepJob(step) => {
                    wanted.lanes.extend(step.lane);
                    wanted.state = true;
                }
                Command::Redrive(_)
                | Command::StartJob(_)
                | Command::CreateToken(_)
                | Command::RevokeToken(_) => wanted.state = true,
                Command::Retry(Retry { which: ToRetry::Of(lane), .. }) => wanted.roster_of(*lane),
                Command::Retry(_) | Command::Resend(_) => wanted.state = true,
                Command::Shed(shed) => drop(wanted.lanes.insert(shed.lane)),
                // A renewal rarely changes its node. If it does, the commit locks the state then.
                Command::Attributed(_)
                | Command::Acquire(_)
                | Command::Renew(_)
                | Command::Sweep(_)
                | Command::RejectOutbox(_)
                | Command::Forget(_)
                | Command::Erase(_)
                | Command::Reseal(_)
                | Command::Purge(_)
                | Command::SetJob(_) => {}
            }
        }
        wanted
    }

    fn roster_of(&mut self, lane: LaneId) {
        self.lanes.insert(lane);
        self.state = true;
    }
}

/// Whether a command reads or changes leases. It locks the leases of all owners.
fn asks_who_lives(command: &Command) -> bool {
    use Command::{Acquire, Drain, Evict, Renew, Retire};
    matches!(command.itself(), Acquire(_) | Drain(_) | Evict(_) | Renew(_) | Retire(_))
}

/// Whether a command must be a commit of its own. One that locks leases blocks other renewals. A sweep forgets owners
/// afterwards, and starts again with the lanes that it finds.
pub(super) fn locks_leases(command: &Command) -> bool {
    asks_who_lives(command) || matches!(command, Command::Sweep(_))
}
