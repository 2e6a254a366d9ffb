//! Stalls: a thread that runs later than it wanted to.
//!
//! [`Beats`] finds them in a thread that beats at an interval. [`Sleeper`] is a thread that does nothing else, so its
//! stalls are the machine's, whatever the harness does meanwhile.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hookproof_judge::trace::{SLEEPER, Stall};

use crate::clock::Clock;

/// Stalls that are recorded one by one; all later ones become one record.
const STALLS_MAX: usize = 10_000;

/// The beats of one thread, and the stalls between them.
pub(crate) struct Beats {
    thread: &'static str,
    /// The least distance of two beats that is a stall.
    apart_ns: u64,
    last: u64,
    kept: usize,
    /// The beginning of the first stall without a record of its own.
    rest: Option<u64>,
}

impl Beats {
    pub(crate) const fn new(thread: &'static str, apart_ns: u64, now: u64) -> Self {
        Self { thread, apart_ns, last: now, kept: 0, rest: None }
    }

    /// Returns the stall before this beat, if there is one to record.
    pub(crate) fn at(&mut self, now: u64) -> Option<Stall> {
        let from = std::mem::replace(&mut self.last, now);
        if now.saturating_sub(from) < self.apart_ns {
            return None;
        }
        if self.kept == STALLS_MAX {
            self.rest.get_or_insert(from);
            return None;
        }
        self.kept += 1;
        Some(self.stall(from))
    }

    /// The stalls that have no record of their own, as one.
    pub(crate) fn rest(&self) -> Option<Stall> {
        self.rest.map(|from| self.stall(from))
    }

    fn stall(&self, from: u64) -> Stall {
        Stall { thread: self.thread.to_owned(), from, until: self.last }
    }
}

const NAP: Duration = Duration::from_nanos(NAP_NS);
const NAP_NS: u64 = 10_000_000;
/// A timer alone is late by 1 to 2 ms.
const OVERSLEPT_NS: u64 = 20_000_000;

/// The thread. Dropping this ends it.
pub(crate) struct Sleeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// `stalled` is called on the thread with each stall.
    pub(crate) fn start(clock: &Clock, stalled: impl Fn(Stall) + Send + 'static) -> io::Result<Self> {
        let clock = clock.clone();
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name(SLEEPER.to_owned()).spawn(move || {
            // A nap is no stall: it begins where the nap should have ended.
            let told = |stall: Stall| stalled(Stall { from: stall.from.saturating_add(NAP_NS), ..stall });
            let mut beats = Beats::new(SLEEPER, OVERSLEPT_NS, clock.now());
            while stopped.recv_timeout(NAP) == Err(RecvTimeoutError::Timeout) {
                beats.at(clock.now()).map(told);
            }
            // Stalls beyond the bound excuse nothing: one record of them all would excuse too much.
            beats.at(clock.now()).map(told);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported, and the thread is over.
            let _ = thread.join();
        }
    }
}

/// The machine's stalls from a moment on, for one judgement.
pub(crate) struct Machine {
    pub(crate) clock: Clock,
    stalls: Arc<Mutex<Vec<Stall>>>,
    sleeper: Sleeper,
}

impl Machine {
    pub(crate) fn start() -> io::Result<Self> {
        let (clock, stalls) = (Clock::begun(), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&stalls);
        let keep = move |stall| kept.lock().unwrap_or_else(PoisonError::into_inner).push(stall);
        let sleeper = Sleeper::start(&clock, keep)?;
        Ok(Self { clock, stalls, sleeper })
    }

    /// Ends the watch, so that a stall that lasts until now counts too.
    pub(crate) fn end(self) -> Vec<Stall> {
        drop(self.sleeper);
        std::mem::take(&mut *self.stalls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_that_are_far_apart_are_a_stall_and_no_others() {
        let mut beats = Beats::new("any", 12_000_000, 0);
        let stall = |from, until| Stall { thread: "any".to_owned(), from, until };
        assert_eq!(beats.at(5_000_000), None);
        assert_eq!(beats.at(10_000_000), None);
        assert_eq!(beats.at(410_000_000), Some(stall(10_000_000, 410_000_000)));
        beats.kept = STALLS_MAX;
        assert_eq!(beats.at(910_000_000), None);
        assert_eq!(beats.rest(), Some(stall(410_000_000, 910_000_000)));
    }

    #[test]
    fn a_sleeper_ends_with_its_owner() {
        let told = Arc::new(());
        let held = Arc::clone(&told);
        let sleeper = Sleeper::start(&Clock::begun(), move |_| drop(Arc::clone(&held))).unwrap();
        drop(sleeper);
        assert_eq!(Arc::strong_count(&told), 1);
    }
}
