//! One subscriber's lane: limiter, breaker, pressure, and a short window of due deliveries.

use std::collections::VecDeque;
use std::sync::Arc;

use super::baseline::Baseline;
use super::breaker::{Breaker, Disabled, Health, IsProbe, Standing};
use super::limiter::{Limiter, Ready, Since};
use super::message::{
    Due, Fate, Holds, LaneRecord, Origin, Outcome, Reason, Refusal, Retried, Settings, Takeover, Unpermitted,
};
use super::pace::Pace;
use super::pressure::{Pressure, Strain};
use super::reading::Reading;
use super::retry::{Meaning, Rng};
use super::shift::Shift;
use super::time::{Nanos, StoreTime};
use super::{AttemptId, DeliveryId, LaneId, Revision, Term};

/// Unsent deliveries of a lane.
pub(super) const WINDOW_MAX: u32 = 256;
/// A lane claims and holds only deliveries that it may send within this time.
const AHEAD: Nanos = Nanos::SECOND;
/// First wait after an empty claim although a delivery was due; doubles with each further one.
const EMPTY_CLAIM_WAIT: Nanos = Nanos::from_millis(1);
const EMPTY_CLAIMS_MAX: u32 = 10;
/// Delay after an attempt that the sender itself withheld or cut off.
const OWN_WAIT: Nanos = Nanos::from_millis(100);
const ASK_AGAIN_MIN: Nanos = Nanos::SECOND;
const ASK_AGAIN_MAX: Nanos = Nanos::MINUTE.times(5);

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) term: Term,
    settings: Arc<Settings>,
    limiter: Limiter,
    breaker: Breaker,
    pressure: Pressure,
    pace: Pace,
    window: VecDeque<Due>,
    /// `Retry-After` pauses the lane until then.
    paused_until: StoreTime,
    /// The version of the last [`Retried`] that this or a former owner took up.
    handled: u64,
    lease_until: StoreTime,
    /// When the next delivery is due: by the store's last answer, and by notices since the last claim.
    work: Work,
    state: State,
    pub(super) marks: Marks,
}

#[derive(Debug)]
struct Refused {
    refusal: Refusal,
    until: StoreTime,
    pause: Nanos,
}

#[derive(Debug)]
struct Work {
    answered: StoreTime,
    noted: StoreTime,
    claiming: bool,
    /// Consecutive empty claims.
    empty: u32,
}

#[derive(Debug)]
struct State {
    paused: bool,
    /// The endpoint answered 410, or failed for too long. The store disables the lane with the same settlement.
    disabled: bool,
    leaving: bool,
    refused: Option<Refused>,
    changed: StoreTime,
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) queued: bool,
    /// The lane waits for the number of attempts under way to fall.
    pub(super) crowded: bool,
    pub(super) unsaved: bool,
}

impl Lane {
    pub(super) fn new(taking: Takeover, now: StoreTime) -> Self {
        let Takeover { lane, term, settings, origin, lease_until, next, paused } = taking;
        let Start { limiter, record, downtime } = Start::new(origin, &settings, now);
        let pause = record.as_ref().map_or(Nanos::ZERO, |record| Nanos(record.pause).less(downtime));
        let breaker = record.as_ref().and_then(|record| record.breaker);
        let baseline = record.as_ref().and_then(|record| record.baseline.as_ref());
        let refused = record.as_ref().and_then(|record| {
            let (refusal, left, pause, asked) = record.refused?;
            if asked != settings.permission() {
                return None;
            }
            let left = Nanos(left).less(downtime).min(ASK_AGAIN_MAX);
            Some(Refused { refusal, until: now + left, pause: Nanos(pause).min(ASK_AGAIN_MAX) })
        });
        Self {
            id: lane,
            term,
            limiter,
            breaker: Breaker::restore(breaker, settings.breaker(), downtime, now),
            pressure: Pressure::new(Baseline::restore(baseline, downtime, now)),
            pace: Pace::default(),
            window: VecDeque::new(),
            paused_until: now + pause.min(settings.retry().retry_after_cap()),
            handled: record.as_ref().map_or(0, |record| record.handled),
            lease_until,
            work: Work {
                answered: next.unwrap_or(StoreTime::NEVER),
                noted: StoreTime::NEVER,
                claiming: false,
                empty: 0,
            },
            state: State { paused, disabled: false, leaving: false, refused, changed: StoreTime::START },
            marks: Marks::default(),
            settings,
        }
    }

