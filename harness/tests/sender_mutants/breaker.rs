use hookproof_judge::scenario::Duration;
use serde_json::Value;

use crate::sender_mutants::lane::Next;
use crate::sender_mutants::sender::Bug;

/// Senders without a breaker: a wrong one, and correct ones that declare it.
const NEVER: [&str; 3] = ["never-opens-its-breaker", "has-no-breaker", "gives-up-without-a-word"];

pub(crate) struct Breaker {
    failures_max: u64,
    first: u64,
    longest: u64,
    failures: u64,
    cooldown: u64,
    until: u64,
    probe: Option<u64>,
}

impl Breaker {
    pub(crate) fn new(settings: &Value) -> Self {
        let length = |key: &str| {
            settings[key].as_str().and_then(|text| text.parse::<Duration>().ok()).map_or(0, |length| length.0)
        };
        Self {
            failures_max: settings["failures"].as_u64().unwrap_or(u64::MAX),
            first: length("cooldown"),
            longest: length("cooldown_max"),
            failures: 0,
            cooldown: 0,
            until: 0,
            probe: None,
        }
    }

    fn is_open(&self) -> bool {
        self.failures >= self.failures_max
    }

    pub(crate) fn wait(&self, now: u64) -> Option<Next> {
        match self.probe {
            _ if !self.is_open() => None,
            Some(_) => Some(Next::Wait),
            None if now < self.until => Some(Next::Until(self.until)),
            None => None,
        }
    }

    pub(crate) fn start(&mut self, n: u64, bug: &Bug) {
        if self.is_open() && !bug.is("probes-with-all-it-has") {
            self.probe = Some(n);
        }
    }

    /// An attempt with a `Retry-After` neither failed nor succeeded.
    pub(crate) fn ended(&mut self, n: u64, now: u64, (is_well, is_told): (bool, bool), bug: &Bug) {
        let probed = self.probe == Some(n);
        if is_well || (probed && is_told) {
            (self.failures, self.cooldown, self.probe) = (0, 0, None);
        } else if probed {
            self.probe = None;
            let longer = if bug.is("does-not-lengthen-its-cooldown") { 1 } else { 2 };
            self.open(now, (self.cooldown * longer).min(self.longest));
        } else if !self.is_open() && !is_told && !NEVER.contains(&bug.0.as_str()) {
            self.failures += 1;
            if self.is_open() {
                self.open(now, self.first);
            }
        }
    }

    fn open(&mut self, now: u64, cooldown: u64) {
        (self.cooldown, self.until) = (cooldown, now + cooldown);
    }
}
