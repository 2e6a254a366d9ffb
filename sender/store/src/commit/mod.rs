//! The rules of a commit, decided once for both stores.
//!
//! A rule reads rows through a trait, decides in memory, and writes through the same trait. SQLite runs a statement
//! for each call. PostgreSQL reads everything that a commit names first, and writes everything in one round trip at
//! the end.

use super::Written;
use super::command::{Attributed, Claim, Command, Reseal};
use super::lane::{Counts, LaneState, Limits};
use super::queue_cache::{Lane, QueueCache};
use super::reply::{Claimed, Refusal, Reply};
use crate::engine::{LaneId, Nanos, StoreTime};

pub(super) mod change;
pub(super) mod dead;
pub(super) mod emit;
pub(super) mod erase;
pub(super) mod job;
pub(super) mod lease;
pub(super) mod retry;
pub(super) mod room;
pub(super) mod settle;
pub(super) mod subscribe;
pub(super) mod sweep;
pub(super) mod token;

use change::ChangeRows;
use emit::EventRows;
use erase::EraseRows;
use lease::LeaseRows;
use settle::AttemptRows;
use sweep::SweepRows;

pub(super) trait Rows {
    type Error;

    fn now(&self) -> StoreTime;

    fn limits(&self) -> &Limits;

    fn totals(&self) -> &Counts;

    /// It is told of each change to claimed deliveries and to lanes.
    fn cache(&mut self) -> &mut QueueCache;

    fn written(&mut self) -> &mut Written;

    /// Locks lanes, where other writers could change them during the commit.
    fn lock(&mut self, lanes: impl IntoIterator<Item = LaneId>) -> Result<(), Self::Error>;

    fn lane(&mut self, lane: LaneId) -> Result<Option<&Lane>, Self::Error>;

    fn amend(&mut self, lane: LaneId, amend: impl FnOnce(&mut Lane)) -> Result<(), Self::Error>;

    /// Changes the counts of a lane and of the whole store alike.
    fn count(&mut self, lane: LaneId, count: impl Fn(&mut Counts)) -> Result<(), Self::Error>;

    /// Notes a delivery that did not wait before.
    fn arrive(&mut self, lane: LaneId, due: StoreTime) -> Result<(), Self::Error>;

    /// Notes a change to deliveries of the lane that can be claimed.
    fn disturb(&mut self, lane: LaneId) -> Result<(), Self::Error>;

    fn accepts(&mut self, lane: LaneId) -> Result<bool, Self::Error> {
        Ok(self.lane(lane)?.is_some_and(|lane| lane.state.accepts()))
    }

    fn after(&self, length: Nanos) -> StoreTime {
        StoreTime(self.now().0.saturating_add(length.0))
    }
}

pub(super) trait Commands:
    EventRows + EraseRows + AttemptRows + LeaseRows + SweepRows + ChangeRows
{
    /// Reads the longest due deliveries that are not claimed, and claims them.
    fn read_claim(&mut self, claim: &Claim) -> Result<Claimed, Self::Error>;

    /// Each row is sealed by itself, so this needs no rule.
    fn reseal(&mut self, reseal: &Reseal) -> Result<Reply, Self::Error>;

    fn claim(&mut self, claim: &Claim) -> Result<Reply, Self::Error> {
        let Claim { lane, term, .. } = *claim;
        let Some(found) = self.lane(lane)?.filter(|found| found.state != LaneState::Removed) else {
            self.cache().lose(lane, term);
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        };
        let current = found.term;
        let Some(owner) = found.owner.filter(|_| current == term) else {
            self.cache().lose(lane, term);
            return Ok(Reply::Refused(Refusal::StaleTerm { lane, term, current }));
        };
        self.cache().own(lane, owner, term);
        Ok(Reply::Claimed(self.read_claim(claim)?))
    }

    fn attributed(&mut self, attributed: &Attributed) -> Result<Reply, Self::Error> {
        let command = &attributed.command;
        let Some(operation) = command.operation() else {
            return Ok(Reply::Refused(Refusal::Nonsense("this is no change that somebody makes")));
        };
        let before = self.state_before(command)?;
        let reply = self.carry_out(command)?;
        self.record_change(attributed, (operation, before), &reply)?;
        Ok(reply)
    }

    fn carry_out(&mut self, command: &Command) -> Result<Reply, Self::Error> {
        self.cache().run(command);
        if !matches!(command, Command::Emit(_)) {
            // Every other command may change which lanes can make room.
            self.room().forget_payers();
        }
        match command {
            Command::Emit(emit) => self.emit(emit),
            Command::RejectOutbox(reject) => self.reject_outbox(reject),
            Command::Claim(claim) => self.claim(claim),
            Command::Settle(settlements) => self.settle(settlements),
            Command::Persist(persist) => self.persist(persist),
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Renew(renew) => self.renew(renew),
            Command::Evict(owner) => self.evict(*owner),
            Command::Retire(owner) => self.retire(*owner),
            Command::Drain(drain) => self.drain(*drain),
            Command::Subscribe(subscribe) => self.subscribe(subscribe),
            Command::Change(change) => self.change_and_try(change),
            Command::Rotate(rotate) => self.rotate(rotate),
            Command::Remove(lane) => self.remove(*lane),
            Command::Redrive(redrive) => self.redrive(redrive),
            Command::Forget(forget) => self.forget(forget),
            Command::Erase(erase) => self.erase(erase),
            Command::Reseal(reseal) => self.reseal(reseal),
            Command::Retry(retry) => self.retry_now(retry),
            Command::Resend(delivery) => self.resend(*delivery),
            Command::Shed(shed) => self.shed(*shed),
            Command::Sweep(sweep) => self.sweep(*sweep),
            Command::Purge(purge) => self.purge(*purge),
            Command::StartJob(start) => self.start_job(start),
            Command::StepJob(step) => self.step_job(*step),
            Command::SetJob(set) => self.set_job(set),
            Command::CreateToken(token) => self.create_token(token),
            Command::RevokeToken(name) => self.revoke_token(name),
            Command::Attributed(attributed) => self.attributed(attributed),
        }
    }
}