    /// Without `room` for one more attempt, the lane starts one only if it has none. It holds at most `window`
    /// deliveries.
    pub(super) fn next_move(&mut self, now: StoreTime, room: bool, window: u32) -> Move {
        if self.is_barred(now) {
            return self.release().unwrap_or_else(|| self.rest());
        }
        if let Some(due) = self.window.pop_front_if(|due| due.expires <= now) {
            return Move::GiveUp(due, Reason::Expired);
        }
        let attempts_max = self.settings.retry().attempts();
        if let Some(due) = self.window.pop_front_if(|due| due.attempts >= attempts_max) {
            return Move::GiveUp(due, Reason::Exhausted);
        }
        let ready = self.ready(now);
        if let Some(count) = self.claim(ready, now, window) {
            return Move::Claim(count);
        }
        match ready {
            Ready::Now if !room && self.has_open_attempts() && !self.window.is_empty() => Move::Crowd,
            Ready::Now => match self.window.pop_front() {
                Some(due) => Move::Send(due, self.start(now)),
                None => self.wait_for_work(now),
            },
            Ready::At(at) if at > now + AHEAD => {
                self.release().unwrap_or_else(|| self.wait_for_work(at.sooner(AHEAD)))
            }
            Ready::At(at) if self.window.is_empty() => self.wait_for_work(at),
            Ready::At(at) => Move::Wait(at),
            Ready::OnEvent => Move::Rest,
        }
    }

    pub(super) fn is_holding(&self) -> bool {
        self.work.claiming || !self.window.is_empty()
    }

    pub(super) fn record_due(&mut self, due: StoreTime) {
        self.work.noted = self.work.noted.min(due);
    }

    pub(super) fn fill(&mut self, due: Vec<Due>, next: Option<StoreTime>, now: StoreTime) {
        debug_assert!(self.work.claiming, "deliveries came that were not asked for");
        self.work.claiming = false;
        self.work.answered = next.unwrap_or(StoreTime::NEVER);
        if due.is_empty() && self.work.answered <= now {
            self.work.answered = now + EMPTY_CLAIM_WAIT.times(1 << self.work.empty);
            self.work.empty = (self.work.empty + 1).min(EMPTY_CLAIMS_MAX);
        } else {
            self.work.empty = 0;
        }
        self.window.extend(due);
    }

    /// Frees the attempt's place. Returns true if the lane must hear when the attempt's settlement is durable.
    pub(super) fn charge(&mut self, attempt: &Ending, outcome: &Outcome, now: StoreTime) -> bool {
        self.limiter.end(attempt.started, outcome.into(), now)
    }

    pub(super) fn settled(&mut self) {
        self.limiter.settled();
    }

    pub(super) fn recorded(&mut self, revision: Revision) {
        self.limiter.recorded(revision);
    }

    pub(super) fn wants_record(&self) -> bool {
        self.limiter.wants_record(self.marks.unsaved)
    }

    pub(super) fn end(
        &mut self,
        attempt: &Ending,
        outcome: &Outcome,
        rng: &mut Rng,
        now: StoreTime,
    ) -> (Fate, Option<(Disabled, u64)>) {
        if let Outcome::Unpermitted(refusal) = outcome {
            self.pace = Pace::default();
            self.refuse(*refusal, attempt, now);
        }
        if outcome.is_by_us() {
            return (self.ended_by_us(attempt, now), None);
        }
        let permits = matches!(outcome, Outcome::Answered(_) | Outcome::Silent);
        if permits && self.state.refused.as_ref().is_some_and(|refused| refused.until <= attempt.started) {
            self.state.refused = None;
            self.marks.unsaved = true;
        }
        let reading = Reading::of(outcome, self.settings.retry().retry_after_cap());
        if *outcome == Outcome::ProxyFailed {
            self.learn_nothing(attempt, now);
            return (self.fate(&reading, attempt, rng, now), None);
        }
        let latency = now.since(attempt.started);
        let breaker = self.settings.breaker();
        self.marks.unsaved |= self.breaker.end(breaker, attempt.probe, reading.health, latency, now);
        // While probes fail, the breaker already holds back: the share must not shrink with the length of an outage.
        if !attempt.probe.0 || reading.strain != Strain::Failed {
            let contract = self.limiter.contract();
            let policy = self.settings.pressure();
            self.marks.unsaved |= self.pressure.end(policy, contract, reading.strain, attempt.started, now);
        }
        let has_failed = attempt.probe.0
            && matches!((reading.meaning, reading.health), (Meaning::Failure, Health::Ill(_)));
        let disables = Some(&self.breaker).filter(|_| has_failed).and_then(|it| it.disables(breaker));
        self.state.disabled |= disables.is_some();
        let fate = self.fate(&reading, attempt, rng, now);
        (fate, disables.map(|disabled| (disabled, self.handled)))
    }

