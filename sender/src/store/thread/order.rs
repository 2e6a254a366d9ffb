//! Which claims may go ahead of what was submitted before them.
//!
//! A claim writes nothing, so it need not wait for the disk. But it must see what was settled before it on its lane:
//! released and retried deliveries. A delivered one is still held until it is settled, so a claim passes over it,
//! settled or not. Whatever else is submitted concerns no claim: what is emitted or redriven is claimed once whoever
//! did it was told, a lane is claimed from once it was acquired, and what is given up is never handed out meanwhile.

use std::collections::BTreeMap;

use crate::engine::LaneId;
use crate::store::Command;
use crate::store::command::Fate;

/// The lanes that something is on its way for that claims must come after, and how many requests.
#[derive(Debug, Default)]
pub struct PendingByLane(BTreeMap<LaneId, u32>);

impl PendingByLane {
    /// Whether a request of these commands may go ahead: it claims and does nothing else, from lanes that nothing is on its way for.
    #[must_use]
    pub fn lets_pass(&self, commands: &[Command]) -> bool {
        let passes =
            |command: &Command| matches!(command, Command::Claim(claim) if !self.0.contains_key(&claim.lane));
        commands.iter().all(passes)
    }

    /// A request was submitted.
    pub fn begin(&mut self, commands: &[Command]) {
        for lane in commands.iter().flat_map(concerned) {
            *self.0.entry(lane).or_insert(0) += 1;
        }
    }

    /// A request that began was answered.
    pub fn end(&mut self, commands: &[Command]) {
        for lane in commands.iter().flat_map(concerned) {
            if let Some(left) = self.0.get_mut(&lane) {
                *left -= 1;
                if *left == 0 {
                    self.0.remove(&lane);
                }
            }
        }
    }
}

/// The lanes whose claims must wait for a command.
fn concerned(command: &Command) -> Vec<LaneId> {
    match command {
        Command::Claim(claim) => vec![claim.lane],
        Command::Persist(persist) => vec![persist.lane],
        Command::Settle(settlements) => {
            let changed = settlements.iter().filter(|settlement| settlement.fate != Fate::Delivered);
            changed.map(|settlement| settlement.lane).collect()
        }
        _ => Vec::new(),
    }
}
