//! `harness.stall`, and the other findings weighed against stalls.
//!
//! A request with a stamp in a stall, or within [`AFTER`] of it, may have come at any moment since the stall began. So
//! a failure that depends on times stands only if it holds for every such placement:
//!
//! - *Too many at once* (`rate.*` except `rate.in-flight`, `recovery.no-storm`). The judge moves each such arrival to
//!   the earliest moment that its contract allows, between the beginning of the stall and its stamp. The check judges
//!   again, and a failure then stands.
//! - *Too late*, or stamped too late. The check judges again, without the machine's part ([`super::starvation`]).
//! - *In another order*. The witness must lie outside of all stalls. If each kept witness touches one, the finding says
//!   nothing.
//! - *A matter of all of `drain`*. The finding is void if stalls took a tenth of it.

use super::epochs::Epoch;
use super::evidence::Evidence;
use super::rate::{Drain, Level};
use super::starvation::Starvation;
use super::verdict::{Finding, Found, Witness, moment, show};
use super::{Check, Stall};
use crate::entry::Severity;
use crate::trace::{ClockKind, Cut, ENDPOINTS, Trace};

/// For this long after a stall, arrivals of the stall may still wait for their stamp: until the beat after
/// the next.
const AFTER: u64 = 16_000_000;

/// The findings of one trace, weakened where the harness stalled.
pub(super) struct Stalls<'e> {
    evidence: &'e Evidence<'e>,
    /// The stalls of the thread that stamps arrivals; disjoint and sorted.
    stalls: Vec<(u64, u64)>,
    /// Those of all threads.
    starvation: Starvation,
    /// The trace with every arrival of a stall at its most harmless place; made on demand.
    placed: Option<Trace>,
    /// The evidence with each lateness less the machine's part; made on demand.
    forgiving: Option<Evidence<'e>>,
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
        let starvation = Starvation::of(&evidence.trace.stalls);
        Self { evidence, stalls, starvation, placed: None, forgiving: None, silenced: Vec::new() }
    }

    /// The finding, as far as it holds for every placement of the arrivals, and without the machine.
    pub(super) fn weigh(&mut self, check: &Check, finding: Finding) -> Finding {
        if check.id == CHECK.id {
            return self.named(finding);
        }
        if finding.found != Found::Broken || self.starvation.total() == 0 {
            return finding;
        }
        let why = match check.stall {
            Stall::Ignored => None,
            Stall::Crowds => {
                self.conforms_elsewhere(check).then(|| self.longest()).flatten().map(by_endpoints)
            }
            Stall::Reorders => self.touched(&finding.witness).map(by_endpoints),
            Stall::Delays => self.holds_with_patience(check).then(|| self.by_machine(&finding.witness)),
            Stall::Drains => self.lost_the_drain().map(by_stalls),
        };
        let Some(why) = why else { return finding };
        self.silenced.push(check.id);
        Finding { found: Found::Unseen, sentence: format!("{}; but {why}", finding.sentence), ..finding }
    }

    fn named(&self, finding: Finding) -> Finding {
        if self.silenced.is_empty() {
            return finding;
        }
        let sentence = format!("{}; affected checks: {}", finding.sentence, self.silenced.join(", "));
        Finding { found: Found::Unseen, sentence, ..finding }
    }

    fn holds_with_patience(&mut self, check: &Check) -> bool {
        let Evidence { scenario, trace, .. } = *self.evidence;
        let forgiving = self.forgiving.get_or_insert_with(|| Evidence::forgiving(scenario, trace));
        (check.find)(forgiving).found != Found::Broken
    }

    /// The longest of the machine's parts in the witnesses; without any, in the run.
    fn by_machine(&self, witness: &[Witness]) -> String {
        let delays = witness.iter().map(|one| self.starvation.delay(one.from, one.until));
        by_stalls(delays.max().filter(|delay| *delay > 0).unwrap_or(self.starvation.total()))
    }

    fn longest(&self) -> Option<(u64, u64)> {
        self.stalls.iter().copied().max_by_key(|(from, until)| until - from)
    }

    /// A stall that the witnesses touch, if each of them touches one.
    fn touched(&self, witness: &[Witness]) -> Option<(u64, u64)> {
        let touches = |one: &Witness, (from, until): (u64, u64)| {
            from <= one.until && one.from <= until.saturating_add(AFTER)
        };
        let stalls = || self.stalls.iter().copied();
        let all = witness.iter().all(|one| stalls().any(|stall| touches(one, stall)));
        let first = || stalls().find(|stall| witness.first().is_none_or(|one| touches(one, *stall)));
        all.then(first).flatten()
    }

    /// The length of the stalls after the last event, if they took a tenth of `drain`: less does not change the finding.
    fn lost_the_drain(&self) -> Option<u64> {
        let offers = self.evidence.trace.offers.iter().map(|offer| offer.t);
        let lost = self.starvation.delay(offers.max().unwrap_or(0), self.evidence.end);
        (lost > 0 && lost >= self.evidence.scenario.drain.0 / 10).then_some(lost)
    }

    fn conforms_elsewhere(&mut self, check: &Check) -> bool {
        if self.stalls.is_empty() {
            return false;
        }
        let placed = self.placed.get_or_insert_with(|| placed(self.evidence, &self.stalls));
        let evidence = Evidence::new(self.evidence.scenario, placed);
        (check.find)(&evidence).found != Found::Broken
    }
}

fn by_endpoints((from, until): (u64, u64)) -> String {
    let (length, at) = (show(until - from), moment(from));
    format!("the harness's own endpoints stalled for {length} at {at}, which may be the cause")
}

fn by_stalls(length: u64) -> String {
    format!("the machine stalled for {} meanwhile or shortly before, which may be the cause", show(length))
}

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
    source: "derived: a late timestamp or a busy machine blames the sender",
    requirement: "neither the thread that stamps arrivals nor the machine stalled; a failure beside a stall is \
        inconclusive, unless it holds for every possible time of the arrivals, and without the lateness that the \
        machine may have caused",
    why: "a machine that stops for half a second crowds arrivals together and delays them, and the sender would get \
        the blame",
    remedy: "run fewer other jobs on the machine; if the sender itself keeps it busy, mend that; and run again",
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    if evidence.trace.header.clock == ClockKind::Virtual {
        return Finding::unasked("a simulation does not stall");
    }
    let starvation = Starvation::of(&evidence.trace.stalls);
    let Some((from, until)) = starvation.spans().max_by_key(|(from, until)| until - from) else {
        return Finding::held("neither the thread that stamps arrivals nor the machine stalled");
    };
    let own = evidence.trace.stalls.iter().filter(|stall| stall.thread == ENDPOINTS).count();
    let count = starvation.spans().count();
    let (longest, at) = (show(until - from), moment(from));
    Finding::held(format!("stalls of the harness or its machine: {count}, the longest {longest} (at {at})"))
        .with("stalls of the thread that stamps arrivals", own)
        .with("stalled in total", show(starvation.total()))
}
