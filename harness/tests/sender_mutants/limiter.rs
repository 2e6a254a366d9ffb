//! A subscriber's contract: a bucket charged when a request ends, windows, and a cap in flight.

use std::collections::VecDeque;

use hookproof_judge::scenario::{Rate, Window};
use serde_json::Value;

use crate::sender_mutants::lane::Next;
use crate::sender_mutants::sender::Bug;

const SECOND: f64 = 1e9;

pub(crate) struct Limiter {
    per_ns: f64,
    burst: f64,
    in_flight_max: usize,
    windows: Vec<Window>,
    level: f64,
    at: u64,
    open: usize,
    ends: VecDeque<u64>,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small figures of a test"
)]
impl Limiter {
    pub(crate) fn new(limit: &Value, now: u64) -> Self {
        let rate: Rate = limit["rate"].as_str().unwrap_or_default().parse().unwrap();
        let count = |key: &str| limit[key].as_u64().unwrap_or_default();
        let windows = limit["windows"].as_array().into_iter().flatten();
        Self {
            per_ns: rate.count as f64 / rate.per.0 as f64,
            burst: count("burst") as f64,
            in_flight_max: usize::try_from(count("in_flight")).unwrap(),
            windows: windows.map(|text| text.as_str().unwrap_or_default().parse().unwrap()).collect(),
            level: 0.0,
            at: now,
            open: 0,
            ends: VecDeque::new(),
        }
    }

    pub(crate) fn change(&mut self, limit: &Value, now: u64) {
        let (level, at, open, ends) = (self.level, self.at, self.open, self.ends.clone());
        *self = Self { level, at, open, ends, ..Self::new(limit, now) };
    }

    /// Returns the longest window.
    pub(crate) fn fill(&mut self, now: u64) -> u64 {
        (self.level, self.at) = (self.burst, now);
        self.windows.iter().map(|window| window.length.0).max().unwrap_or(0)
    }

    fn drain(&mut self, now: u64, bug: &Bug) {
        let share = if bug.is("uses-half-of-its-rate") { 0.5 } else { 1.0 };
        let drained = self.level - (now - self.at) as f64 * self.per_ns * share;
        self.level = if bug.is("does-not-clamp-its-bucket") { drained } else { drained.max(0.0) };
        self.at = now;
    }

    pub(crate) fn wait(&mut self, now: u64, bug: &Bug) -> Option<Next> {
        self.drain(now, bug);
        if self.open >= self.in_flight_max && !bug.is("has-no-cap-on-requests-in-flight") {
            return Some(Next::Wait);
        }
        let open = if bug.is("charges-on-send") { 0.0 } else { self.open as f64 };
        let over = self.level + open + 1.0 - self.burst;
        if over > 1e-9 {
            return Some(Next::Until(now + ((over / self.per_ns) as u64).max(100_000) + 1));
        }
        for window in &self.windows {
            let length = window.length.0;
            let begins = if bug.is("counts-by-the-calendar") {
                now - now % length
            } else {
                now.saturating_sub(length)
            };
            let inside = self.ends.iter().filter(|end| **end >= begins).count() + self.open;
            if inside as u64 >= window.count {
                let oldest = self.ends.iter().find(|end| **end >= begins).copied();
                let Some(oldest) = oldest else { return Some(Next::Wait) };
                let until = if bug.is("counts-by-the-calendar") { begins + length } else { oldest + length };
                return Some(Next::Until(until.max(now) + 100_000));
            }
        }
        None
    }

    pub(crate) fn start(&mut self, now: u64, bug: &Bug, free: bool) {
        self.drain(now, bug);
        self.open += 1;
        if bug.is("charges-on-send") {
            self.level += 1.0;
        }
        if free {
            // Makes up for the charge at its end.
            self.level -= 1.0;
        }
    }

    pub(crate) fn end(&mut self, now: u64, bug: &Bug) {
        self.drain(now, bug);
        self.open -= 1;
        if !bug.is("charges-on-send") {
            self.level += 1.0;
        }
        self.ends.push_back(now);
        let longest = (SECOND * 10.0) as u64;
        while self.ends.front().is_some_and(|end| end + longest < now) {
            self.ends.pop_front();
        }
    }
}
