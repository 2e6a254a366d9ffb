//! The same work for both: events are emitted in batches, claimed lane by lane, settled; a part of them fails once, and is tried again.
//!
//! It is a closed loop. So many batches are on their way all the time, unless as many deliveries wait as may; each lane has one claim on
//! its way; what is claimed is settled at once, as if the endpoint took no time. At the end every event must have been delivered once.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::store::command::Fate;

use crate::failure::Failure;
use crate::now;

/// Events in one batch, and batches on their way, as in `end_to_end`.
const BATCH: u64 = 500;
const BATCHES: u64 = 4;
/// As many deliveries may wait, those to be tried again included.
const WAITING_MAX: u64 = 20_000;
/// As many settlements may be unanswered: what the engine allows.
const UNSETTLED_MAX: u64 = 20_000;
/// No claim wants more: a lane's window in the engine.
pub(crate) const CLAIM_MAX: u32 = 256;
/// One of so many first attempts fails, and is made again after so long.
const FAILS_ONE_IN: u64 = 50;
const AGAIN_AFTER: Nanos = Nanos::from_millis(1_000);
/// So long after a claim that came back empty, though something is due, the next one is made.
const EMPTY_AFTER: Nanos = Nanos::from_millis(1);
/// Every answer comes within this time, or something is broken.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Whatever keeps events until they are delivered. It answers by a channel.
pub(crate) trait Queue {
    /// A delivery that was handed out.
    type Row: Row;

    /// Records these events, the lane of each being its number modulo the number of lanes.
    fn emit(&self, events: Range<u64>) -> Result<(), Failure>;

    /// Hands out what is due on a lane. `again`: of what is to be tried again something is due.
    fn claim(&self, lane: u64, again: bool) -> Result<(), Failure>;

    /// How many commits there were so far.
    fn commits(&self) -> u64;

    /// Records what became of deliveries.
    fn settle(&self, lane: u64, settled: Vec<(Self::Row, Fate)>) -> Result<(), Failure>;
}

/// What the workload wants to know of a delivery.
pub(crate) trait Row {
    /// The id of its event.
    fn event(&self) -> &str;
    /// Attempts made so far.
    fn attempts(&self) -> u32;
}

/// An answer, once it is durable.
pub(crate) enum Told<R> {
    Emitted(Range<u64>),
    /// `more`: something else is due that is not handed out.
    Claimed {
        lane: u64,
        rows: Vec<R>,
        more: bool,
    },
    Settled {
        lane: u64,
        delivered: u64,
        again: Vec<StoreTime>,
    },
    Failed(String),
}

/// The id of an event.
pub(crate) fn id(event: u64) -> String {
    format!("evt_{event:020}")
}

/// Whether the first attempt of an event fails; as often on each lane.
const fn fails_first(event: u64) -> bool {
    (event.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(FAILS_ONE_IN)
}

/// What became of some deliveries: how many were delivered, and when the others are due again.
pub(crate) fn outcome<R>(settled: &[(R, Fate)]) -> (u64, Vec<StoreTime>) {
    let again: Vec<StoreTime> = settled
        .iter()
        .filter_map(|(_, fate)| match fate {
            Fate::Retry { due } => Some(*due),
            _ => None,
        })
        .collect();
    ((settled.len() - again.len()) as u64, again)
}

/// What is to be done.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub(crate) lanes: u64,
    /// One of fifty first attempts fails.
    pub(crate) some_fail: bool,
    /// A stranger keeps a transaction open.
    pub(crate) stranger: bool,
}

/// The loop.
pub(crate) struct Workload<'a, Q: Queue> {
    queue: &'a Q,
    told: &'a Receiver<Told<Q::Row>>,
    clock: &'a dyn Fn() -> StoreTime,
    some_fail: bool,
    lanes: Vec<Lane>,
    /// When something is to be tried again, and on which lane.
    again: BTreeSet<(StoreTime, u64)>,
    /// Lanes that cannot claim as too much is unsettled.
    held_up: VecDeque<u64>,
    emitted: u64,
    batches: u64,
    unsettled: u64,
    delivered: u64,
    /// Whether each event was.
    each: Vec<bool>,
}

#[derive(Default)]
struct Lane {
    claiming: bool,
    /// Something may wait that the claim on its way does not see.
    wanted: bool,
    again: bool,
}

impl<'a, Q: Queue> Workload<'a, Q> {
    pub(crate) fn new(
        queue: &'a Q,
        told: &'a Receiver<Told<Q::Row>>,
        clock: &'a dyn Fn() -> StoreTime,
        Course { lanes, some_fail, .. }: Course,
    ) -> Self {
        Self {
            queue,
            told,
            clock,
            some_fail,
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            again: BTreeSet::new(),
            held_up: VecDeque::new(),
            emitted: 0,
            batches: 0,
            unsettled: 0,
            delivered: 0,
            each: Vec::new(),
        }
    }

    pub(crate) fn commits(&self) -> u64 {
        self.queue.commits()
    }

