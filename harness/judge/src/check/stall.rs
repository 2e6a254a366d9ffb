//! `harness.stall`: the thread that stamps arrivals did not stall. This module also weighs the other findings
//! against stalls.
//!
//! A request with a stamp in a stall, or within [`AFTER`] of it, may have come at any moment since the stall
//! began. So a failure that depends on times stands only if it holds for every such placement:
//!
//! - *Too many at once* (`rate.*`, `recovery.no-storm`). The judge moves each such arrival to the earliest
//!   moment that its contract allows, between the beginning of the stall and its stamp. An earlier arrival
//!   never makes a bucket fuller or breaks a window's cap, so if any placement conforms, this one does. The
//!   check judges again, and a failure then stands.
//! - *Later than `retry_after_late`*. The check judges again with the longest stall added.
//! - *Otherwise too late, or in another order*. The witness must lie outside of all stalls of a certain
//!   length: [`LONG`]; any length where order matters; near a deadline's length where an answer may have
//!   missed it; [`STALE`] for timestamps. If each kept witness touches such a stall, the finding says
//!   nothing.
//! - *A matter of the whole run* (`efficiency`), or of all of `drain`. The finding says nothing if stalls
//!   took a tenth of that time.

use super::epochs::{Epoch, TIMESTAMP_TOLERANCE};
use super::evidence::Evidence;
use super::rate::{Drain, Level};
use super::verdict::{Finding, Found, Witness, moment, show};
use super::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::SECOND;
use crate::trace::{ClockKind, Cut, ENDPOINTS, Trace};

/// For this long after a stall, arrivals of the stall may still wait for their stamp: until the beat after
/// the next.
const AFTER: u64 = 16_000_000;
/// Checks of lateness tolerate shorter stalls.
const LONG: u64 = 100_000_000;
/// The tolerance of timestamps, less the second of their rounding.
const STALE: u64 = (TIMESTAMP_TOLERANCE - 1) * SECOND;
/// The findings of one trace, weakened where the harness stalled.
pub(super) struct Stalls<'e> {
    evidence: &'e Evidence<'e>,
    /// The stalls of the thread that stamps arrivals; disjoint and sorted.
    stalls: Vec<(u64, u64)>,
    /// The trace with every arrival of a stall at its most harmless place; made on demand.
    placed: Option<Trace>,
    /// The checks that say nothing because of stalls.
    silenced: Vec<&'static str>,
}

impl<'e> Stalls<'e> {
    pub(super) fn of(evidence: &'e Evidence<'e>) -> Self {
        let own = evidence.trace.stalls.iter().filter(|stall| stall.thread == ENDPOINTS);
        let mut found: Vec<(u64, u64)> = own.map(|stall| (stall.from, stall.until)).collect();
        found.sort_unstable();
        let mut stalls: Vec<(u64, u64)> = Vec::new();
        for (from, until) in found {
            match stalls.last_mut().filter(|last| from <= last.1.saturating_add(AFTER)) {
                Some(last) => last.1 = last.1.max(until),
                None => stalls.push((from, until)),
            }
        }
        Self { evidence, stalls, placed: None, silenced: Vec::new() }
    }

    /// The finding, as far as it holds for every placement of the arrivals.
    pub(super) fn weigh(&mut self, check: &Check, finding: Finding) -> Finding {
        if check.id == CHECK.id {
            return self.named(finding);
        }
        if finding.found != Found::Broken || self.stalls.is_empty() {
            return finding;
        }
        let touched = match check.stall {
            Stall::Ignored => None,
            Stall::Crowds => self.conforms_elsewhere(check).then_some(self.longest()).flatten(),
            Stall::Delays => self.holds_with_patience(check).then_some(self.longest()).flatten(),
            Stall::Drains => self.long_beside(self.last_offer(), self.evidence.scenario.drain.0),
            Stall::Slows if finding.witness.is_empty() => self.long_beside(0, self.evidence.end),
            Stall::Slows | Stall::Touches => self.touched(&finding.witness, LONG),
            Stall::MissesDeadlines => self.touched(&finding.witness, self.near_a_deadline()),
            Stall::AgesTimestamps => self.touched(&finding.witness, STALE),
            Stall::Reorders => self.touched(&finding.witness, 0),
        };
        let Some((from, until)) = touched else { return finding };
        self.silenced.push(check.id);
        let (at, length) = (moment(from), show(until - from));
        let why = format!("the harness's own endpoints stalled for {length} at {at}, which may be the cause");
        Finding { found: Found::Unseen, sentence: format!("{}; but {why}", finding.sentence), ..finding }
    }

