//! Liveness: a lane with due work, a living owner, a closed breaker, no pause, and free capacity in its contract
//! sends within X, regardless of its history. A lost wake-up breaks this, and the test finds it.
//!
//! X counts from the last start, or from when all conditions hold. It is the sum of:
//!
//! - the attempts in flight end and their doubt ends: deadline + doubt;
//! - a window cap frees: the longest window;
//! - the bucket drains: 1/rate for each attempt of the burst, and for each attempt that a new owner counts. That
//!   count starts as a burst. Each seizure doubles it, by at most the cap in flight, because the attempts of the
//!   previous owner may have been sent again;
//! - checkpoint and settlements become durable: four commits;
//! - an empty claim is repeated: [`EMPTY_CLAIMS`]; an attempt that the sender delayed itself is repeated:
//!   [`OWN_WAIT`].
//!
//! Lengths and rates are the worst of all terms so far, because earlier debts may last.

use hookproof_engine::engine::{Nanos, StoreTime};
use proptest::test_runner::TestCaseError;

use crate::guarantee::{Play, cases, engine, is_found_out, runner};
use crate::scripts::{Script, scripts};
use crate::senders::{Flaw, Terms};
use crate::shell::WakeUp;

const EMPTY_CLAIMS: Nanos = Nanos::from_millis(1_024);
/// The delay of an attempt that the sender itself held back or aborted.
const OWN_WAIT: Nanos = Nanos::from_millis(100);
const COMMITS: u64 = 4;

#[test]
fn a_lane_that_may_send_sends_within_x() {
    let result = runner(cases()).run(&scripts(), |script| {
        Play::of(&script, engine(&script, Flaw::None)).judge_silence().map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn each_wake_up_that_is_lost_once_is_found() {
    let wake_ups = [WakeUp::Settled, WakeUp::Persisted, WakeUp::Claimed, WakeUp::Work].map(Flaw::Loses);
    for flaw in wake_ups.into_iter().chain([Flaw::LosesHandOver]) {
        let silent = is_found_out(&format!("{flaw:?}"), |script| {
            let script = script.clone().without_restarts();
            Play::of(&script, engine(&script, flaw)).judge_silence()
        });
        assert!(silent.contains("nothing was sent for"), "{flaw:?}: {silent}");
    }
}

pub(crate) struct Silence {
    delay: Nanos,
    lateness: Nanos,
    window: Nanos,
    burst: u64,
    gap: Nanos,
    in_flight: u64,
    debt: u64,
    held_back: bool,
    /// Since when work is due and nothing started; `None` while no work is due.
    since: Option<StoreTime>,
    started: u64,
    broken: Option<String>,
}

impl Silence {
    pub(crate) fn new(now: StoreTime, script: &Script) -> Self {
        let mut silence = Self {
            delay: script.delay,
            lateness: Nanos::ZERO,
            window: Nanos::ZERO,
            burst: 0,
            gap: Nanos::ZERO,
            in_flight: 0,
            debt: 0,
            held_back: false,
            since: None,
            started: 0,
            broken: None,
        };
        silence.adopt(&script.terms);
        silence.begin(now, false);
        silence
    }

    pub(crate) fn adopt(&mut self, terms: &Terms) {
        let bucket = terms.contract.bucket();
        self.lateness = self.lateness.max(terms.lateness.deadline() + terms.lateness.doubt());
        let windows = terms.contract.windows().iter().map(|window| window.length());
        self.window = windows.fold(self.window, Nanos::max);
        self.burst = self.burst.max(bucket.burst().into());
        self.debt = self.debt.max(self.burst);
        self.in_flight = self.in_flight.max(terms.contract.in_flight().into());
        self.gap = self.gap.max(Nanos(bucket.rate().per().0.div_ceil(bucket.rate().count())));
    }

    /// An operator, or a change of owners, starts or stops holding the lane back.
    pub(crate) fn begin(&mut self, now: StoreTime, held_back: bool) {
        self.held_back = held_back;
        self.since = self.since.map(|_| now);
    }

    pub(crate) fn seize(&mut self, now: StoreTime) {
        self.debt += self.debt.min(self.in_flight);
        self.begin(now, false);
    }

    /// X.
    pub(crate) fn longest(&self) -> Nanos {
        self.waits() + self.gap.times(self.burst + self.debt)
    }

    /// X without the bucket.
    pub(crate) fn waits(&self) -> Nanos {
        self.lateness + self.window + EMPTY_CLAIMS + OWN_WAIT + self.delay.times(COMMITS)
    }

    /// To be called when nothing more starts now; `started` counts all starts so far.
    pub(crate) fn update(
        &mut self,
        now: StoreTime,
        started: u64,
        is_due: bool,
        told: impl FnOnce() -> String,
    ) {
        let has_started = std::mem::replace(&mut self.started, started) != started;
        if self.held_back || !is_due {
            self.since = None;
        } else if has_started || self.since.is_none() {
            self.since = Some(now);
        }
        let silent = self.since.map_or(Nanos::ZERO, |since| now.since(since));
        if silent > self.longest() {
            let longest = self.longest();
            self.broken.get_or_insert_with(|| {
                format!("nothing was sent for {silent:?} until {now:?}, X is {longest:?}: {}", told())
            });
        }
    }

    pub(crate) fn judge(&self) -> Result<(), String> {
        self.broken.clone().map_or(Ok(()), Err)
    }
}
