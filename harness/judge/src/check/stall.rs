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
use super::rate::window::capped;
use super::rate::{Level, Stretch};
use super::starvation::Starvation;
use super::verdict::{Finding, Found, Witness, moment, show};
use super::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::Window;
use crate::trace::{ClockKind, Cut, ENDPOINTS, Trace};

/// For this long after a stall, arrivals of the stall may still wait for their stamp: until the beat after
/// the next.
const AFTER: u64 = 16_000_000;

pub(super) struct Stalls<'e> {
    evidence: &'e Evidence<'e>,
    /// Stalls of the thread that stamps arrivals; disjoint and sorted.
    stalls: Vec<(u64, u64)>,
    starvation: Starvation,
    placed: Option<Trace>,
    forgiving: Option<Evidence<'e>>,
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

    /// The longest in the witnesses; without any, in the run.
    fn by_machine(&self, witness: &[Witness]) -> String {
        let delays = witness.iter().map(|one| self.starvation.delay(one.from, one.until));
        by_stalls(delays.max().filter(|delay| *delay > 0).unwrap_or(self.starvation.total()))
    }

    fn longest(&self) -> Option<(u64, u64)> {
        self.stalls.iter().copied().max_by_key(|(from, until)| until - from)
    }

    /// None unless each witness touches one.
    fn touched(&self, witness: &[Witness]) -> Option<(u64, u64)> {
        let touches = |one: &Witness, (from, until): (u64, u64)| {
            from <= one.until && one.from <= until.saturating_add(AFTER)
        };
        let stalls = || self.stalls.iter().copied();
        let all = witness.iter().all(|one| stalls().any(|stall| touches(one, stall)));
        let first = || stalls().find(|stall| witness.first().is_none_or(|one| touches(one, *stall)));
        all.then(first).flatten()
    }

    /// None for less than a tenth of `drain`, which does not change the finding.
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
    // No request comes before its event was offered.
    let mut offered = vec![0; evidence.exchanges.len()];
    for delivery in &evidence.deliveries {
        let Some(event) = evidence.event(delivery) else { continue };
        let t = evidence.trace.offers[event.offer as usize].t;
        evidence.attempts(delivery).iter().for_each(|n| offered[*n as usize] = t);
    }
    for lane in &evidence.lanes {
        let mut room = Room::of(&lane.epochs);
        for n in &lane.begun {
            let t = evidence.exchange(*n).t;
            let place = room.next(earliest(t).max(offered[*n as usize]), t);
            match (*n as usize).checked_sub(trace.arrivals.len()) {
                None => trace.arrivals[*n as usize].t = place,
                Some(at) => trace.cuts[cuts[at]].began = Some(place),
            }
        }
    }
    trace
}

struct Room<'e> {
    epochs: &'e [Epoch],
    buckets: Vec<(Stretch, Level)>,
    caps: Vec<((u64, u64), Window)>,
    times: Vec<u64>,
}

impl<'e> Room<'e> {
    fn of(epochs: &'e [Epoch]) -> Self {
        let stretches = Stretch::all(epochs).into_iter();
        let buckets = stretches.map(|stretch| (stretch.clone(), Level::new(stretch.drain))).collect();
        Self { epochs, buckets, caps: capped(epochs), times: Vec::new() }
    }

    /// `t` if there is none.
    fn next(&mut self, from: u64, t: u64) -> u64 {
        let mut place = from.max(self.times.last().copied().unwrap_or(0));
        while place < t {
            let free = self.is_free_from(place);
            if free == place {
                break;
            }
            // Other contracts may hold in the next epoch.
            let at = self.epochs.partition_point(|epoch| epoch.until < place);
            let turn = self.epochs.get(at).map_or(u64::MAX, |epoch| epoch.until.saturating_add(1));
            place = free.min(turn);
        }
        let place = place.min(t);
        self.times.push(place);
        for (stretch, level) in &mut self.buckets {
            if (stretch.from..=stretch.until).contains(&place) {
                level.arrive(place);
                // One excess is no reason for another.
                level.level = level.level.min(u128::from(stretch.burst) * stretch.drain.per);
            }
        }
        place
    }

    /// `place`, or when the contracts in force at `place` have room again.
    fn is_free_from(&self, place: u64) -> u64 {
        let buckets =
            self.buckets.iter().filter(|(stretch, _)| (stretch.from..=stretch.until).contains(&place));
        let drained = buckets.map(|(stretch, level)| {
            let room = u128::from(stretch.burst.saturating_sub(1)) * stretch.drain.per;
            let over = level.at(place).saturating_sub(room).div_ceil(stretch.drain.units(place));
            place.saturating_add(u64::try_from(over).unwrap_or(u64::MAX))
        });
        let caps = self.caps.iter().filter(|((from, until), _)| (*from..=*until).contains(&place));
        let passed = caps.filter_map(|((from, _), window)| {
            let first = self.times.len().checked_sub(usize::try_from(window.count).ok()?)?;
            let first = self.times.get(first).filter(|first| *first >= from)?;
            Some(first.saturating_add(window.length.0))
        });
        drained.chain(passed).max().unwrap_or(place).max(place)
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