    fn named(&self, finding: Finding) -> Finding {
        if self.silenced.is_empty() {
            return finding;
        }
        let sentence = format!("{}; affected checks: {}", finding.sentence, self.silenced.join(", "));
        Finding { found: Found::Unseen, sentence, ..finding }
    }

    /// Whether the check holds once everything may be later by the longest stall. Early arrivals still break
    /// it.
    fn holds_with_patience(&self, check: &Check) -> bool {
        let mut scenario = self.evidence.scenario.clone();
        let longest = self.longest().map_or(0, |(from, until)| until - from);
        let late = &mut scenario.expect.retry_after_late.0;
        *late = late.saturating_add(longest);
        let evidence = Evidence::new(&scenario, self.evidence.trace);
        (check.find)(&evidence).found != Found::Broken
    }

    /// The least stall in which an answer may miss a sender's deadline: half of the shortest deadline.
    fn near_a_deadline(&self) -> u64 {
        let timeouts = self.evidence.scenario.subscribers.iter().map(|subscriber| subscriber.timeout.0);
        timeouts.min().unwrap_or(0) / 2
    }

    fn longest(&self) -> Option<(u64, u64)> {
        self.stalls.iter().copied().max_by_key(|(from, until)| until - from)
    }

    /// A stall of at least `least` that the witnesses touch, if each of them touches one.
    fn touched(&self, witness: &[Witness], least: u64) -> Option<(u64, u64)> {
        let long = || self.stalls.iter().copied().filter(|(from, until)| until - from >= least);
        let touches = |one: &Witness, (from, until): (u64, u64)| {
            from <= one.until && one.from <= until.saturating_add(AFTER)
        };
        let all = witness.iter().all(|one| long().any(|stall| touches(one, stall)));
        let first = || long().find(|stall| witness.first().is_none_or(|one| touches(one, *stall)));
        all.then(first).flatten()
    }

    fn last_offer(&self) -> u64 {
        self.evidence.trace.offers.iter().map(|offer| offer.t).max().unwrap_or(0)
    }

    /// The longest stall, if the stalls since `from` took a tenth of `time`: less does not change a finding
    /// about the whole span.
    fn long_beside(&self, from: u64, time: u64) -> Option<(u64, u64)> {
        let after = || self.stalls.iter().copied().filter(|(_, until)| *until >= from);
        let lost = after().map(|(began, until)| until - began.max(from)).fold(0, u64::saturating_add);
        (lost > 0 && lost >= time / 10).then(|| after().max_by_key(|(from, until)| until - from)).flatten()
    }

    /// Whether the check holds once every arrival is at its most harmless place.
    fn conforms_elsewhere(&mut self, check: &Check) -> bool {
        let placed = self.placed.get_or_insert_with(|| placed(self.evidence, &self.stalls));
        let evidence = Evidence::new(self.evidence.scenario, placed);
        (check.find)(&evidence).found != Found::Broken
    }
}

