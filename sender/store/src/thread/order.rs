//! Decides which claims may go ahead of earlier requests.
//!
//! A claim writes nothing, so it need not wait for the disk. But it must see earlier settlements of its lane that
//! change the queue:
//!
//! - A released delivery, or one that is given up, holds the claim back. So do earlier claims and checkpoints of the
//!   lane.
//! - A delivered one does not: the claim skips it, because it is held until it is settled.
//! - A retried one is held too. The claim looks at the queue as of the moment before the retry is due, and reports
//!   when that is.
//!
//! Other commands do not matter. Events and redriven letters are claimed after their callers were answered, and lanes
//! after they were acquired.

use std::collections::BTreeMap;

use crate::Command;
use crate::command::Fate;
use crate::engine::{LaneId, StoreTime};
use crate::reply::Claimed;

/// For each lane, the pending commands that its claims must wait for or take into account.
#[derive(Debug, Default)]
pub struct PendingByLane(BTreeMap<LaneId, Pending>);

#[derive(Debug, Default)]
struct Pending {
    /// The number of pending commands that claims must follow.
    before_claims: u32,
    retries: BTreeMap<StoreTime, u32>,
}

/// How a claim goes ahead: the deliveries that it overtakes are due at this time or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead(StoreTime);

impl Ahead {
    /// The claim overtakes nothing that it could ever hand out.
    pub(super) const FREELY: Self = Self(StoreTime(u64::MAX));

    /// The moment as of which the claim reads the queue.
    #[must_use]
    pub fn moment(self, now: StoreTime) -> StoreTime {
        now.min(StoreTime(self.0.0.saturating_sub(1)))
    }

    /// Sets when to look again for the overtaken deliveries.
    pub fn set_next_claim(self, claimed: &mut Claimed) {
        if self != Self::FREELY {
            claimed.next = Some(claimed.next.map_or(self.0, |next| next.min(self.0)));
        }
    }
}

impl PendingByLane {
    /// Whether a request may go ahead, and how. It may if it only claims, and pending retries of its lanes are due
    /// later.
    #[must_use]
    pub fn lets_pass(&self, commands: &[Command], now: StoreTime) -> Option<Ahead> {
        let mut ahead = Ahead::FREELY;
        for command in commands {
            let Command::Claim(claim) = command else { return None };
            if let Some(pending) = self.0.get(&claim.lane) {
                let due = pending.soonest_retry();
                if pending.before_claims > 0 || due <= now {
                    return None;
                }
                ahead = Ahead(ahead.0.min(due));
            }
        }
        Some(ahead)
    }

    pub fn begin(&mut self, commands: &[Command]) {
        for (lane, due) in commands.iter().flat_map(concerned) {
            let pending = self.0.entry(lane).or_default();
            match due {
                Some(due) => *pending.retries.entry(due).or_insert(0) += 1,
                None => pending.before_claims += 1,
            }
        }
    }

    pub fn end(&mut self, commands: &[Command]) {
        for (lane, due) in commands.iter().flat_map(concerned) {
            if let Some(pending) = self.0.get_mut(&lane) {
                pending.end(due);
                if pending.before_claims == 0 && pending.retries.is_empty() {
                    self.0.remove(&lane);
                }
            }
        }
    }
}

impl Pending {
    fn soonest_retry(&self) -> StoreTime {
        self.retries.keys().next().copied().unwrap_or(Ahead::FREELY.0)
    }

    fn end(&mut self, due: Option<StoreTime>) {
        let Some(due) = due else {
            self.before_claims -= 1;
            return;
        };
        if let Some(left) = self.retries.get_mut(&due) {
            *left -= 1;
            if *left == 0 {
                self.retries.remove(&due);
            }
        }
    }
}

