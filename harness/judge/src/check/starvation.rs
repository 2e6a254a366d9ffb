//! Lateness that the machine may have caused.
//!
//! Threads of the harness that wake late show that the machine kept programs from running: the thread that stamps
//! arrivals, the generator, and one that only sleeps ([`crate::trace::SLEEPER`]). A sleeper is woken before programs that
//! work, so the share of other programs counts too ([`crate::trace::OTHERS`]). A stall holds back everything that
//! was due in it. Its work then waits for the sender to catch up: a sender that uses four fifths of the machine needs
//! four times the stall. So a backlog grows by each stall, and falls by a quarter of the time between stalls. Something
//! that was due at one moment and came at another may owe the machine the backlog of the first and the stalls since,
//! and no more.
//!
//! The checks measure every lateness by `Evidence::late` and its siblings. A check that breaks judges again with
//! forgiveness (`stall`), and a failure that then vanishes is inconclusive.

use crate::trace::Stall;

/// A stall is worked off in this many times its length.
const CATCHING_UP: u64 = 4;

#[derive(Debug, Default)]
pub struct Starvation {
    /// Disjoint and sorted.
    stalls: Vec<Stalled>,
}

#[derive(Debug)]
struct Stalled {
    from: u64,
    until: u64,
    /// The length of all stalls up to its end.
    total: u64,
    /// The backlog at its end.
    behind: u64,
}

impl Stalled {
    fn extend(&mut self, until: u64) {
        let more = until.saturating_sub(self.until);
        self.until += more;
        self.total += more;
        self.behind += more;
    }

    const fn behind_at(&self, later: u64) -> u64 {
        self.behind.saturating_sub(later.saturating_sub(self.until) / CATCHING_UP)
    }
}

impl Starvation {
    #[must_use]
    pub fn of(stalls: &[Stall]) -> Self {
        let mut spans: Vec<(u64, u64)> = stalls.iter().map(|stall| (stall.from, stall.until)).collect();
        spans.sort_unstable();
        let mut stalls: Vec<Stalled> = Vec::new();
        for (from, until) in spans {
            match stalls.last_mut() {
                Some(last) if from <= last.until => last.extend(until),
                last => {
                    let (total, behind) = last.map_or((0, 0), |last| (last.total, last.behind_at(from)));
                    let mut next = Stalled { from, until: from, total, behind };
                    next.extend(until);
                    stalls.push(next);
                }
            }
        }
        Self { stalls }
    }

    pub(super) fn total(&self) -> u64 {
        self.stalls.last().map_or(0, |last| last.total)
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        self.stalls.iter().map(|one| (one.from, one.until))
    }

    fn last(&self, t: u64) -> Option<&Stalled> {
        self.stalls.partition_point(|one| one.from <= t).checked_sub(1).map(|at| &self.stalls[at])
    }

    fn total_by(&self, t: u64) -> u64 {
        self.last(t).map_or(0, |last| last.total - last.until.saturating_sub(t))
    }

    pub(super) fn behind(&self, t: u64) -> u64 {
        self.last(t).map_or(0, |last| last.behind_at(t) - last.until.saturating_sub(t))
    }

    pub(super) fn held_from(&self, t: u64) -> u64 {
        self.last(t).map_or(0, |last| last.behind_at(t))
    }

    #[must_use]
    pub fn delay(&self, due: u64, came: u64) -> u64 {
        self.behind(due) + self.total_by(came.max(due)) - self.total_by(due)
    }
}