    fn fate(&mut self, reading: &Reading, attempt: &Ending, rng: &mut Rng, now: StoreTime) -> Fate {
        match (reading.meaning, reading.pause) {
            (Meaning::Success, _) => Fate::Delivered,
            (Meaning::Gone, _) => {
                self.state.disabled = true;
                Fate::Dead(Reason::Gone)
            }
            (Meaning::Failure, pause) => {
                if let Some(pause) = pause {
                    self.pause_until(now + pause);
                }
                match self.settings.retry().delay(attempt.attempts, rng) {
                    Some(backoff) => {
                        let due = (now + pause.unwrap_or(backoff)).min(attempt.expires);
                        self.record_due(due);
                        Fate::Retry { due }
                    }
                    None => Fate::Dead(Reason::Exhausted),
                }
            }
        }
    }

    /// Attempts of one pause share an answer.
    fn refuse(&mut self, refusal: Refusal, attempt: &Ending, now: StoreTime) {
        let before = self.state.refused.as_ref();
        if attempt.started < self.state.changed
            || before.is_some_and(|refused| attempt.started < refused.until)
        {
            return;
        }
        let pause = before.map_or(ASK_AGAIN_MIN, |refused| refused.pause.times(2).min(ASK_AGAIN_MAX));
        self.state.refused = Some(Refused { refusal, until: now + pause, pause });
        self.marks.unsaved = true;
    }

    /// Such an attempt shows nothing about the endpoint.
    fn learn_nothing(&mut self, attempt: &Ending, now: StoreTime) {
        let policy = self.settings.breaker();
        self.marks.unsaved |= self.breaker.end(policy, attempt.probe, Health::Busy, Nanos::ZERO, now);
    }

    /// It keeps its place in the bucket, unless its endpoint permitted nothing.
    fn ended_by_us(&mut self, attempt: &Ending, now: StoreTime) -> Fate {
        self.learn_nothing(attempt, now);
        let due = (now + OWN_WAIT).min(attempt.expires);
        self.record_due(due);
        Fate::Retry { due }
    }

    /// Applies the `Retry-After` of an attempt that began under an earlier term.
    pub(super) fn heed(&mut self, outcome: &Outcome, now: StoreTime) {
        if let Some(pause) = Reading::of(outcome, self.settings.retry().retry_after_cap()).pause {
            self.pause_until(now + pause);
        }
    }

    pub(super) fn change(&mut self, settings: Arc<Settings>, now: StoreTime) {
        self.pace.change(self.limiter.contract(), settings.contract());
        self.limiter.change(settings.contract().clone(), settings.lateness(), now);
        self.settings = settings;
        self.state.changed = now;
        self.marks.unsaved |= self.state.refused.take().is_some();
    }

    pub(super) fn pause(&mut self) {
        self.state.paused = true;
    }

    pub(super) fn resume(&mut self) {
        self.state.paused = false;
        self.state.disabled = false;
    }

    /// Nothing if this is handled, and else whether the operator insists. Every limit holds, as does the pause that the
    /// endpoint asked for, unless the operator insists.
    pub(super) fn retry(&mut self, asked: Retried, now: StoreTime) -> Option<bool> {
        let insist = asked.since(self.handled)?;
        self.handled = asked.asked;
        self.marks.unsaved = true;
        self.breaker.probe_now(now);
        self.pressure.start_over(now);
        if let Some(refused) = &mut self.state.refused {
            refused.until = refused.until.min(now);
        }
        if insist {
            self.paused_until = self.paused_until.min(now);
        }
        Some(insist)
    }

    pub(super) fn renew(&mut self, until: StoreTime) {
        self.lease_until = until;
    }

    pub(super) fn leave(&mut self) {
        self.state.leaving = true;
        self.window = VecDeque::new();
    }

    pub(super) fn has_left(&self) -> bool {
        self.state.leaving && self.limiter.open() == 0
    }

    pub(super) fn has_open_attempts(&self) -> bool {
        self.limiter.open() > 0
    }

