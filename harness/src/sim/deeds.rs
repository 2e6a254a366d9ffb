//! What the engine has a process do.

use hookproof_sender::engine::AttemptId;
use hookproof_sender::engine::{
    BatchId, DeliveryId, Input, LaneId, LaneRecord, Outcome, Output, Settlement, Term,
};
use hookproof_sender::runtime::handover;
use hookproof_sender::runtime::tenure::Step;
use hookproof_sender::store::command::{self, Claim, Command, Persist};

use super::mutant::{LOST_FOR, Mutant};
use super::process::{Act, Process, Then, moment};
use super::{SimError, store_failed};

/// As in the sender's heart.
const CLAIM_BYTES_MAX: u64 = 4 << 20;

impl Process {
    /// Lets the engine decide, and carries it out.
    pub(super) fn beat(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        self.handle(now, Input::Tick);
        self.step_tenure(now);
        self.write_late(now);
        while let Some(output) = self.engine.poll() {
            self.carry_out(output, now, acts)?;
        }
        self.posted.clear();
        self.claim_beside(now, acts)
    }

    fn step_tenure(&mut self, now: u64) {
        let asked = self.steady(now);
        for step in self.tenure.steps(asked) {
            match step {
                Step::Renew(renew) => self.submit(vec![Command::Renew(renew)], Then::Renew(asked)),
                Step::Acquire(acquire) => self.submit(vec![Command::Acquire(acquire)], Then::Acquire(asked)),
            }
        }
    }

    fn carry_out(&mut self, output: Output, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        match output {
            Output::Claim { lane, term, max } => {
                let claim = Claim { lane, term, max, bytes_max: CLAIM_BYTES_MAX };
                let command = [Command::Claim(claim.clone())];
                if self.claimer.is_some() && self.desk.way.lets_pass(&command) {
                    self.desk.claims.push(claim);
                } else {
                    self.submit(command.into(), Then::Claim(lane, term));
                }
            }
            Output::Send { attempt, lane, delivery, number } => {
                self.send(attempt, lane, delivery, number, now, acts);
            }
            Output::Settle { batch, settlements } => self.settle(batch, &settlements, now),
            Output::Persist { lane, term, record } => self.persist(lane, term, *record, now)?,
            Output::Wake { .. } => {}
        }
        Ok(())
    }

    fn send(
        &mut self,
        attempt: AttemptId,
        lane: LaneId,
        delivery: DeliveryId,
        number: u32,
        now: u64,
        acts: &mut Vec<Act>,
    ) {
        let row = self.lanes.release(lane, delivery);
        let Some(row) = row.filter(|_| self.roster().get(lane).is_some()) else {
            acts.push(Act::Impossible { attempt, delivery });
            return;
        };
        acts.push(Act::Send { attempt, lane, row: Box::new(row), number });
        if self.is(Mutant::ChargedOnSend) {
            self.bug.charged.insert(delivery, None);
            let at = self.steady(now);
            let answer = hookproof_sender::engine::Answer { status: 204, retry_after: None, date: None, at };
            self.handle(now, Input::Ended { attempt, outcome: Outcome::Answered(answer) });
        }
    }

    fn settle(&mut self, batch: BatchId, settlements: &[Settlement], now: u64) {
        let mut rows = Vec::with_capacity(settlements.len());
        for settled in settlements {
            self.lanes.release(settled.lane, settled.delivery);
            if let Some(place) = self.bug.charged.get_mut(&settled.delivery) {
                *place = Some(*settled);
                continue;
            }
            rows.push(self.row(settled));
        }
        if self.is(Mutant::SettleLost) {
            self.bug.unwritten.extend(rows.into_iter().map(|row| (now + LOST_FOR, row)));
            return self.handle(now, Input::Settled { batch });
        }
        if rows.is_empty() {
            return self.handle(now, Input::Settled { batch });
        }
        let owners = rows.iter().map(|row| (row.lane, row.term)).collect();
        self.submit(vec![Command::Settle(rows)], Then::Settle { batch: Some(batch), owners });
    }

    fn row(&mut self, settled: &Settlement) -> command::Settlement {
        let Settlement { lane, term, delivery, attempts, fate } = *settled;
        let attempt = self.posted.remove(&delivery);
        command::Settlement { lane, term, delivery, attempts, fate: fate.into(), attempt }
    }

    fn persist(&mut self, lane: LaneId, term: Term, record: LaneRecord, now: u64) -> Result<(), SimError> {
        let hand_back = record.is_final();
        let mut record =
            handover::seal(record, Some(moment(now))).map_err(|error| SimError::Defect(error.to_string()))?;
        if self.is(Mutant::PauseForgotten) {
            let mut value: serde_json::Value =
                serde_json::from_slice(&record).map_err(|error| SimError::Defect(error.to_string()))?;
            value["lane"]["pause"] = 0.into();
            record = value.to_string().into_bytes().into();
        }
        if hand_back {
            self.lanes.hand_back(lane, term);
        }
        let persist = Persist { lane, term, record, hand_back };
        self.submit(vec![Command::Persist(persist)], Then::Persist { lane, term, hand_back });
        Ok(())
    }

    fn claim_beside(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        let claims = std::mem::take(&mut self.desk.claims);
        if claims.is_empty() {
            return Ok(());
        }
        let steady = self.steady(now);
        let mut told = Vec::with_capacity(claims.len());
        for some in claims.chunks(64) {
            let claimed = match &mut self.claimer {
                Some(claimer) => claimer.claim(steady, some).map_err(store_failed("claim"))?,
                None => None,
            };
            match claimed {
                Some(claimed) => told.extend(claimed),
                None => {
                    for claim in some {
                        let then = Then::Claim(claim.lane, claim.term);
                        self.submit(vec![Command::Claim(claim.clone())], then);
                    }
                }
            }
        }
        if !told.is_empty() {
            acts.push(Act::Claimed(told));
        }
        Ok(())
    }
}
