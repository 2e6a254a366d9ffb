//! What the runtime holds for the lanes that this process owns: the rows that it claimed and has not sent.

use std::collections::HashMap;

use crate::engine::{DeliveryId, LaneId, Term, WallTime};
use crate::store::reply::{ClaimedRow, Taken};
use crate::transport::{Consent, Giver};

/// The lanes of this process.
#[derive(Debug, Default)]
pub struct Lanes {
    ours: HashMap<LaneId, Held>,
    /// Lanes whose subscriber this process has not read yet.
    strangers: Vec<(Taken, WallTime)>,
    /// Given back, and not confirmed yet.
    leaving: HashMap<LaneId, Term>,
}

#[derive(Debug)]
struct Held {
    term: Term,
    giver: Giver,
    rows: HashMap<DeliveryId, ClaimedRow>,
}

impl Lanes {
    /// Whether this process owns it.
    #[must_use]
    pub fn is_ours(&self, lane: LaneId) -> bool {
        self.ours.contains_key(&lane)
    }

    /// All lanes of this process, in the order of their numbers.
    #[must_use]
    pub fn ours(&self) -> Vec<(LaneId, Term)> {
        let mut ours: Vec<_> = self.ours.iter().map(|(lane, held)| (*lane, held.term)).collect();
        ours.sort_unstable();
        ours
    }

    /// A lane is ours under that term, and nothing of it is held.
    pub fn take(&mut self, lane: LaneId, term: Term) {
        self.ours.insert(lane, Held { term, giver: Giver::new(), rows: HashMap::new() });
    }

    /// False if the lane is not ours under that term.
    pub fn forget(&mut self, lane: LaneId, term: Term) -> bool {
        let is_so = self.ours.get(&lane).is_some_and(|held| held.term == term);
        if is_so {
            self.ours.remove(&lane);
        }
        is_so
    }

    /// Keeps claimed rows until they are sent or settled. False if the lane is not ours under that term.
    pub fn hold(&mut self, lane: LaneId, term: Term, rows: Vec<ClaimedRow>) -> bool {
        let Some(held) = self.ours.get_mut(&lane).filter(|held| held.term == term) else { return false };
        held.rows.extend(rows.into_iter().map(|row| (row.delivery, row)));
        true
    }

    /// The row of a delivery, which is not kept any longer.
    pub fn release(&mut self, lane: LaneId, delivery: DeliveryId) -> Option<ClaimedRow> {
        self.ours.get_mut(&lane)?.rows.remove(&delivery)
    }

    /// The right to make an attempt for a lane of ours.
    #[must_use]
    pub fn consent(&self, lane: LaneId) -> Option<Consent> {
        self.ours.get(&lane).map(|held| held.giver.give())
    }

    /// What of a lane has not been sent yet is not to be sent as it was decided.
    pub fn withdraw(&mut self, lane: LaneId) {
        if let Some(held) = self.ours.get_mut(&lane) {
            held.giver = Giver::new();
        }
    }

    /// The same for all lanes.
    pub fn withdraw_all(&mut self) {
        self.ours.values_mut().for_each(|held| held.giver = Giver::new());
    }

    /// A lane is on its way back to the store.
    pub fn hand_back(&mut self, lane: LaneId, term: Term) {
        self.ours.remove(&lane);
        self.leaving.insert(lane, term);
    }

    /// The store has it back.
    pub fn handed_back(&mut self, lane: LaneId, term: Term) {
        if self.leaving.get(&lane) == Some(&term) {
            self.leaving.remove(&lane);
        }
    }

    /// Whether nothing is on its way back.
    #[must_use]
    pub fn all_handed_back(&self) -> bool {
        self.leaving.is_empty()
    }

    /// A lane of ours has to wait until its subscriber is known.
    pub fn wait_for_roster(&mut self, taken: Taken, asked: WallTime) {
        self.strangers.push((taken, asked));
    }

    /// The lanes that had to.
    pub fn waiting_for_roster(&mut self) -> Vec<(Taken, WallTime)> {
        std::mem::take(&mut self.strangers)
    }
}

/// Whether the process is to end.
#[derive(Debug, Default)]
pub struct Stop(bool);

impl Stop {
    /// It is.
    pub fn ask(&mut self) {
        self.0 = true;
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0
    }
}
