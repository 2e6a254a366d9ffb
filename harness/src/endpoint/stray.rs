//! Requests and handshakes that matched no endpoint. The first are recorded one by one, the rest counted.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use hookproof_judge::trace::{Record, Recorder, Stray, StrayKind};

/// The most single records of a kind.
const STRAYS_MAX: u64 = 1_000;
/// The longest quotation.
const SAID_MAX: usize = 300;

#[derive(Debug)]
pub(super) struct Strays {
    clock: Clock,
    recorder: Recorder,
    requests: AtomicU64,
    handshakes: AtomicU64,
}

impl Strays {
    pub(super) fn new(clock: Clock, recorder: Recorder) -> Self {
        Self { clock, recorder, requests: AtomicU64::new(0), handshakes: AtomicU64::new(0) }
    }

    /// Records or counts one; `token` is the harness's, if it had one.
    pub(super) fn note(&self, kind: StrayKind, token: Option<u64>, said: &str) {
        if self.count(kind).fetch_add(1, Ordering::Relaxed) < STRAYS_MAX {
            let said: String = said.chars().take(SAID_MAX).collect();
            self.keep(Stray { t: self.clock.now(), kind, token, said, count: 1 });
        }
    }

    /// Records the counted rest. Called once, after all connections have ended.
    pub(super) fn end(&self) {
        for kind in [StrayKind::Request, StrayKind::Handshake] {
            let count = self.count(kind).load(Ordering::Relaxed).saturating_sub(STRAYS_MAX);
            if count > 0 {
                let said = "not recorded one by one".to_owned();
                self.keep(Stray { t: self.clock.now(), kind, token: None, said, count });
            }
        }
    }

    const fn count(&self, kind: StrayKind) -> &AtomicU64 {
        match kind {
            StrayKind::Request => &self.requests,
            StrayKind::Handshake => &self.handshakes,
        }
    }

    fn keep(&self, stray: Stray) {
        self.recorder.keep(Record::Stray(stray));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_without_end_is_counted_to_its_end() {
        let (recorder, records) = Recorder::new(10_000);
        let strays = Strays::new(Clock::begun(), recorder);
        for _ in 0..STRAYS_MAX + 7 {
            strays.note(StrayKind::Handshake, None, &"x".repeat(SAID_MAX + 1));
        }
        strays.note(StrayKind::Request, Some(3), "POST /");
        strays.end();
        let stray = |record| if let Record::Stray(stray) = record { Some(stray) } else { None };
        let kept: Vec<Stray> = records.take().into_iter().filter_map(stray).collect();
        assert_eq!(kept.iter().map(|stray| stray.count).sum::<u64>(), STRAYS_MAX + 8);
        assert_eq!(kept.len(), usize::try_from(STRAYS_MAX).unwrap() + 2);
        assert!(kept.iter().all(|stray| stray.said.len() <= SAID_MAX));
    }
}
