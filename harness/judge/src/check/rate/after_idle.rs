//! `rate.after-idle`: a rest is at least `burst ÷ rate` without arrivals, so the level starts at 0. The level alone
//! judges the requests until the next rest.

use super::Level;
use super::envelope::limited;
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::Shape;

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.after-idle",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "after a long pause no more than the burst arrives at once",
    why: "a bucket that fills all night releases the morning's whole backlog in one second",
    remedy: "cap the bucket at its burst when it refills",
    stall: Stall::Crowds,
    stands_alone: true,
    picture: Picture::Level,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !evidence.scenario.traffic.iter().any(|phase| phase.shape == Shape::Pause) {
        return Finding::unasked("the traffic has no pause");
    }
    let mut tally = Tally::default();
    let mut longest = 0;
    for (at, lane, stretch) in limited(evidence) {
        let (arrivals, times) = super::envelope::arrivals(evidence, lane, (stretch.from, stretch.until));
        let filled = u128::from(stretch.burst) * stretch.drain.per;
        let mut level = Level::new(stretch.drain.clone());
        let mut from = None;
        let mut told = false;
        for (to, t) in times.iter().enumerate() {
            if to > 0 && stretch.drain.between(times[to - 1], *t) >= filled {
                tally.see();
                longest = longest.max(t - times[to - 1]);
                (from, told) = (Some(to), false);
            }
            level.arrive(*t);
            let Some(from) = from.filter(|_| !told && !stretch.fits(level.level)) else { continue };
            told = true;
            let what = format!(
                "{} arrivals in {} after a pause of {} need a burst of {}; the contract allows {}",
                to - from + 1,
                show(t - times[from]),
                show(times[from] - times[from - 1]),
                stretch.needs(level.level),
                stretch.burst
            );
            tally.broke(|| evidence.witness(at, &arrivals[from..=to], what));
        }
    }
    tally
        .finding(
            "pauses",
            "the arrivals after each stayed within the burst",
            "the arrivals after it exceeded the burst",
        )
        .with("longest pause", show(longest))
}