    pub(super) fn record(&mut self, now: StoreTime) -> (Revision, LaneRecord) {
        let clean = self.has_left();
        let (revision, limiter) = self.limiter.snapshot(clean, now);
        self.marks.unsaved = false;
        let record = LaneRecord {
            limiter,
            clean,
            pause: self.paused_until.since(now).0,
            breaker: self.breaker.record(now),
            baseline: self.pressure.baseline().record(now),
            throttle: self.pressure.record(now).filter(|_| !clean),
            handled: self.handled,
            refused: self
                .state
                .refused
                .as_ref()
                .map(|it| (it.refusal, it.until.since(now).0, it.pause.0, self.settings.permission())),
            at: now.0,
            term: self.term.0,
        };
        (revision, record)
    }

    pub(super) fn take_news(&mut self) -> Option<Shift> {
        self.pressure.take_news()
    }

    pub(super) fn breaker(&self) -> Standing {
        self.breaker.standing()
    }

    pub(super) fn view(&self, now: StoreTime) -> LaneView {
        let (in_doubt, in_doubt_until) = self.limiter.in_doubt();
        LaneView {
            lane: self.id,
            term: self.term,
            in_flight: self.limiter.in_flight(),
            level: self.limiter.level(),
            share_percent: self.pressure.percent(),
            shift: self.pressure.last_shift(),
            target: self.pressure.target(self.settings.pressure()),
            usual: self.pressure.baseline().get(),
            holds: Holds {
                breaker: self.breaker.standing(),
                throttle: self.pressure.last_shift().filter(|_| self.pressure.percent() < 100),
                paused_until: self.paused_until,
                refused: self.unpermitted(),
                in_doubt,
                in_doubt_until,
            },
            paused_for: self.paused_until.since(now),
            held: self.window.len(),
            has_work: self.is_holding() || self.has_due_work(now),
        }
    }

    fn unpermitted(&self) -> Option<Unpermitted> {
        let Refused { refusal, until, .. } = *self.state.refused.as_ref()?;
        Some(Unpermitted { refusal, until, permission: self.settings.permission() })
    }

    fn is_barred(&self, now: StoreTime) -> bool {
        let State { paused, disabled, leaving, .. } = self.state;
        paused || disabled || leaving || now >= self.lease_until
    }

    fn ready(&mut self, now: StoreTime) -> Ready {
        let (open, contract) = (self.limiter.open(), self.limiter.contract());
        let pressure = self.pressure.ready(self.settings.pressure(), contract, open, now);
        let asked = if self.paused_until > now { Ready::At(self.paused_until) } else { Ready::Now };
        let pace = self.pace.ready(contract, now);
        let permitted = match &self.state.refused {
            Some(refused) if refused.until > now => Ready::At(refused.until),
            Some(_) if open > 0 => Ready::OnEvent,
            _ => Ready::Now,
        };
        let ready = self.limiter.ready(now).and(self.breaker.ready(now)).and(pressure);
        ready.and(asked).and(pace).and(permitted)
    }

    fn start(&mut self, now: StoreTime) -> IsProbe {
        self.pace.start(self.limiter.contract(), now);
        self.limiter.start(now);
        self.pressure.start(now);
        self.breaker.start()
    }

    fn claim(&mut self, ready: Ready, now: StoreTime, window: u32) -> Option<u32> {
        let is_soon = !matches!(ready, Ready::At(at) if at > now + AHEAD);
        if self.work.claiming || !self.has_due_work(now) || !is_soon {
            return None;
        }
        let held = u32::try_from(self.window.len()).expect("a window is short");
        if held > window / 2 {
            return None;
        }
        let pressed = self.pressure.room(self.settings.pressure(), self.limiter.contract(), AHEAD);
        let paced = Pace::room(self.limiter.contract(), AHEAD);
        let most = if self.breaker.is_open() { 1 } else { window.min(pressed).min(paced) };
        let wanted = self.limiter.room(now, AHEAD).min(most);
        let count = wanted.checked_sub(held).filter(|&count| count > 0 && held <= wanted / 2)?;
        self.work.claiming = true;
        if self.work.noted <= now {
            self.work.noted = StoreTime::NEVER;
        }
        Some(count)
    }

    fn has_due_work(&self, now: StoreTime) -> bool {
        self.work.answered.min(self.work.noted) <= now
    }

    /// Waits until a delivery is due, and at least until `earliest`.
    fn wait_for_work(&mut self, earliest: StoreTime) -> Move {
        let work = self.work.answered.min(self.work.noted);
        if self.work.claiming || work == StoreTime::NEVER {
            self.rest()
        } else {
            Move::Wait(work.max(earliest))
        }
    }

    fn rest(&mut self) -> Move {
        if self.window.is_empty() {
            self.window = VecDeque::new();
        }
        Move::Rest
    }