    /// Works for so long; how many were delivered meanwhile.
    pub(crate) fn run(&mut self, lasts: Duration) -> Result<u64, Failure> {
        let (before, ends) = (self.delivered, now() + lasts);
        while now() < ends {
            while self.batches < BATCHES && self.emitted + BATCH <= self.delivered + WAITING_MAX {
                self.queue.emit(self.emitted..self.emitted + BATCH)?;
                self.emitted += BATCH;
                self.batches += 1;
            }
            self.step(ends)?;
        }
        Ok(self.delivered - before)
    }

    /// Emits no more, and delivers the rest; fails unless each event was delivered once.
    pub(crate) fn drain(&mut self) -> Result<(), Failure> {
        let ends = now() + ANSWER_WITHIN;
        while self.delivered < self.emitted || self.unsettled > 0 {
            if now() >= ends {
                let (delivered, emitted) = (self.delivered, self.emitted);
                return Err(Failure::Says(format!(
                    "{delivered} of {emitted} events were delivered in the end"
                )));
            }
            self.step(ends)?;
        }
        let each = self.each.iter().filter(|delivered| **delivered).count() as u64;
        if each != self.emitted || self.emitted == 0 {
            return Err(Failure::Says(format!("{each} different events of {} were delivered", self.emitted)));
        }
        Ok(())
    }

    /// One answer, or until something is to be tried again, or a moment.
    fn step(&mut self, ends: Instant) -> Result<(), Failure> {
        let time = (self.clock)();
        let mut wait = ends.saturating_duration_since(now());
        while let Some((due, lane)) = self.again.first().copied() {
            if due > time {
                wait = wait.min(Duration::from_nanos(due.0 - time.0));
                break;
            }
            self.again.pop_first();
            self.lane(lane).again = true;
            self.claim(lane)?;
        }
        match self.told.recv_timeout(wait) {
            Ok(told) => self.hear(told),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::Says("the queue ended".to_owned())),
        }
    }

    fn hear(&mut self, told: Told<Q::Row>) -> Result<(), Failure> {
        match told {
            Told::Emitted(events) => {
                self.batches -= 1;
                let lanes = self.lanes.len() as u64;
                (events.start..events.end.min(events.start + lanes))
                    .try_for_each(|event| self.claim(event % lanes))
            }
            Told::Claimed { lane, rows, more } => {
                self.lane(lane).claiming = false;
                if more && rows.is_empty() {
                    // A commit under way has it. The engine waits a little, too, before it asks again.
                    self.again.insert((StoreTime((self.clock)().0 + EMPTY_AFTER.0), lane));
                }
                // The engine claims the next ones as well before it has settled these.
                if (more && !rows.is_empty()) || self.lane(lane).wanted {
                    self.claim(lane)?;
                }
                self.attempt(lane, rows)
            }
            Told::Settled { lane, delivered, again } => {
                self.unsettled -= delivered + again.len() as u64;
                self.delivered += delivered;
                self.again.extend(again.into_iter().map(|due| (due, lane)));
                while self.unsettled < UNSETTLED_MAX
                    && let Some(lane) = self.held_up.pop_front()
                {
                    self.claim(lane)?;
                }
                Ok(())
            }
            Told::Failed(error) => Err(Failure::Says(error)),
        }
    }

    fn claim(&mut self, number: u64) -> Result<(), Failure> {
        let is_held_up = self.unsettled >= UNSETTLED_MAX;
        let lane = self.lane(number);
        if lane.claiming {
            lane.wanted = true;
            return Ok(());
        }
        if is_held_up {
            if !self.held_up.contains(&number) {
                self.held_up.push_back(number);
            }
            return Ok(());
        }
        let again = lane.again;
        *lane = Lane { claiming: true, wanted: false, again: false };
        self.queue.claim(number, again)
    }

    /// Makes attempts, which take no time.
    fn attempt(&mut self, lane: u64, rows: Vec<Q::Row>) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let due = StoreTime((self.clock)().0 + AGAIN_AFTER.0);
        let mut settled = Vec::with_capacity(rows.len());
        for row in rows {
            let event = row.event().trim_start_matches("evt_").parse::<u64>();
            let event = event.map_err(|_| Failure::Says(format!("{} was never emitted", row.event())))?;
            if self.some_fail && row.attempts() == 0 && fails_first(event) {
                settled.push((row, Fate::Retry { due }));
                continue;
            }
            let place = usize::try_from(event).expect("a bench has room for its events");
            if self.each.len() <= place {
                self.each.resize(place + 1, false);
            }
            if std::mem::replace(&mut self.each[place], true) {
                return Err(Failure::Says(format!("{} was delivered twice", row.event())));
            }
            settled.push((row, Fate::Delivered));
        }
        self.unsettled += settled.len() as u64;
        self.queue.settle(lane, settled)
    }

    fn lane(&mut self, number: u64) -> &mut Lane {
        &mut self.lanes[usize::try_from(number).expect("lanes are few")]
    }
}
