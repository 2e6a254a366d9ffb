//! The counts of store and emitter, which judge a run without a trace.

use std::collections::BTreeMap;

use hookproof_sender::engine::LaneId;
use hookproof_sender::store::command::{Command, Fate, Reason};
use hookproof_sender::store::lane::Counts;
use hookproof_sender::store::reply::{Placed, Reply, SettleResult};

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub acknowledged: u64,
    pub counts: Counts,
    /// By lane and reason.
    settled: BTreeMap<LaneId, [u64; 4]>,
    shed: u64,
    /// Dead letters that expired in the queue.
    swept: u64,
}

pub(super) const fn place(reason: Reason) -> usize {
    match reason {
        Reason::Exhausted => 0,
        Reason::Expired => 1,
        Reason::Overflow | Reason::Shed => 2,
        // A simulated store has no unreadable rows.
        Reason::Gone | Reason::Unreadable => 3,
    }
}

impl Ledger {
    /// The difference between acknowledged and recorded deliveries, or recorded and accounted ones.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let Counts { accepted, delivered, dead, coalesced, waiting, .. } = self.counts;
        let (acknowledged, found) = (self.acknowledged, delivered + dead + coalesced + waiting);
        if acknowledged > accepted {
            return Some(format!("acknowledged deliveries: {acknowledged}; recorded: {accepted}"));
        }
        (found != accepted).then(|| {
            format!(
                "{accepted} deliveries were recorded, but {found} are accounted for: {delivered} delivered, \
                 {dead} dead, {coalesced} coalesced, {waiting} waiting"
            )
        })
    }

    pub(super) fn count_commands(&mut self, commands: &[Command], replies: &[Reply]) {
        for (command, reply) in commands.iter().zip(replies) {
            match (command, reply) {
                (Command::Settle(rows), Reply::Settled(verdicts)) => {
                    let applied = rows.iter().zip(verdicts).filter(|(_, is)| **is == SettleResult::Applied);
                    for (row, _) in applied {
                        if let Fate::Dead(reason) = row.fate {
                            self.settled.entry(row.lane).or_default()[place(reason)] += 1;
                        }
                    }
                }
                (_, Reply::Emitted(emitted)) => {
                    let overflowed = |placed: &&Placed| matches!(placed, Placed::Overflowed { .. });
                    let at_once = emitted.targets.iter().filter(overflowed).count();
                    self.shed += emitted.shed + u64::try_from(at_once).unwrap_or(u64::MAX);
                }
                (_, Reply::Swept(swept)) => self.swept += swept.expired,
                _ => {}
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        for (lane, counts) in other.settled {
            let mine = self.settled.entry(lane).or_default();
            mine.iter_mut().zip(counts).for_each(|(mine, other)| *mine += other);
        }
        self.shed += other.shed;
        self.swept += other.swept;
    }

    /// Those by settlements are known for each lane. The rest was shed or swept: exact if the run did only one of the
    /// two, otherwise in proportion to the kept ones.
    pub(super) fn forgotten(&self, lane: LaneId, count: u64, kept: [u64; 4]) -> [u64; 4] {
        let settled = self.settled.get(&lane).copied().unwrap_or_default();
        let mut by = [0; 4];
        let mut left = count;
        for at in [place(Reason::Exhausted), place(Reason::Gone)] {
            by[at] = settled[at].saturating_sub(kept[at]).min(left);
            left -= by[at];
        }
        let [_, expired, overflow, _] = kept;
        let at = place(Reason::Expired);
        by[at] = match (self.shed, self.swept) {
            (0, _) => left,
            (_, 0) => settled[at].saturating_sub(expired).min(left),
            _ => {
                let share = u128::from(left) * u128::from(expired) / u128::from((expired + overflow).max(1));
                u64::try_from(share).unwrap_or(left)
            }
        };
        by[place(Reason::Overflow)] = left - by[at];
        by
    }
}
