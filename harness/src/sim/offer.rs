//! The emitter: what is offered to the sender, when, and what the sender says to it.

use hookproof_sender::engine::LaneId;
use hookproof_sender::event::{Limits, Offer, PublicId};
use hookproof_sender::fanout::fan_out;
use hookproof_sender::store::command::{self, Command};

use super::process::{Process, Then};
use super::world::{Happening, Knock, LOOK_NS, Seat, World};
use super::{Keep, SimError};
use crate::scenario::Scenario;
use crate::trace::{Accepted, Record, Refused};
use crate::traffic::{Due, Schedule, Tokens};

/// Commits that take longer than this gather events as well.
const GATHER_NS: u64 = 100_000_000;

/// As in the sender's API: how long the store may have been failing when events are still put in its queue.
const FAILING_MAX_NS: u64 = 1_000_000_000;

/// What is offered, to whom, and how far that is.
pub(super) struct Play {
    pub(super) schedule: Schedule,
    pub(super) next: usize,
    /// Where the first event of each token is among those due.
    first: Vec<u32>,
    owed: Vec<Vec<String>>,
    pub(super) owed_lanes: Vec<Vec<usize>>,
    pub(super) tokens: Tokens,
    /// Events whose answer is owed.
    pub(super) open: usize,
}

/// What became of an event that was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It is recorded.
    Accepted { matched: u32, shed: u64 },
    /// These lanes are full.
    Full(Vec<LaneId>),
    /// It has to be matched again.
    Stale,
}

impl World<'_> {
    /// Offers what is due, and comes again for what follows.
    pub(super) fn offer(&mut self) -> Result<(), SimError> {
        let from = self.play.next;
        let due = self.play.schedule.due();
        let count = due[from..].partition_point(|due| due.at <= self.now);
        let places: Vec<usize> = (from..from + count).collect();
        self.play.next += count;
        let gather =
            if self.given.model.commit_ns.0 >= GATHER_NS { self.given.model.commit_ns.0 / 2 } else { 0 };
        let next = due.get(self.play.next).map(|next| next.at.saturating_sub(self.now).max(gather));
        for place in &places {
            self.record_offer(*place)?;
        }
        if let Some(after) = next {
            self.later(after, Happening::Emit);
        }
        let takes = |seat: &Seat| seat.process.as_ref().is_some_and(|process| !process.stop.is_asked());
        match self.seats.iter().position(takes) {
            Some(worker) if self.seats[worker].frozen => {
                let generation = self.seats[worker].generation;
                self.play.open += places.len();
                self.knock(worker, generation, Knock::Offered(places))
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
        self.figures.offered += 1;
        for lane in &self.play.owed_lanes[due.kind as usize] {
            self.figures.lanes[*lane].owed += 1;
        }
        if self.given.options.keep == Keep::Figures {
            return Ok(());
        }
        self.keep(Record::Offer(crate::trace::Offer {
            t: self.now,
            intended: due.at,
            token: due.token,
            kind: self.play.schedule.kind(&due).to_owned(),
            key: self.play.schedule.key(&due).to_owned(),
            owed: self.play.owed[due.kind as usize].clone(),
        }))
    }

    /// The sender gets events.
    pub(super) fn hand_over(&mut self, worker: usize, places: &[usize]) -> Result<(), SimError> {
        let now = self.now;
        let seat = &mut self.seats[worker];
        let Some(process) = seat.process.as_mut() else { return Ok(()) };
        if process.desk.failing.is_some_and(|since| now > since.saturating_add(FAILING_MAX_NS)) {
            return places.iter().try_for_each(|place| {
                self.play.open = self.play.open.saturating_sub(1);
                let token = self.play.schedule.due()[*place].token;
                self.refuse(token, Some(503), false, "the store does not write")
            });
        }
        seat.dirty = true;
        let (mut commands, mut tokens, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            let due = self.play.schedule.due()[*place];
            let emit = fan(&self.play, &due, process, now)?;
            tokens.push(due.token);
            lanes.push(emit.targets.iter().map(|target| target.lane).collect());
            commands.push(Command::Emit(emit));
        }
        process.submit(commands, Then::Emit { tokens, lanes });
        Ok(())
    }

    pub(super) fn answered(&mut self, worker: usize, answers: Vec<(u64, Answered)>) -> Result<(), SimError> {
        for (token, answered) in answers {
            match answered {
                Answered::Accepted { matched, shed } => {
                    self.play.open -= 1;
                    self.figures.shed += shed;
                    self.figures.ledger.acknowledged += u64::from(matched);
                    let (t, status) = (self.now, 202);
                    self.keep(Record::Accepted(Accepted { t, token, status, matched: Some(matched) }))?;
                }
                Answered::Full(lanes) => {
                    self.play.open -= 1;
                    for lane in lanes {
                        let at = self.endpoint_of(lane)?;
                        self.figures.lanes[at].refused += 1;
                    }
                    self.refuse(token, Some(429), false, "a lane is full")?;
                }
                Answered::Stale => {
                    if let Some(place) = self.play.place_of(token) {
                        // The subscribers have changed: it reads them, and matches the event again.
                        self.tell(worker, LOOK_NS, Knock::Look);
                        self.tell(worker, LOOK_NS + 1, Knock::Offered(vec![place]));
                    }
                }
            }
        }
        self.look_after_emit(worker)
    }

    /// The process died that had an event and owed the answer.
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
        self.keep(Record::Refused(Refused { t: self.now, token, status, retry_after, unknown, why }))
    }
}

