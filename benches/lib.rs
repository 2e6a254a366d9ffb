//! Measurements of Hookproof's cost.
//!
//! `engine`: attempts a second through the pure engine, with many lanes, in virtual time. `engine_memory`: bytes per
//! idle lane.

use std::collections::VecDeque;
use std::sync::Arc;

use hookproof_sender::engine::breaker::BreakerPolicy;
use hookproof_sender::engine::contract::{Bucket, Contract, Rate};
use hookproof_sender::engine::pressure::PressurePolicy;
use hookproof_sender::engine::retry::{Backoff, RetryPolicy};
use hookproof_sender::engine::{
    Answer, AttemptId, DeliveryId, Due, Engine, Input, LaneId, Lateness, Limits, Nanos, Origin, OutOfRange,
    Outcome, Output, Settings, StoreTime, Takeover, Term,
};

const LATENCY: Nanos = Nanos::from_millis(5);

/// An engine with endless work, a store that answers at once, and endpoints with equal latency.
pub struct Treadmill {
    engine: Engine,
    now: StoreTime,
    under_way: VecDeque<(StoreTime, AttemptId)>,
    deliveries: u64,
    settled: u64,
}

impl Treadmill {
    /// Lanes with the same contract and endless work.
    ///
    /// # Errors
    /// If the contract is out of range.
    pub fn new(lanes: u64, rate: Rate, burst: u32, in_flight: u32) -> Result<Self, OutOfRange> {
        let mut treadmill = Self::idle(lanes, rate, burst, in_flight)?;
        for lane in 0..lanes {
            let due = treadmill.now;
            treadmill.engine.handle(due, Input::Work { lane: LaneId(lane), due });
        }
        Ok(treadmill)
    }

    /// Lanes without work.
    ///
    /// # Errors
    /// If the contract is out of range.
    pub fn idle(lanes: u64, rate: Rate, burst: u32, in_flight: u32) -> Result<Self, OutOfRange> {
        let settings = settings(Contract::new(Some(Bucket::new(rate, burst)?), vec![], in_flight)?)?;
        let limits = Limits::new(10_000_000, 10_000_000)?;
        let mut engine = Engine::new(1, limits);
        let now = StoreTime(1);
        for lane in 0..lanes {
            let taking = Takeover {
                lane: LaneId(lane),
                term: Term(1),
                settings: Arc::clone(&settings),
                origin: Origin::Fresh,
                lease_until: StoreTime::NEVER,
                next: None,
                paused: false,
            };
            engine.handle(now, Input::Take(Box::new(taking)));
        }
        let mut treadmill = Self { engine, now, under_way: VecDeque::new(), deliveries: 0, settled: 0 };
        treadmill.pump();
        Ok(treadmill)
    }

    /// Settles at least `count` more deliveries, and finishes that moment. Returns the actual number.
    pub fn settle(&mut self, count: u64) -> u64 {
        let (before, goal) = (self.settled, self.settled + count);
        self.pump();
        while self.settled < goal {
            let end = self.under_way.front().map(|(end, _)| *end);
            let Some(next) = end.into_iter().chain(self.engine.next_wake()).min() else { break };
            self.now = next;
            self.engine.handle(next, Input::Tick);
            while let Some((_, attempt)) = self.under_way.pop_front_if(|(end, _)| *end <= next) {
                let outcome = Outcome::Answered(Answer {
                    status: 204,
                    retry_after: None,
                    date: None,
                    at: StoreTime::from_secs(1_800_000_000),
                });
                self.engine.handle(next, Input::Ended { attempt, outcome });
            }
            self.pump();
        }
        self.settled - before
    }

    fn pump(&mut self) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Claim { lane, term, max } => {
                    let due = (0..u64::from(max)).map(|n| Due {
                        delivery: DeliveryId(self.deliveries + n),
                        attempts: 0,
                        expires: StoreTime::NEVER,
                    });
                    let due = due.collect();
                    self.deliveries += u64::from(max);
                    let next = Some(self.now);
                    self.engine.handle(self.now, Input::Claimed { lane, term, due, next });
                }
                Output::Send { attempt, .. } => self.under_way.push_back((self.now + LATENCY, attempt)),
                Output::Settle { batch, settlements } => {
                    self.settled += settlements.len() as u64;
                    self.engine.handle(self.now, Input::Settled { batch });
                }
                Output::Persist { lane, term, revision, .. } => {
                    self.engine.handle(self.now, Input::Persisted { lane, term, revision });
                }
                Output::Retry { .. } | Output::Tell { .. } | Output::Turn { .. } => {}
            }
        }
    }
}

fn settings(contract: Contract) -> Result<Arc<Settings>, OutOfRange> {
    let backoff = Backoff::full_jitter(Nanos::SECOND, Nanos::HOUR)?;
    let retry = RetryPolicy::new(backoff, 12, Nanos::DAY, Nanos::DAY)?;
    let (breaker, pressure) = (BreakerPolicy::default(), PressurePolicy::default());
    let lateness = Lateness::new(Nanos::SECOND, Nanos::SECOND, Nanos::MINUTE)?;
    Ok(Arc::new(Settings::new(contract, retry, breaker, pressure, lateness)))
}