/// The trace with every request of a stall, whole or not, as early as its contract allows.
fn placed(evidence: &Evidence<'_>, stalls: &[(u64, u64)]) -> Trace {
    let mut trace = evidence.trace.clone();
    let earliest = |t: u64| {
        let at = stalls.partition_point(|(from, _)| *from <= t);
        let last = at.checked_sub(1).map(|last| stalls[last]);
        last.filter(|(_, until)| t <= until.saturating_add(AFTER)).map_or(t, |(from, _)| from)
    };
    // The places of the cuts of requests that were not read whole, in the order of their exchanges.
    let partial = |cut: &Cut| cut.n.is_none() && cut.began.is_some();
    let cuts: Vec<usize> = (0..trace.cuts.len()).filter(|at| partial(&trace.cuts[*at])).collect();
    for lane in &evidence.lanes {
        let mut times: Vec<u64> = Vec::with_capacity(lane.begun.len());
        let mut room = Room::of(&lane.epochs);
        for n in &lane.begun {
            let t = evidence.exchange(*n).t;
            let from = earliest(t).max(times.last().copied().unwrap_or(0));
            let place = room.next(&lane.epochs, &times, from, t);
            times.push(place);
            match (*n as usize).checked_sub(trace.arrivals.len()) {
                None => trace.arrivals[*n as usize].t = place,
                Some(at) => trace.cuts[cuts[at]].began = Some(place),
            }
        }
    }
    trace
}

/// The capacity that a contract has left, arrival by arrival.
struct Room {
    epoch: Option<usize>,
    level: Level,
    /// The units of a request in `level`.
    per: u128,
}

impl Room {
    fn of(epochs: &[Epoch]) -> Self {
        let rates = epochs.iter().filter_map(|epoch| Some((epoch.from, epoch.limit.bucket?.rate)));
        let drain = Drain::new(&rates.collect::<Vec<_>>());
        Self { epoch: None, per: drain.per, level: Level::new(drain) }
    }

    /// The first moment from `from` to `t` at which one more request conforms; `t` if there is none.
    fn next(&mut self, epochs: &[Epoch], times: &[u64], from: u64, t: u64) -> u64 {
        let at = epochs.iter().position(|epoch| epoch.from <= t && t <= epoch.until);
        let limit = at.map(|at| &epochs[at].limit);
        let burst = |at: Option<usize>| at.and_then(|at| epochs[at].limit.bucket).map(|bucket| bucket.burst);
        // A lower burst judges only the windows that begin after it.
        let before = burst(self.epoch);
        if at != self.epoch && (before.is_none() || burst(at) < before) {
            self.level.level = 0;
        }
        self.epoch = at;
        let mut place = from;
        for window in limit.iter().flat_map(|limit| &limit.windows) {
            let cap = usize::try_from(window.count).unwrap_or(usize::MAX);
            let before = times.len().checked_sub(cap).map(|first| times[first]);
            place = place.max(before.map_or(0, |first| first.saturating_add(window.length.0)));
        }
        let bucket = limit.and_then(|limit| limit.bucket);
        if let Some(bucket) = bucket {
            let room = u128::from(bucket.burst.saturating_sub(1)) * self.per;
            let units = (u128::from(bucket.rate.count) * self.per).div_ceil(u128::from(bucket.rate.per.0));
            let over = self.level.at(place).saturating_sub(room).div_ceil(units);
            place = place.saturating_add(u64::try_from(over).unwrap_or(u64::MAX));
        }
        let place = place.min(t);
        self.level.arrive(place);
        place
    }
}

pub(super) const CHECK: Check = Check {
    id: "harness.stall",
    severity: Severity::Info,
    source: "derived: a late timestamp blames the sender",
    requirement: "the thread that stamps arrivals did not stall; a failure beside a stall is \
        inconclusive, unless it holds for every possible time of the arrivals",
    why: "a machine that stops for half a second crowds arrivals together, and the sender would get the \
        blame",
    remedy: "run fewer other jobs on the machine, and run again",
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    if evidence.trace.header.clock == ClockKind::Virtual {
        return Finding::unasked("a simulation does not stall");
    }
    let own = || evidence.trace.stalls.iter().filter(|stall| stall.thread == ENDPOINTS);
    let length = |stall: &crate::trace::Stall| stall.until.saturating_sub(stall.from);
    let Some(longest) = own().max_by_key(|stall| length(stall)) else {
        return Finding::held("the thread that stamps arrivals never stalled");
    };
    let (count, most, at) = (own().count(), show(length(longest)), moment(longest.from));
    Finding::held(format!("stalls of the thread that stamps arrivals: {count}, the longest {most} (at {at})"))
        .with("stalls", count)
        .with("stalled in total", show(own().map(length).sum()))
}
