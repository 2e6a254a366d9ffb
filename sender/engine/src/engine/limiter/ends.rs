//! The ends of attempts, for as long as a window cap may count them.

use std::collections::VecDeque;

use super::Ready;
use crate::engine::contract::{WINDOW_LENGTH_MAX, WINDOW_LIMIT_MAX, Window};
use crate::engine::time::{Nanos, StoreTime};

const RUNS_RECORDED_MAX: usize = 1_024;

#[derive(Clone, Debug)]
pub(super) struct Ends {
    runs: VecDeque<Run>,
    total: u32,
    caps: Vec<Cap>,
    /// The longest window, or a recent longer one whose ends may still count.
    keep: Nanos,
    /// The moment from which the shorter memory is enough.
    shorten: Option<(StoreTime, Nanos)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    at: StoreTime,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Cap {
    window: Window,
    /// The first run inside the window.
    first: usize,
    /// Attempts in the runs from `first` on.
    held: u32,
}

impl Ends {
    /// Nothing without windows.
    pub(super) fn for_windows(windows: &[Window]) -> Option<Box<Self>> {
        let keep = windows.iter().map(|window| window.length()).max()?;
        let caps = windows.iter().map(|&window| Cap { window, first: 0, held: 0 }).collect();
        Some(Box::new(Self { runs: VecDeque::new(), total: 0, caps, keep, shorten: None }))
    }

    /// Restores [`Self::ages`] from `then`, and adds `others`. The next change of contract adds the windows.
    pub(super) fn restore(
        ages: &[(u64, u32)],
        then: StoreTime,
        others: impl Iterator<Item = (StoreTime, u32)>,
        keep: Nanos,
        now: StoreTime,
    ) -> Option<Box<Self>> {
        let keep = keep.min(WINDOW_LENGTH_MAX);
        if keep == Nanos::ZERO {
            return None;
        }
        let mut ends =
            Box::new(Self { runs: VecDeque::new(), total: 0, caps: Vec::new(), keep, shorten: None });
        let told = ages.iter().map(|&(age, count)| (then.sooner(Nanos(age)), count));
        let mut moments: Vec<_> = told.chain(others).filter(|(at, _)| now.since(*at) < keep).collect();
        moments.sort_unstable_by_key(|(at, _)| *at);
        moments.into_iter().for_each(|(at, count)| ends.push(at.min(now), count));
        Some(ends)
    }

    /// The ages of the ends, oldest first, and the length of the memory. Above [`RUNS_RECORDED_MAX`] moments,
    /// neighbours are joined at the later moment.
    pub(super) fn ages(&self, now: StoreTime) -> (Vec<(u64, u32)>, Nanos) {
        let runs: Vec<_> = self.runs.iter().map(|run| (now.since(run.at).0, run.count)).collect();
        let together = runs.len().div_ceil(RUNS_RECORDED_MAX).max(1);
        let joined = |runs: &[(u64, u32)]| {
            let age = runs.last().map_or(0, |&(age, _)| age);
            (age, runs.iter().map(|&(_, count)| count).sum())
        };
        (runs.chunks(together).map(joined).collect(), self.keep)
    }

    /// Moments must not run backwards.
    pub(super) fn push(&mut self, at: StoreTime, count: u32) {
        if count > 0 {
            self.push_run(Run { at, count });
        }
    }

    pub(super) fn advance(&mut self, now: StoreTime) {
        if let Some((when, keep)) = self.shorten
            && when <= now
        {
            self.keep = keep;
            self.shorten = None;
        }
        for cap in &mut self.caps {
            while let Some(run) = self.runs.get(cap.first)
                && run.at + cap.window.length() <= now
            {
                cap.held -= run.count;
                cap.first += 1;
            }
        }
        while let Some(run) = self.runs.front()
            && run.at + self.keep <= now
        {
            self.total -= run.count;
            self.runs.pop_front();
            for cap in &mut self.caps {
                cap.first -= 1;
            }
        }
        if self.runs.is_empty() && self.runs.capacity() > 0 {
            self.runs = VecDeque::new();
        }
    }

    /// True if no window counts the ends, now or because of an earlier contract.
    pub(super) fn is_needless(&self) -> bool {
        self.caps.is_empty() && self.keep == Nanos::ZERO
    }

    /// When every cap has a permit for the `next`th attempt in flight.
    pub(super) fn ready(&self, next: u32) -> Ready {
        let caps = self.caps.iter().map(|cap| self.cap_ready(cap, next));
        caps.fold(Ready::Now, Ready::and)
    }

    /// The permits left beside the `taken` attempts in flight.
    pub(super) fn room(&self, taken: u32) -> u32 {
        let left = |cap: &Cap| cap.window.limit().saturating_sub(cap.held).saturating_sub(taken);
        self.caps.iter().map(left).min().unwrap_or(u32::MAX)
    }

    /// Replaces the windows; each counts the remembered ends.
    pub(super) fn change(&mut self, windows: &[Window], now: StoreTime) {
        let longest = windows.iter().map(|window| window.length()).max().unwrap_or(Nanos::ZERO);
        if longest >= self.keep {
            (self.keep, self.shorten) = (longest, None);
        } else {
            self.shorten = Some((now + self.keep, longest));
        }
        self.caps = windows.iter().map(|&window| Cap { window, first: 0, held: self.total }).collect();
        self.advance(now);
    }

    fn push_run(&mut self, run: Run) {
        let latest = self.runs.back().map_or(StoreTime::START, |last| last.at);
        let run = Run { at: run.at.max(latest), count: run.count.min(WINDOW_LIMIT_MAX) };
        self.forget(run.count);
        self.total += run.count;
        for cap in &mut self.caps {
            cap.held += run.count;
        }
        match self.runs.back_mut() {
            Some(last) if last.at == run.at => last.count += run.count,
            _ => self.runs.push_back(run),
        }
    }

    /// Makes room for `count` more. No cap is higher than [`WINDOW_LIMIT_MAX`], so this does not change when enough
    /// permits are free again.
    fn forget(&mut self, count: u32) {
        let mut excess = (self.total + count).saturating_sub(WINDOW_LIMIT_MAX);
        self.total -= excess;
        while excess > 0
            && let Some(front) = self.runs.front_mut()
        {
            let taken = front.count.min(excess);
            front.count -= taken;
            excess -= taken;
            let emptied = front.count == 0;
            for cap in &mut self.caps {
                if cap.first == 0 {
                    cap.held -= taken;
                } else if emptied {
                    cap.first -= 1;
                }
            }
            if emptied {
                self.runs.pop_front();
            }
        }
    }

    fn cap_ready(&self, cap: &Cap, next: u32) -> Ready {
        let Some(spare) = cap.window.limit().checked_sub(next) else { return Ready::OnEvent };
        let mut excess = cap.held.saturating_sub(spare);
        if excess == 0 {
            return Ready::Now;
        }
        for run in self.runs.iter().skip(cap.first) {
            if run.count >= excess {
                return Ready::At(run.at + cap.window.length());
            }
            excess -= run.count;
        }
        debug_assert!(false, "a cap holds more than its runs");
        Ready::OnEvent
    }
}