/// Claims on these lanes must wait for the command. With a time: only claims from that time on.
fn concerned(command: &Command) -> Vec<(LaneId, Option<StoreTime>)> {
    match command {
        Command::Claim(claim) => vec![(claim.lane, None)],
        Command::Persist(persist) => vec![(persist.lane, None)],
        Command::Settle(settlements) => {
            let changed = settlements.iter().filter(|settlement| settlement.fate != Fate::Delivered);
            changed.map(|settlement| (settlement.lane, due(settlement.fate))).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) const fn due(fate: Fate) -> Option<StoreTime> {
    match fate {
        Fate::Retry { due } => Some(due),
        Fate::Delivered | Fate::Released | Fate::Dead(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Claim, Settlement};
    use crate::engine::{DeliveryId, Term};

    const NOW: StoreTime = StoreTime(100);

    fn claims(lanes: &[u64]) -> Vec<Command> {
        let claim =
            |lane: &u64| Command::Claim(Claim { lane: LaneId(*lane), term: Term(1), max: 1, bytes_max: 1 });
        lanes.iter().map(claim).collect()
    }

    fn settle(lane: u64, fate: Fate) -> Command {
        let (lane, term, delivery) = (LaneId(lane), Term(1), DeliveryId(1));
        Command::Settle(vec![Settlement {
            lane,
            term,
            delivery,
            attempts: 1,
            fate,
            disables: None,
            attempt: None,
        }])
    }

    fn retry(lane: u64, due: u64) -> Command {
        settle(lane, Fate::Retry { due: StoreTime(due) })
    }

    fn answer(ahead: Ahead, next: Option<u64>) -> Option<u64> {
        let (lane, term) = (LaneId(1), Term(1));
        let next = next.map(StoreTime);
        let mut claimed = Claimed { lane, term, rows: Vec::new(), next, too_long: None };
        ahead.set_next_claim(&mut claimed);
        claimed.next.map(|next| next.0)
    }

    #[test]
    fn a_claim_that_passes_a_retry_looks_at_the_queue_before_that_is_due_and_is_told_of_it() {
        let mut pending = PendingByLane::default();
        let (soon, late) = (retry(1, 110), retry(1, 150));
        pending.begin(std::slice::from_ref(&late));
        pending.begin(std::slice::from_ref(&soon));
        let ahead = pending.lets_pass(&claims(&[1]), NOW).unwrap();
        assert_eq!((ahead.moment(NOW), ahead.moment(StoreTime(200))), (NOW, StoreTime(109)));
        assert_eq!(
            [None, Some(105), Some(120)].map(|next| answer(ahead, next)),
            [Some(110), Some(105), Some(110)]
        );
        assert_eq!(
            pending.lets_pass(&claims(&[1]), StoreTime(110)),
            None,
            "it may be the first in the queue by now"
        );
        pending.end(std::slice::from_ref(&soon));
        assert_eq!(
            pending.lets_pass(&claims(&[2, 1]), StoreTime(110)).map(|ahead| ahead.0),
            Some(StoreTime(150))
        );
        pending.end(std::slice::from_ref(&late));
        assert_eq!(pending.lets_pass(&claims(&[1]), StoreTime(u64::MAX)), Some(Ahead::FREELY));
        assert_eq!(answer(Ahead::FREELY, None), None);
    }

    #[test]
    fn a_claim_comes_after_what_may_be_the_first_in_the_queue() {
        let dead = Fate::Dead(crate::command::Reason::Exhausted);
        for before in [settle(1, Fate::Released), settle(1, dead), retry(1, 100), claims(&[1]).remove(0)] {
            let mut pending = PendingByLane::default();
            pending.begin(std::slice::from_ref(&before));
            assert_eq!(pending.lets_pass(&claims(&[2, 1]), NOW), None, "{before:?}");
            assert_eq!(pending.lets_pass(&claims(&[2]), NOW), Some(Ahead::FREELY));
            pending.end(std::slice::from_ref(&before));
            assert!(pending.0.is_empty());
        }
        let mut pending = PendingByLane::default();
        pending.begin(&[settle(1, Fate::Delivered)]);
        assert_eq!(
            pending.lets_pass(&claims(&[1]), NOW),
            Some(Ahead::FREELY),
            "it is held until it is settled"
        );
        assert_eq!(pending.lets_pass(&[settle(2, Fate::Delivered)], NOW), None, "no claim");
    }
}
