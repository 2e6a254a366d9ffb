use super::failure::Failed;
use super::named::{Named, is_named};
use super::{Result, Stop, Work, columns};
use crate::command::{Claim, Reseal};
use crate::commit::{Commands, Rows};
use crate::engine::{LaneId, StoreTime};
use crate::lane::{Counts, Limits};
use crate::queue_cache::{Lane, QueueCache};
use crate::reply::{Claimed, Reply};
use crate::{Command, Written};

impl<'a> Work<'a> {
    /// Runs commands that share one read, after reading their rows.
    pub(super) fn carry_out_run(
        &mut self,
        run: &'a [Command],
        is_read: bool,
        replies: &mut Vec<Reply>,
    ) -> std::result::Result<(), Failed> {
        self.run = run;
        if !is_read && run.first().is_some_and(is_named) {
            let named = Named::by(run, self.now, self.cache);
            let read = named.look_up(self.sql, self.cache, &mut self.rows);
            read.map_err(|stop| stop.doing("read the rows for a commit"))?;
        }
        for command in run {
            replies.push(self.apply(command).map_err(|stop| stop.doing(command.name()))?);
        }
        Ok(())
    }

    /// Runs a command. Emits and settlements find this commit's changes in memory. Other commands query the database,
    /// so pending changes are written before and cached rows dropped after them.
    fn apply(&mut self, command: &Command) -> Result<Reply> {
        let asks = !is_named(command);
        if asks {
            self.flush_and_forget()?;
        }
        let reply = self.carry_out(command)?;
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

    pub(super) fn flush(&mut self) -> Result<()> {
        columns::flush(self.sql, &mut self.ledger, &mut self.rows)
    }
}

impl Rows for Work<'_> {
    type Error = Stop;

    fn now(&self) -> StoreTime {
        self.now
    }

    fn limits(&self) -> &Limits {
        self.limits
    }

    fn totals(&self) -> &Counts {
        self.ledger.totals()
    }

    fn cache(&mut self) -> &mut QueueCache {
        self.cache
    }

    fn written(&mut self) -> &mut Written {
        &mut self.written
    }

    fn lock(&mut self, lanes: impl IntoIterator<Item = LaneId>) -> Result<()> {
        self.ledger.need(lanes)
    }

    fn lane(&mut self, lane: LaneId) -> Result<Option<&Lane>> {
        self.ledger.lane(lane)
    }

    fn amend(&mut self, lane: LaneId, amend: impl FnOnce(&mut Lane)) -> Result<()> {
        self.ledger.amend(lane, amend)
    }

    fn count(&mut self, lane: LaneId, count: impl Fn(&mut Counts)) -> Result<()> {
        self.ledger.count(lane, count)
    }

    fn arrive(&mut self, lane: LaneId, due: StoreTime) -> Result<()> {
        self.ledger.arrive(lane, due)
    }

    fn disturb(&mut self, lane: LaneId) -> Result<()> {
        self.ledger.disturb(lane)
    }
}

impl Commands for Work<'_> {
    fn read_claim(&mut self, claim: &Claim) -> Result<Claimed> {
        self.claim_rows(claim)
    }

    fn reseal(&mut self, reseal: &Reseal) -> Result<Reply> {
        self.reseal_rows(reseal)
    }
}
