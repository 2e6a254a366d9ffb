//! Samples of the queue, and the end of a run.

use hookproof_judge::scenario::{SECOND, Standing};
use hookproof_judge::trace::{Dead, Depth, End, Ended, Record};
use hookproof_sender::engine::StoreTime;
use hookproof_sender::store::Reader;
use hookproof_sender::store::lane::{Counts, LaneState};
use hookproof_sender::store::read::{LaneStatus, Lanes, ReadError};

use super::error::{SimError, store_failed};
use super::event::SimEvent;
use super::figures::Figures;
use super::ledger::place;
use super::liveness::{LaneSample, Owner};
use super::options::{Keep, Model, Simulated};
use super::process::Process;
use super::world::{SimInputs, World};

const LISTED: usize = 50;
const PAGE: u32 = 1_000;
/// Holds when nothing blocks it.
const ANSWER_NS: u64 = 60 * SECOND;
/// With at most this many queues, figures are exact: they are read after each commit of events.
const EXACT_MAX: usize = 200;

impl World<'_> {
    pub(super) fn sample(&mut self) -> Result<(), SimError> {
        let done = self.play.next == self.play.schedule.due().len()
            && self.play.open == 0
            && self.troubles.done == self.troubles.steps.len()
            && self.now >= self.figures.traffic_end;
        let waiting = self.sample_queue()?;
        let whole = self.troubles.errands.are_done()
            && self.troubles.starting == 0
            && self.slots.iter().all(|slot| !slot.is_frozen());
        if self.play.open > 0 && self.now >= self.last_answer() {
            let why = format!("{} events were neither taken nor refused", self.play.open);
            return Err(SimError::Defect(why));
        }
        if done && self.is_over(whole && waiting == Some(0)) {
            self.over = true;
        } else {
            let every =
                if done { self.given.model.sample_ns.min(SECOND) } else { self.given.model.sample_ns };
            self.later(every, SimEvent::Sample);
        }
        Ok(())
    }

    fn is_over(&mut self, settled: bool) -> bool {
        let since = *self.play.idle_since.get_or_insert(self.now);
        let open = self.net.exchanges.values().any(|exchange| !exchange.closed && exchange.n.is_some());
        let standing = Standing { since, settled, open, came: self.net.came };
        self.given.scenario.is_over(&standing, self.now)
    }

    /// `drain` counts from the end of traffic and faults.
    fn last_moment(&self) -> u64 {
        let fault = self.troubles.steps.last().map_or(0, |(at, _)| *at);
        self.figures.traffic_end.max(fault).saturating_add(self.given.scenario.drain.0)
    }

    /// Without this limit an offer without an answer would keep the run from ending.
    fn last_answer(&self) -> u64 {
        self.last_moment()
            .max(self.slots.iter().map(|slot| slot.blocked_until).max().unwrap_or(0))
            .saturating_add(self.given.scenario.sender.stop_within.0)
            .saturating_add(ANSWER_NS)
    }

    fn sample_queue(&mut self) -> Result<Option<u64>, SimError> {
        let Some(process) =
            self.slots.iter().filter(|slot| !slot.is_frozen()).find_map(|slot| slot.process.as_ref())
        else {
            return Ok(None);
        };
        let steady = process.steady(self.now);
        let whole = process.reader.status(steady).map_err(store_failed("read the status"))?.counts;
        let lanes = all_lanes(&process.reader)?;
        let now = self.now;
        self.figures.waiting = whole.waiting;
        for (at, lane) in lanes.iter().enumerate() {
            self.figures.sample(at, now, lane.counts.waiting, lane.counts.waiting_bytes);
            self.figures.lanes[at].delivered = lane.counts.delivered;
        }
        let size = |name: &str| std::fs::metadata(self.folder.path().join(name)).map_or(0, |file| file.len());
        self.figures.database_bytes =
            self.figures.database_bytes.max(size("sender.db") + size("sender.db-wal"));
        self.book.digest_words(&[now, whole.accepted, whole.delivered, whole.dead, whole.waiting]);
        if self.given.options.keep == Keep::Trace {
            self.check_liveness(&lanes, steady);
            self.write_record(depth(now, None, &whole))?;
            for lane in lanes.iter().take(LISTED) {
                self.write_record(depth(now, Some(lane.name.to_string()), &lane.counts))?;
            }
        }
        Ok(Some(whole.waiting))
    }

    fn check_liveness(&mut self, lanes: &[LaneStatus], steady: StoreTime) {
        if self.is_disturbed() {
            return self.liveness.lasts(self.now);
        }
        let views: Vec<_> = self.slots.iter().map(|slot| slot.process.as_ref().map(Process::views)).collect();
        for lane in lanes {
            let place = self.net.endpoints.binary_search_by_key(&lane.lane, |endpoint| endpoint.lane);
            let Ok(at) = place else { continue };
            let owned_by = |process: &&Process| lane.owner.is_some_and(|(owner, _)| process.owner == owner);
            let processes = self.slots.iter().enumerate();
            let mut processes = processes
                .filter_map(|(worker, slot)| Some((worker, slot.process.as_ref().filter(owned_by)?)));
            let owner = processes.next().map(|(worker, process)| Owner {
                worker,
                view: views[worker].iter().flatten().find(|view| view.lane == lane.lane).copied(),
                asked: process.pending_orders(lane.lane),
            });
            let behaviours = &self.net.endpoints[at].behaviours;
            let seen = LaneSample {
                is_due: lane.state == LaneState::Active && lane.next.is_some_and(|next| next <= steady),
                is_well: !behaviours.iter().any(|behaviour| behaviour.covers(self.now)),
                waiting: lane.counts.waiting,
                owner,
            };
            self.liveness.check_lane(at, self.now, &seen);
        }
    }

    fn is_disturbed(&self) -> bool {
        self.troubles.starting > 0
            || self.slots.iter().any(|slot| {
                let ends = |until: u64| until > self.now;
                slot.is_frozen()
                    || ends(slot.blocked_until)
                    || ends(slot.parted_until)
                    || slot.delays.iter().any(|(until, _)| ends(*until))
                    || slot.process.as_ref().is_some_and(Process::is_stopping)
            })
    }

    /// Reads the queues right after a commit of events if the run keeps only figures. With coarse commits or
    /// many queues, samples must do.
    pub(super) fn sample_after_emit(&mut self, worker: usize) -> Result<(), SimError> {
        let SimInputs { scenario, options, model, .. } = self.given;
        let exact = model.commit_ns.1 <= Model::CLOSE.commit_ns.1 && scenario.subscribers.len() <= EXACT_MAX;
        let Some(process) = self.slots[worker].process.as_ref().filter(|_| exact) else { return Ok(()) };
        if options.keep == Keep::Figures {
            for (at, lane) in all_lanes(&process.reader)?.iter().enumerate() {
                self.figures.crowd(at, self.now, lane.counts.waiting, lane.counts.waiting_bytes);
            }
        }
        Ok(())
    }

    pub(super) fn close(mut self) -> Result<Simulated, SimError> {
        self.cut_open();
        self.write_later()?;
        self.figures.end = self.now;
        // If no process runs, one starts to read the file.
        if self.slots.iter().all(|slot| slot.process.is_none()) {
            self.start(0)?;
        }
        self.list_dead()?;
        self.count()?;
        let counts = &self.figures.ledger.counts;
        let dead_listed = counts.dead == counts.dead_kept;
        let end = End { t: self.now, ended: Ended::Done, dead_listed, late: 0, dropped: 0 };
        let counts =
            self.figures.lanes.iter().flat_map(|lane| [lane.arrivals, lane.delivered, lane.given_up()]);
        let words: Vec<u64> = counts.collect();
        self.book.digest_words(&words);
        let (trace, sha256) = self.book.finish(end)?;
        Ok(Simulated { trace, sha256, figures: self.figures, silence: self.liveness.found() })
    }

    fn list_dead(&mut self) -> Result<(), SimError> {
        let Some(process) = self.slots.iter().find_map(|slot| slot.process.as_ref()) else { return Ok(()) };
        let (mut from, mut records) = (None, Vec::new());
        loop {
            let page = process.reader.dead(&Lanes::All, from, PAGE).map_err(unread)?;
            for letter in page.items {
                let at = self.endpoint_of(letter.delivery.lane)?;
                self.figures.lanes[at].dead[place(letter.reason)] += 1;
                if self.given.options.keep == Keep::Trace {
                    let token = self.play.tokens.find(letter.delivery.event.as_bytes());
                    records.push(Record::Dead(Dead {
                        t: self.now,
                        subscriber: self.given.scenario.subscribers[at].name.clone(),
                        token,
                        id: None,
                        reason: letter.reason.name().to_owned(),
                        attempts: Some(letter.delivery.attempts),
                    }));
                }
            }
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        records.into_iter().try_for_each(|record| self.write_record(record))
    }
}

