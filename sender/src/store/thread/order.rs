//! Which claims may go ahead of what was submitted before them.
//!
//! A claim writes nothing, so it need not wait for the disk. But it must see what was settled before it on its lane:
//! released and retried deliveries. A delivered one is still held until it is settled, so a claim passes over it,
//! settled or not. Anything else that was submitted before may concern any lane, and holds claims back.

use std::collections::BTreeSet;

use super::Request;
use crate::engine::LaneId;
use crate::store::Command;
use crate::store::command::Fate;

/// The requests that may go ahead, and the others, each in their order.
pub(super) fn claims_ahead(batch: Vec<Request>) -> (Vec<Request>, Vec<Request>) {
    let mut blocked = Blocked::default();
    batch.into_iter().partition(|request| {
        let ahead = request.commands.iter().all(|command| blocked.lets_pass(command));
        if !ahead {
            request.commands.iter().for_each(|command| blocked.note(command));
        }
        ahead
    })
}

/// Lanes whose claims must wait.
#[derive(Default)]
struct Blocked {
    lanes: BTreeSet<LaneId>,
    all: bool,
}

impl Blocked {
    fn lets_pass(&self, command: &Command) -> bool {
        matches!(command, Command::Claim(claim) if !self.all && !self.lanes.contains(&claim.lane))
    }

    fn note(&mut self, command: &Command) {
        match command {
            // What is emitted is claimed only after it was acknowledged.
            Command::Emit(_) => {}
            Command::Claim(claim) => drop(self.lanes.insert(claim.lane)),
            Command::Persist(persist) => drop(self.lanes.insert(persist.lane)),
            Command::Settle(settlements) => {
                let changed = settlements.iter().filter(|settlement| settlement.fate != Fate::Delivered);
                self.lanes.extend(changed.map(|settlement| settlement.lane));
            }
            _ => self.all = true,
        }
    }
}
