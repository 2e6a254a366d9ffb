//! One commit under way: which part carries out which command.

use super::named::{Named, is_named};
use super::stop::Failed;
use super::{Result, Work, columns};
use crate::engine::{Nanos, StoreTime};
use crate::store::Command;
use crate::store::reply::Reply;

impl<'a> Work<'a> {
    /// Carries out commands of which what they name is read together, unless that was done.
    pub(super) fn carry_out_run(
        &mut self,
        run: &'a [Command],
        is_read: bool,
        replies: &mut Vec<Reply>,
    ) -> std::result::Result<(), Failed> {
        self.run = run;
        if !is_read && run.first().is_some_and(is_named) {
            let named = Named::by(run, self.now, self.queues);
            let read = named.look_up(self.sql, &self.ledger, &mut self.rows);
            read.map_err(|stop| stop.doing("read what a commit is about"))?;
        }
        for command in run {
            replies.push(self.carry_out(command).map_err(|stop| stop.doing(command.name()))?);
        }
        Ok(())
    }

    fn carry_out(&mut self, command: &Command) -> Result<Reply> {
        if !matches!(command, Command::Emit(_)) {
            // Whatever is no event may change who can make room.
            self.room.forget_payers();
        }
        // Events and what came of attempts find in memory what this commit did; all else asks the database while it goes along.
        let asks = !matches!(command, Command::Emit(_) | Command::Settle(_));
        if asks {
            self.flush_and_forget()?;
        }
        let reply = match command {
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
            Command::Change(change) => self.change(change),
            Command::Rotate(rotate) => self.rotate(rotate),
            Command::Remove(lane) => self.remove(*lane),
            Command::Redrive(redrive) => self.redrive(redrive),
            Command::Forget(forget) => self.forget(forget),
            Command::Shed(shed) => self.shed(*shed),
            Command::Sweep(sweep) => self.sweep(*sweep),
            Command::Purge(purge) => self.purge(*purge),
        }?;
        if asks {
            self.flush_and_forget()?;
        }
        Ok(reply)
    }

    fn flush_and_forget(&mut self) -> Result<()> {
        self.flush()?;
        self.rows.forget();
        Ok(())
    }

    /// Writes what is to be written, so that it can be asked for.
    pub(super) fn flush(&mut self) -> Result<()> {
        columns::flush(self.sql, &mut self.ledger, &mut self.rows)
    }

    /// The moment so long from now.
    pub(super) fn after(&self, length: Nanos) -> StoreTime {
        StoreTime(self.now.0.saturating_add(length.0))
    }
}
