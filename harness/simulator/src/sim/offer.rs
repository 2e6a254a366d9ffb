//! The emitter: offers events to the sender, and takes its answers.

use hookproof_judge::trace::{Accepted, Record, Refused};
use hookproof_play::traffic::Due;
use hookproof_sender::event::{Limits, Offer, PublicId};
use hookproof_sender::fanout::fan_out;
use hookproof_sender::runtime::{FAILING_MAX, LOOK_EVERY};
use hookproof_sender::store::command::{self, Command};

use super::commit_queue::Then;
use super::error::SimError;
use super::event::{ProcessEvent, SimEvent};
use super::offers::{Outcome, Play};
use super::options::{Keep, ns};
use super::process::Process;
use super::world::{WorkerSlot, World};

/// If commits take longer than this, offers are batched as well, in nanoseconds.
const GATHER_NS: u64 = 100_000_000;

impl World<'_> {
    pub(super) fn offer(&mut self) -> Result<(), SimError> {
        let from = self.play.next;
        let due = self.play.schedule.due();
        let count = due[from..].partition_point(|due| due.at <= self.now);
        let places = from..from + count;
        self.play.next += count;
        let gather =
            if self.given.model.commit_ns.0 >= GATHER_NS { self.given.model.commit_ns.0 / 2 } else { 0 };
        let next = due.get(self.play.next).map(|next| next.at.saturating_sub(self.now).max(gather));
        for place in places.clone() {
            self.record_offer(place)?;
        }
        if let Some(after) = next {
            self.later(after, SimEvent::Emit);
        }
        // The store keeps no event without a delivery.
        let is_played = |place: &usize| {
            let kind = self.play.schedule.due()[*place].kind as usize;
            self.given.options.keep == Keep::Trace || !self.play.owed_lanes[kind].is_empty()
        };
        let places: Vec<usize> = places.filter(is_played).collect();
        if places.is_empty() {
            return Ok(());
        }
        let takes = |slot: &WorkerSlot| slot.process.as_ref().is_some_and(|process| !process.is_stopping());
        match self.slots.iter().position(takes) {
            Some(worker) if self.slots[worker].is_frozen() => {
                let generation = self.slots[worker].generation;
                self.play.open += places.len();
                self.stash_event(worker, generation, ProcessEvent::Offered(places))
            }
            Some(worker) => {
                self.play.open += places.len();
                self.hand_over(worker, &places)
            }
            None => {
                let tokens: Vec<u64> =
                    places.iter().map(|place| self.play.schedule.due()[*place].token).collect();
                tokens.into_iter().try_for_each(|token| self.refuse(token, None, false, "connection refused"))
            }
        }
    }

    fn record_offer(&mut self, place: usize) -> Result<(), SimError> {
        let due = self.play.schedule.due()[place];
        let lanes = &self.play.owed_lanes[due.kind as usize];
        self.figures.offered(self.now, !lanes.is_empty());
        for lane in lanes {
            self.figures.lanes[*lane].owed += 1;
        }
        if self.given.options.keep == Keep::Figures {
            return Ok(());
        }
        self.write_record(Record::Offer(hookproof_judge::trace::Offer {
            t: self.now,
            intended: due.at,
            held: 0,
            token: due.token,
            kind: self.play.schedule.kind(&due).into(),
            key: self.play.schedule.key(&due).into(),
            owed: self.play.owed[due.kind as usize].clone(),
        }))
    }

    pub(super) fn hand_over(&mut self, worker: usize, places: &[usize]) -> Result<(), SimError> {
        let now = self.now;
        let slot = &mut self.slots[worker];
        let Some(process) = slot.process.as_mut() else { return Ok(()) };
        if process.queue.failing.is_some_and(|since| now > since.saturating_add(FAILING_MAX.0)) {
            return places.iter().try_for_each(|place| {
                self.play.open = self.play.open.saturating_sub(1);
                let token = self.play.schedule.due()[*place].token;
                self.refuse(token, Some(503), false, "the store does not write")
            });
        }
        slot.dirty = true;
        let (mut commands, mut tokens, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            let due = self.play.schedule.due()[*place];
            let emit = fan(&self.play, &due, process, now)?;
            tokens.push(due.token);
            lanes.push(emit.targets.iter().map(|target| target.lane).collect());
            commands.push(Command::Emit(emit));
        }
        process.queue.submit(commands, Then::Emit { tokens, lanes });
        Ok(())
    }

    pub(super) fn answered(&mut self, worker: usize, answers: Vec<(u64, Outcome)>) -> Result<(), SimError> {
        let mut is_placed = false;
        for (token, answered) in answers {
            match answered {
                Outcome::Accepted { matched, shed } => {
                    is_placed |= matched > 0;
                    self.play.open -= 1;
                    self.figures.shed += shed;
                    self.figures.ledger.acknowledged += u64::from(matched);
                    let (t, status) = (self.now, 202);
                    self.write_record(Record::Accepted(Accepted {
                        t,
                        token,
                        status,
                        matched: Some(matched),
                    }))?;
                }
                Outcome::Full(lanes) => {
                    self.play.open -= 1;
                    for lane in lanes {
                        let at = self.endpoint_of(lane)?;
                        self.figures.lanes[at].refused += 1;
                    }
                    self.refuse(token, Some(429), false, "a lane is full")?;
                }
                Outcome::Stale => {
                    if let Some(place) = self.play.schedule.place_of(token) {
                        // The subscribers have changed: the process reads them and matches the event again.
                        self.schedule_poll(worker);
                        let after = ns(LOOK_EVERY).saturating_add(self.delay(worker, 1)) + 1;
                        self.schedule_for(worker, after, ProcessEvent::Offered(vec![place]));
                    }
                }
            }
        }
        if is_placed { self.sample_after_emit(worker) } else { Ok(()) }
    }

    /// The process died with the event before its answer.
    pub(super) fn break_off(&mut self, token: u64) -> Result<(), SimError> {
        self.play.open = self.play.open.saturating_sub(1);
        self.refuse(token, None, true, "the connection broke")
    }

    pub(super) fn refuse(
        &mut self,
        token: u64,
        status: Option<u16>,
        unknown: bool,
        why: &str,
    ) -> Result<(), SimError> {
        self.figures.refused += 1;
        let retry_after = status.map(|_| "5".to_owned());
        let why = why.to_owned();
        self.write_record(Record::Refused(Refused {
            t: self.now,
            token,
            status,
            retry_after,
            unknown,
            cut_off: false,
            why,
        }))
    }
}

fn fan(play: &Play, due: &Due, process: &Process, now: u64) -> Result<command::Emit, SimError> {
    let data = play.schedule.data(due, play.tokens);
    let text = play.tokens.text(due.token);
    let (kind, key) = (play.schedule.kind(due), play.schedule.key(due));
    let refused = |why: String| SimError::Event { token: due.token, why };
    let offer = Offer::from_parts(Some(&text), kind, Some(key), data.as_bytes(), &Limits::default())
        .map_err(|refusal| refused(refusal.to_string()))?;
    // As the harness emits to real senders: an event is accepted for all subscribers or refused.
    let offer = Offer { atomic: true, ..offer };
    let id: PublicId = text.parse().map_err(|error| refused(format!("{error}")))?;
    let steady = process.steady(now);
    Ok(fan_out(process.roster(), &offer, &id, steady, steady))
}
