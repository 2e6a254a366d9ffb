//! A [`Sleeper`] beside the endpoints' thread finds the times when the machine kept programs from running.
//!
//! One thread stamps all arrivals, so one heartbeat bounds the lateness of every stamp. Two beats [`STALL_NS`] apart
//! are a stall, which goes into the trace. Each beat also reads the machine's wall clock: a jump of [`SET_NS`] means
//! that the clock was set or the machine was suspended.

use std::io;
use std::thread::JoinHandle;

use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::{ClockSet, ENDPOINTS, Record};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::endpoint::{Endpoints, Identity, Reach, Spec, Stage};
use crate::stall::{Beats, Sleeper};

const BEAT_NS: u64 = 4_000_000;
/// A timer alone is late by 1 to 2 ms.
pub(super) const STALL_NS: u64 = 12_000_000;

/// systemd-timesyncd steps a clock from 0.4 s on, and slews smaller offsets on both clocks.
const SET_NS: u64 = 250_000_000;
const SETS_MAX: usize = 100;

/// The thread. Dropping this ends it and its tasks.
pub(super) struct EndpointThread {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _sleeper: Sleeper,
}

impl EndpointThread {
    pub(super) fn start(clock: &Clock, recorder: &Recorder) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let oversleeps = recorder.clone();
        let sleeper = Sleeper::start(clock, move |stall| oversleeps.record(Record::Stall(stall)))?;
        let (clock, recorder) = (clock.clone(), recorder.clone());
        let thread = std::thread::Builder::new().name(ENDPOINTS.to_owned());
        let thread = thread.spawn(move || runtime.block_on(beat(&clock, &recorder, stopped)))?;
        Ok(Self { runtime: handle, stop: Some(stop), thread: Some(thread), _sleeper: sleeper })
    }

    pub(super) async fn open(
        &self,
        specs: Vec<Spec>,
        stage: &Stage,
        reach: &Reach,
        identity: Option<Identity>,
    ) -> io::Result<Endpoints> {
        let (stage, reach) = (stage.clone(), reach.clone());
        let opening = self
            .runtime
            .spawn(async move { Endpoints::open_at(specs, &stage, &reach, identity.as_ref()).await });
        opening.await.map_err(io::Error::other)?
    }
}

impl Drop for EndpointThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported, and the thread is over.
            let _ = thread.join();
        }
    }
}

async fn beat(clock: &Clock, recorder: &Recorder, mut stopped: oneshot::Receiver<()>) {
    let mut beats = Beats::new(ENDPOINTS, STALL_NS, clock.now());
    let mut wall = WallLooks::default();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            () = clock.pass(BEAT_NS) => {}
        }
        let now = clock.now();
        if let Some(stall) = beats.at(now) {
            recorder.record(Record::Stall(stall));
        }
        if let Some(set) = wall.at(now, clock.wall_ahead_ns()) {
            recorder.record(Record::ClockSet(set));
        }
    }
    if let Some(stall) = beats.rest() {
        recorder.record(Record::Stall(stall));
    }
}

#[derive(Default)]
struct WallLooks {
    seen: u64,
    /// Its lead over the run's clock in nanoseconds; none before the run begins.
    ahead: Option<i64>,
    kept: usize,
}

impl WallLooks {
    /// Compares the clock; returns its jump, if there is one to record.
    fn at(&mut self, now: u64, ahead: Option<i64>) -> Option<ClockSet> {
        let from = std::mem::replace(&mut self.seen, now);
        let ahead = ahead?;
        let ns = ahead.saturating_sub(*self.ahead.get_or_insert(ahead));
        if ns.unsigned_abs() < SET_NS || self.kept == SETS_MAX {
            return None;
        }
        self.ahead = Some(ahead);
        self.kept += 1;
        Some(ClockSet { from, until: now, ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_set_is_seen_once_each_time_and_one_that_drifts_is_not() {
        let mut wall = WallLooks::default();
        let (ms, back) = (1_000_000, -3_000_000_000);
        let looks = [
            (0, None, None),
            // It was off from the beginning.
            (4, Some(7 * ms), None),
            (8, Some(256 * ms), None),
            (12, Some(257 * ms), Some((8, 250 * ms))),
            (16, Some(257 * ms), None),
            (20, Some(257 * ms + back), Some((16, back))),
            (24, Some(258 * ms + back), None),
        ];
        for (now, ahead, set) in looks {
            let set = set.map(|(from, ns)| ClockSet { from, until: now, ns });
            assert_eq!(wall.at(now, ahead), set, "at {now}");
        }
        wall.kept = SETS_MAX;
        assert_eq!(wall.at(28, Some(0)), None);
    }

    #[test]
    fn a_thread_that_is_kept_from_running_says_from_when_to_when() {
        let clock = Clock::begun();
        let (recorder, records) = Recorder::new(1_000);
        let thread = EndpointThread::start(&clock, &recorder).unwrap();
        let (from, holding) = (clock.now(), clock.clone());
        thread.runtime.spawn(async move { holding.block_until(from + 300_000_000) });
        clock.block_until(from + 350_000_000);
        drop(thread);
        let stall = |record| match record {
            Record::Stall(stall) if stall.thread == ENDPOINTS => Some(stall),
            _ => None,
        };
        let stalls = records.take().into_iter().filter_map(stall);
        let held = |stall: &hookproof_judge::trace::Stall| {
            stall.until >= from + 300_000_000 && stall.until - stall.from >= 250_000_000
        };
        assert!(stalls.into_iter().any(|stall| held(&stall)), "the stall is not in the trace");
    }
}
