//! Liveness: a lane with work due, a living owner, a closed breaker, no pause, and room in its contract sends within X, whatever
//! happened before. A word that the engine waits for and that is lost breaks that, and is found.
//!
//! X, from the last start or from when all of this came to hold, is the longest that these may take one after another:
//!
//! - what is under way ends and is no longer in doubt: the deadline and the doubt;
//! - a window cap has room: the longest window;
//! - the bucket has room: 1/rate for each attempt of the burst, and for each that a new owner counts: at first a burst; each
//!   seizure adds as many again, up to the cap in flight, since what the owner before counted may have been sent once more;
//! - a record, and what became of deliveries, are durable: four commits;
//! - a claim that came back empty is made again: [`EMPTY_CLAIMS`]; what the sender kept back itself is tried again: [`OWN_WAIT`].
//!
//! Lengths and rates are the worst of all terms so far, since debts of earlier ones may last.

use hookproof_sender::engine::{Instant, Nanos};
use proptest::test_runner::TestCaseError;

use crate::guarantee::{Play, cases, engine, is_found_out, runner};
use crate::scripts::{Script, scripts};
use crate::senders::{Flaw, Terms};
use crate::shell::WakeUp;

/// Between claims that come back empty, at most.
const EMPTY_CLAIMS: Nanos = Nanos::from_millis(1_024);
/// Until an attempt is made again that the sender kept back or broke off itself.
const OWN_WAIT: Nanos = Nanos::from_millis(100);
/// Commits between two starts, at most.
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

/// For how long a lane has been silent though it may send.
pub(crate) struct Silence {
    delay: Nanos,
    lateness: Nanos,
    window: Nanos,
    burst: u64,
    /// 1/rate.
    gap: Nanos,
    in_flight: u64,
    /// What the latest owner counts, in attempts, at most.
    debt: u64,
    held_back: bool,
    /// Since when work has been due and nothing started; nothing while none is due.
    since: Option<Instant>,
    started: u64,
    broken: Option<String>,
}

impl Silence {
    pub(crate) fn new(now: Instant, script: &Script) -> Self {
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

    /// Other terms are in force.
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

    /// An operator, or a change of owners, holds the lane back, or does no longer.
    pub(crate) fn begin(&mut self, now: Instant, held_back: bool) {
        self.held_back = held_back;
        self.since = self.since.map(|_| now);
    }

    /// Somebody else has the lane now, who does not know what was sent last.
    pub(crate) fn seize(&mut self, now: Instant) {
        self.debt += self.debt.min(self.in_flight);
        self.begin(now, false);
    }

    /// X.
    pub(crate) fn longest(&self) -> Nanos {
        let waits = EMPTY_CLAIMS + OWN_WAIT + self.delay.times(COMMITS);
        self.lateness + self.window + self.gap.times(self.burst + self.debt) + waits
    }

    /// Nothing more starts now, so many have started in all, and work is due or not.
    pub(crate) fn look(&mut self, now: Instant, started: u64, is_due: bool, told: impl FnOnce() -> String) {
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