/// What the sender makes of an event.
fn fan(play: &Play, due: &Due, process: &Process, now: u64) -> Result<command::Emit, SimError> {
    let data = play.schedule.data(due, play.tokens);
    let text = play.tokens.text(due.token);
    let (kind, key) = (play.schedule.kind(due), play.schedule.key(due));
    let refused = |why: String| SimError::Event { token: due.token, why };
    let offer = Offer::from_parts(Some(&text), kind, Some(key), data.as_bytes(), &Limits::default())
        .map_err(|refusal| refused(refusal.to_string()))?;
    let id: PublicId = text.parse().map_err(|error| refused(format!("{error}")))?;
    let steady = process.steady(now);
    Ok(fan_out(process.roster(), &offer, &id, steady, steady))
}

impl Play {
    pub(super) fn new(schedule: Schedule, scenario: &Scenario) -> Self {
        let tokens = schedule.due().iter().map(|due| due.token).max().map_or(0, |most| most + 1);
        let mut first = vec![u32::MAX; usize::try_from(tokens).unwrap_or_default()];
        for (place, due) in (0_u32..).zip(schedule.due()) {
            if let Some(slot) = usize::try_from(due.token).ok().and_then(|token| first.get_mut(token)) {
                *slot = place.min(*slot);
            }
        }
        let to = |kind: &str| {
            let all = scenario.subscribers.iter().enumerate();
            all.filter(|(_, one)| one.is_owed(kind)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let owed_lanes: Vec<Vec<usize>> = schedule.types().map(to).collect();
        let name = |at: &usize| scenario.subscribers[*at].name.clone();
        let owed = owed_lanes.iter().map(|lanes| lanes.iter().map(name).collect()).collect();
        Self { schedule, next: 0, first, owed, owed_lanes, tokens: Tokens::new(0x51), open: 0 }
    }

    fn place_of(&self, token: u64) -> Option<usize> {
        let place = *self.first.get(usize::try_from(token).ok()?)?;
        usize::try_from(place).ok().filter(|place| *place < self.schedule.due().len())
    }

    pub(super) fn due_of(&self, token: u64) -> Option<&Due> {
        self.schedule.due().get(self.place_of(token)?)
    }
}