impl World<'_> {
    fn count(&mut self) -> Result<(), SimError> {
        let Some(process) = self.slots.iter().find_map(|slot| slot.process.as_ref()) else { return Ok(()) };
        let status =
            process.reader.status(process.steady(self.now)).map_err(store_failed("read the status"))?;
        let lanes = all_lanes(&process.reader)?;
        let Figures { ledger, lanes: figures, waiting, .. } = &mut self.figures;
        (ledger.counts, *waiting) = (status.counts, status.counts.waiting);
        for lane in lanes {
            let at = self.net.endpoints.binary_search_by_key(&lane.lane, |endpoint| endpoint.lane);
            let Ok(at) = at else { continue };
            let (figures, counts) = (&mut figures[at], lane.counts);
            (figures.delivered, figures.left) = (counts.delivered, counts.waiting);
            let forgotten = ledger.forgotten(lane.lane, counts.dead - counts.dead_kept, figures.dead);
            figures.dead.iter_mut().zip(forgotten).for_each(|(dead, forgotten)| *dead += forgotten);
        }
        Ok(())
    }
}

pub(super) fn all_lanes(reader: &dyn Reader) -> Result<Vec<LaneStatus>, SimError> {
    let (mut from, mut all) = (None, Vec::new());
    loop {
        let page = reader.lanes(from, PAGE).map_err(unread)?;
        all.extend(page.items);
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(all),
        }
    }
}

fn unread(error: ReadError) -> SimError {
    match error {
        ReadError::Store(error) => store_failed("read")(error),
        ReadError::Cursor(bad) => SimError::Defect(bad.to_string()),
    }
}

fn depth(t: u64, subscriber: Option<String>, counts: &Counts) -> Record {
    Record::Depth(Depth {
        t,
        subscriber,
        waiting: Some(counts.waiting),
        bytes: Some(counts.waiting_bytes),
        dead: Some(counts.dead),
        delivered: Some(counts.delivered),
        coalesced: Some(counts.coalesced),
        resident_bytes: None,
        processor_ns: None,
        kept: None,
    })
}
