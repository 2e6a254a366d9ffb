//! Stalls: a thread that runs later than it wanted to.
//!
//! [`Beats`] finds them in a thread that beats at an interval. [`Sleeper`] is a thread that does nothing else, so its
//! stalls are the machine's, whatever the harness does meanwhile.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hookproof_judge::trace::{OTHERS, SLEEPER, Stall};

use crate::clock::Clock;
use crate::driver::Processors;

/// Stalls that are recorded one by one; all later ones become one record.
const STALLS_MAX: usize = 10_000;

pub(crate) struct Beats {
    thread: &'static str,
    /// A stall is longer.
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
    /// `stalled` is called on the thread.
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

/// Looks for times in which other programs used processors that the run needed.
#[derive(Default)]
pub(crate) struct Others(Option<(u64, Processors, u64)>);

impl Others {
    /// `sender`: the sender's processor time so far; the run's processors serve the sender and the harness.
    pub(crate) fn at(&mut self, now: u64, seen: Option<Processors>, sender: Option<u64>) -> Option<Stall> {
        let last = std::mem::replace(&mut self.0, seen.zip(sender).map(|(seen, sender)| (now, seen, sender)));
        let ((from, before, sender_before), (_, after, sender)) = last.zip(self.0)?;
        let run = sender.checked_sub(sender_before)? + after.harness.checked_sub(before.harness)?;
        let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
        let others = after.programs.saturating_sub(before.programs).saturating_sub(run);
        let idle = after.idle.saturating_sub(before.idle);
        if idle.saturating_mul(20) > all || others.saturating_mul(10) < all {
            return None;
        }
        let lost = u128::from(now - from) * u128::from(others.min(all)) / u128::from(all);
        let until = from + u64::try_from(lost).unwrap_or_default();
        Some(Stall { thread: OTHERS.to_owned(), from, until })
    }
}

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
    fn others_count_for_their_share_where_no_processor_is_idle() {
        let ms = |ms: u64| ms * 1_000_000;
        let seen = |all: u64, idle, programs, harness| {
            let [all, idle, programs, harness] = [all, idle, programs, harness].map(ms);
            Some(Processors { all, idle, programs, harness })
        };
        // Two processors, 200 ms.
        let share = |idle: u64, programs: u64, harness: u64, sender: u64| {
            let mut others = Others::default();
            assert_eq!(others.at(ms(1_000), seen(9_000, 0, 5_000, 100), Some(ms(50))), None);
            let now = seen(9_400, idle, 5_000 + programs, 100 + harness);
            others.at(ms(1_200), now, Some(ms(50 + sender))).map(|stall| (stall.from, stall.until))
        };
        assert_eq!(share(0, 400, 20, 80), Some((ms(1_000), ms(1_150))));
        assert_eq!(share(20, 380, 20, 80), Some((ms(1_000), ms(1_140))));
        // An idle processor was there for the run; the run itself used the rest.
        assert_eq!(share(21, 379, 20, 80), None);
        assert_eq!(share(0, 400, 100, 261), None);
        // Interrupts are nobody's.
        assert_eq!(share(0, 130, 20, 80), None);
        let mut others = Others::default();
        for sender in [Some(ms(50)), None, Some(ms(50)), Some(ms(10))] {
            assert_eq!(others.at(ms(1_000), seen(9_000, 0, 5_000, 100), sender), None);
        }
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