    fn release(&mut self) -> Option<Move> {
        if self.window.is_empty() {
            return None;
        }
        self.work.noted = StoreTime::START;
        Some(Move::Release(std::mem::take(&mut self.window).into()))
    }

    fn pause_until(&mut self, until: StoreTime) {
        if until > self.paused_until {
            self.paused_until = until;
            self.marks.unsaved = true;
        }
    }
}

pub(super) struct Start {
    pub(super) limiter: Limiter,
    pub(super) record: Option<LaneRecord>,
    /// A lower bound on the time since the record.
    pub(super) downtime: Nanos,
}

impl Start {
    pub(super) fn new(origin: Origin, settings: &Settings, now: StoreTime) -> Self {
        let contract = settings.contract().clone();
        let (record, downtime, seized) = match origin {
            Origin::Fresh => (None, Nanos::ZERO, None),
            Origin::Resumed { record, downtime } => {
                let seized = (!record.clean).then(Vec::new);
                (Some(record), downtime, seized)
            }
            Origin::Seized { record, downtime, ended } => (record, downtime, Some(ended)),
        };
        let left = record.as_ref().map(|record| &record.limiter);
        let lateness = settings.lateness();
        let limiter = match (left, &seized) {
            (left, Some(ended)) => {
                let since = Since { downtime, ended };
                Limiter::seize(contract, lateness, left, since, now)
            }
            (Some(left), None) => Limiter::resume(contract, lateness, left, downtime, now),
            (None, None) => Limiter::fresh(contract, lateness),
        };
        Self { limiter, record, downtime }
    }
}

/// For operators only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneView {
    pub lane: LaneId,
    pub term: Term,
    /// Attempts whose request may still arrive.
    pub in_flight: u32,
    /// The level of the bucket in attempts, as of the limiter's last update.
    pub level: u64,
    pub share_percent: u32,
    /// Only under this ownership.
    pub shift: Option<Shift>,
    /// The latency above which the share is lowered. Nothing before enough answers came.
    pub target: Option<Nanos>,
    /// The usual latency over a day. Nothing before enough answers came.
    pub usual: Option<Nanos>,
    pub holds: Holds,
    /// The endpoint asked for it.
    pub paused_for: Nanos,
    pub held: usize,
    /// It holds a delivery, or knows of one in the store that is due.
    pub has_work: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    pub in_flight: u64,
    pub in_doubt: u64,
}

impl UnderWay {
    #[must_use]
    pub fn of(views: &[LaneView]) -> Self {
        views.iter().fold(Self::default(), |sum, view| Self {
            in_flight: sum.in_flight + u64::from(view.in_flight),
            in_doubt: sum.in_doubt + u64::from(view.holds.in_doubt),
        })
    }
}

#[derive(Debug)]
pub(super) enum Move {
    Send(Due, IsProbe),
    GiveUp(Due, Reason),
    Claim(u32),
    /// Give these back to the store: the lane cannot send them soon.
    Release(Vec<Due>),
    Wait(StoreTime),
    /// Send as soon as fewer attempts are under way.
    Crowd,
    Rest,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// The lane's slot at the start. Another lane may use the slot by now: compare `lane` and `term`.
    pub(super) slot: u32,
    pub(super) lane: LaneId,
    pub(super) term: Term,
    pub(super) delivery: DeliveryId,
    pub(super) ending: Ending,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The delivery's attempts so far, this one included.
    pub(super) attempts: u32,
    pub(super) expires: StoreTime,
    pub(super) started: StoreTime,
    pub(super) probe: IsProbe,
}

/// A slab. A slot is reused; an id is not.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    places: Vec<Place>,
    free: Vec<u32>,
    live: usize,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    attempt: Option<Attempt>,
}

impl Attempts {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn insert(&mut self, attempt: Attempt) -> AttemptId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, attempt: None });
            u32::try_from(self.places.len() - 1).expect("far fewer attempts at once than 2^32")
        });
        let place = &mut self.places[slot as usize];
        place.attempt = Some(attempt);
        self.live += 1;
        AttemptId { slot, generation: place.generation }
    }

    /// Returns nothing if the attempt has already ended.
    pub(super) fn remove(&mut self, id: AttemptId) -> Option<Attempt> {
        let place =
            self.places.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        let attempt = place.attempt.take()?;
        self.live -= 1;
        // A slot whose generations are used up retires, so that no id repeats.
        if let Some(generation) = place.generation.checked_add(1) {
            place.generation = generation;
            self.free.push(id.slot);
        }
        Some(attempt)
    }
}
