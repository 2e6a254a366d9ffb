//! `queue.truth`.
//!
//! A sample is true at some moment between `t`, its query, and the next sample's `t`, by which it had been answered.
//!
//! - *Delivered*: at most the 2xx answers by then, at least the answers up to [`NOTED`] before.
//! - *Waiting*: at most the offers by then less the deliveries up to [`NOTED`] before; at least the acknowledgements
//!   before, less dead letters, 2xx answers by then, and requests in flight.
//! - *Dead*: at most the listed dead letters that can have been given up by then (`dead_letters`). At the last sample,
//!   dead and waiting together are at least the listed ones.
//! - *Coalesced*: at most the offers by then to coalescing lanes that were neither delivered nor given up.
//! - *Bytes*: at most the size of that many deliveries. Each that certainly waits has at least a byte, or its data where a
//!   lane's bodies hold it whole.
//! - *Dead letters*, each in the list: it concerns an event that was offered for its subscriber; it is there once; the
//!   sender does not certainly know its delivery to be made; and its `attempts` are those that arrived. Attempts that
//!   the endpoint can't see, and those that a kill made the sender forget, may count or not.
//! - *Matched*, in the answer to an event: the number of subscribers that it concerns; one that is gone (410) may
//!   count.
//! - The check reports [`SILENCE`] without a sample, beyond the length of the faults in it.
//!
//! The driver may declare that figures are `stale`: then a sample is true at some moment since that long before it.
//!
//! The deliveries that a foreign sender had before the run are subtracted. The lower bounds do not apply where events
//! are coalesced, dead letters are redriven, an endpoint is gone, or a fault was near. If dead letters are not listed,
//! they count only deliveries that were made.

use std::collections::{BTreeMap, BTreeSet};

use super::dead_letters::dead_from;
use super::evidence::{Delivery, Evidence, Lane, Outcome};
use super::evidence::{ENVELOPE_BYTES, NOTED, surely_heard};
use super::fault_windows::Outages;
use super::verdict::{Finding, Found, Tally, Witness, moment, show};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::{Answer, SECOND};
use crate::trace::{Accepted, ClockKind, Depth, Lack, Payload, ProcessEvent};

/// Time in which a sender must answer a query for its queue.
const SILENCE: u64 = 5 * SECOND;

pub(super) const CHECK: Check = Check {
    id: "queue.truth",
    severity: Severity::Must,
    source: "derived: an operator acts on the sender's figures",
    requirement: "the sender's counts of waiting, delivered, dead, coalesced and matched agree with the \
        trace, for each subscriber, in every sample",
    why: "alerts, autoscaling and the end of an outage depend on these figures",
    remedy: "update the counts in the transaction that changes the deliveries, and answer from committed \
        data",
    needs: &[Lack::Depth],
    stall: Stall::Delays,
    picture: Picture::Backlog,
    find: truth,
    ..Check::PLAIN
};

pub(super) fn truth(evidence: &Evidence<'_>) -> Finding {
    let trace = evidence.trace;
    let reports = |one: &Depth| {
        [one.waiting, one.delivered, one.dead, one.coalesced, one.bytes].iter().any(Option::is_some)
    };
    let matches = trace.accepted.iter().any(|one| one.matched.is_some());
    if !trace.depths.iter().any(reports) && !matches && trace.dead.is_empty() {
        return Finding::unasked("the sender reports nothing about its queue");
    }
    let outages = Outages::of(evidence);
    let mut tally = Tally::default();
    matched(evidence, &mut tally);
    let mut series: BTreeMap<Option<&str>, Vec<&Depth>> = BTreeMap::new();
    let unnamed = listed(evidence, &mut tally);
    for depth in trace.depths.iter().filter(|depth| reports(depth)) {
        series.entry(depth.subscriber.as_deref()).or_default().push(depth);
    }
    let mut all = ObservedMoments::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let name = lane.subscriber.name.as_str();
        let mut seen = ObservedMoments::of(evidence, at);
        if let Some(samples) = series.get_mut(&Some(name)) {
            seen.sort();
            seen.compare(evidence, &outages, samples, &mut tally);
        }
        all.add(seen);
    }
    let finished = |tally: Tally| match unnamed {
        0 => finding(tally),
        unnamed => finding(tally).with("dead letters without an event, which cannot be compared", unnamed),
    };
    let Some(whole) = series.get_mut(&None) else {
        return finished(tally);
    };
    all.sort();
    all.compare(evidence, &outages, whole, &mut tally);
    let finding = finished(tally);
    match silence(evidence, &outages, whole).filter(|_| finding.found == Found::Held) {
        Some((from, until)) => Finding::unseen(format!(
            "the sender reported nothing about its queue for {}, from {} on",
            show(until - from),
            moment(from)
        )),
        None => finding,
    }
}

fn finding(tally: Tally) -> Finding {
    tally.finding("queue figures of the sender", "each agrees with the trace", "different from the trace")
}

fn silence(evidence: &Evidence<'_>, outages: &Outages, samples: &[&Depth]) -> Option<(u64, u64)> {
    if evidence.trace.header.clock == ClockKind::Virtual {
        return None;
    }
    let busy = evidence
        .trace
        .accepted
        .iter()
        .map(|one| one.t)
        .chain(evidence.exchanges.iter().map(|one| one.t))
        .max();
    let times = std::iter::once(0).chain(samples.iter().map(|depth| depth.t)).chain(busy);
    let times: Vec<u64> = times.collect();
    let gaps = times.windows(2).map(|pair| (pair[0], pair[1]));
    let unexplained = |(from, until): &(u64, u64)| {
        until.saturating_sub(*from).saturating_sub(outages.within(*from, *until))
    };
    gaps.filter(|gap| unexplained(gap) > SILENCE).max_by_key(unexplained)
}

fn matched(evidence: &Evidence<'_>, tally: &mut Tally) {
    let gone: BTreeMap<&str, u64> =
        evidence.lanes.iter().filter_map(|lane| Some((lane.subscriber.name.as_str(), lane.gone?))).collect();
    for Accepted { t, token, matched, .. } in &evidence.trace.accepted {
        let Some(matched) = matched.map(u64::from) else { continue };
        // An event that was offered twice may match no subscriber the second time.
        let Some(event) = evidence.event_of(*token).filter(|event| event.offers == 1) else { continue };
        let owed = &evidence.trace.offers[event.offer as usize].owed;
        let let_go = if gone.is_empty() {
            0
        } else {
            owed.iter().filter(|name| gone.get(name.as_str()).is_some_and(|at| at <= t)).count()
        };
        let (most, least) = (owed.len() as u64, (owed.len() - let_go) as u64);
        tally.see();
        if !(least..=most).contains(&matched) {
            let what = format!(
                "subscribers that event {token} matches, by the sender's count: {matched}; \
                by the scenario: {most}"
            );
            tally.broke(|| Witness { subscriber: None, from: *t, until: *t, what, arrivals: Vec::new() });
        }
    }
}

/// Returns the number of those that name no event.
fn listed(evidence: &Evidence<'_>, tally: &mut Tally) -> u64 {
    let mut unnamed = 0;
    let mut known: BTreeSet<(&str, u64)> = BTreeSet::new();
    let lanes: BTreeMap<&str, u32> =
        evidence.lanes.iter().map(|lane| lane.subscriber.name.as_str()).zip(0..).collect();
    let by_letter: BTreeMap<u32, &Delivery> =
        evidence.deliveries.iter().filter_map(|one| Some((one.dead?, one))).collect();
    for (at, letter) in (0_u32..).zip(&evidence.trace.dead) {
        let own = lanes.get(letter.subscriber.as_str()).map(|lane| evidence.deliveries_of(*lane));
        let delivery = own.and_then(|own| match letter.token {
            Some(token) => own.binary_search_by_key(&token, |one| one.token).ok().map(|place| &own[place]),
            None => by_letter.get(&at).copied(),
        });
        let delivery = delivery.filter(|delivery| delivery.owed);
        let Some(token) = letter.token.or(delivery.map(|one| one.token)) else {
            unnamed += 1;
            continue;
        };
        let is_again = !known.insert((&letter.subscriber, token));
        let what = match delivery {
            // Another sender may have kept those of an earlier run.
            None if evidence.trace.declared.lacks(Lack::Start) => continue,
            None => Some(", but no such event was offered for this subscriber".to_owned()),
            // A delivery can be a dead letter once if its event was offered once, and nothing was redriven.
            Some(delivery) if may_die_again(evidence, delivery) => None,
            Some(_) if is_again => Some(" and listed a second time".to_owned()),
            Some(delivery) => contradiction(evidence, delivery, letter.attempts),
        };
        tally.see();
        if let Some(what) = what {
            let (subscriber, t) = (Some(letter.subscriber.clone()), letter.t);
            let what = format!("event {token} is listed as a dead letter{what}");
            tally.broke(|| Witness { subscriber, from: t, until: t, what, arrivals: Vec::new() });
        }
    }
    unnamed
}

fn may_die_again(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    evidence.redrives(delivery).next().is_some()
        || evidence.event(delivery).is_none_or(|event| event.offers != 1)
}

fn contradiction(evidence: &Evidence<'_>, delivery: &Delivery, said: Option<u32>) -> Option<String> {
    let attempts = evidence.attempts(delivery);
    if let Some(n) = attempts.iter().find(|n| surely_heard(evidence, **n)) {
        return Some(format!(" and was delivered at {}", moment(evidence.exchange(*n).end)));
    }
    let lane = &evidence.lanes[delivery.lane as usize];
    let heard = attempts.iter().filter(|n| {
        let exchange = evidence.exchange(**n);
        let in_time = evidence.is_in_time(**n, exchange.end);
        // A subscriber that leaves gives up all that waits, also while an attempt is under way.
        let is_over = lane.gone.is_none_or(|gone| exchange.end < gone);
        exchange.status().is_some() && in_time && is_over && !evidence.may_be_forgotten(**n)
    });
    let is_seen = |answer: &Answer| {
        matches!(answer, Answer::Status(_) | Answer::Blackhole | Answer::Drip { .. } | Answer::Enforce { .. })
    };
    let sees_all = lane.begun.len() == lane.arrivals.len()
        && lane.subscriber.behaviours.iter().all(|one| is_seen(&one.answer));
    let (least, most) = (heard.count(), if sees_all { attempts.len() } else { usize::MAX });
    let said = usize::try_from(said?).unwrap_or(usize::MAX);
    (said < least || said > most)
        .then(|| format!("; attempts by the sender's count: {said}, arrived: {}", attempts.len()))
}

/// Sorted at the end.
#[derive(Default)]
struct ObservedMoments {
    offered: Vec<u64>,
    /// Beginnings of 2xx answers.
    yes: Vec<u64>,
    /// Deliveries that the sender certainly learnt of.
    delivered: Vec<u64>,
    /// Deliveries that certainly wait until their 2xx answer: acceptance, of those with an answer alone, and answer.
    taken: Vec<u64>,
    proven: Vec<u64>,
    answered: Vec<u64>,
    /// Their earliest moments.
    dead: Vec<u64>,
    /// Offers of deliveries that a newer event may replace.
    replaceable: Vec<u64>,
    begun: Vec<u64>,
    ended: Vec<u64>,
    /// Whether the lower bound of the backlog is unknown.
    is_vague: bool,
    is_redriven: bool,
    each_least: u64,
}

/// A byte unless each body that came held it whole.
fn least_bytes(evidence: &Evidence<'_>, lane: &Lane<'_>) -> u64 {
    let least = evidence.scenario.events.data_bytes.least.0;
    let mut came = lane.arrivals.iter().map(|n| &evidence.trace.arrivals[*n as usize]);
    let is_whole = came.all(|one| one.payload == Some(Payload::Intact) && one.bytes >= least);
    if is_whole && !lane.arrivals.is_empty() { least.max(1) } else { 1 }
}

/// Counts the deliveries that waited then, as their later arrivals prove.
pub(super) fn proven<'e>(evidence: &'e Evidence<'_>) -> Vec<(&'e Depth, u64)> {
    let outages = Outages::of(evidence);
    let mut series: BTreeMap<Option<&str>, Vec<&Depth>> = BTreeMap::new();
    for depth in &evidence.trace.depths {
        series.entry(depth.subscriber.as_deref()).or_default().push(depth);
    }
    let mut found = Vec::new();
    let mut compare = |seen: &ObservedMoments, name: Option<&'e str>| {
        let Some(samples) = series.get_mut(&name) else { return };
        samples.sort_by_key(|depth| depth.t);
        let waiting = |at| seen.surely_waiting(&outages, window(evidence, samples, at), &seen.proven);
        found.extend((0..samples.len()).map(|at| (samples[at], waiting(at))));
    };
    let mut all = ObservedMoments::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let mut seen = ObservedMoments::of(evidence, at);
        seen.sort();
        compare(&seen, Some(lane.subscriber.name.as_str()));
        all.add(seen);
    }
    all.sort();
    compare(&all, None);
    found
}

/// Queries before, at and after the sample.
fn window(evidence: &Evidence<'_>, samples: &[&Depth], at: usize) -> (u64, u64, u64) {
    let asked = samples[at].t.saturating_sub(evidence.trace.declared.stale);
    let earlier = at.checked_sub(1).map_or(0, |before| samples[before].t).min(asked);
    (earlier, asked, samples.get(at + 1).map_or(evidence.end, |next| next.t))
}

impl ObservedMoments {
    fn of(evidence: &Evidence<'_>, at: u32) -> Self {
        let lane = &evidence.lanes[at as usize];
        let listed = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.dead_listed);
        let coalesces = !lane.subscriber.handling.coalesce.is_empty();
        let is_redriven = lane.has_redrives(evidence);
        let mut seen = Self {
            is_vague: coalesces || lane.gone.is_some() || is_redriven,
            is_redriven,
            each_least: least_bytes(evidence, lane),
            ..Self::default()
        };
        for n in &lane.arrivals {
            let exchange = evidence.exchange(*n);
            // A request with several events is a delivery of each.
            for _ in 0..evidence.carried(*n) {
                seen.begun.push(exchange.t);
                seen.ended.push(exchange.end);
                if matches!(exchange.outcome, Outcome::Answered { status: 200..=299, .. }) {
                    seen.yes.push(exchange.begun);
                }
            }
        }
        seen.dead.extend(evidence.deliveries_of(at).iter().filter_map(|one| dead_from(evidence, one)));
        for delivery in evidence.deliveries_of(at).iter().filter(|delivery| delivery.owed) {
            let Some(event) = evidence.event(delivery) else { continue };
            let offer = evidence.trace.offers[event.offer as usize].t;
            seen.offered.extend((0..event.offers).map(|_| offer));
            if coalesces && delivery.dead.is_none() && !evidence.is_delivered(delivery) {
                seen.replaceable.extend((0..event.offers).map(|_| offer));
            }
            let exchanges = || evidence.attempts(delivery).iter().map(|n| evidence.exchange(*n));
            let known = evidence.attempts(delivery).iter().filter(|n| surely_heard(evidence, **n));
            seen.delivered.extend(known.map(|n| evidence.exchange(*n).end).min());
            let yes =
                exchanges().filter(|one| matches!(one.outcome, Outcome::Answered { status: 200..=299, .. }));
            if let Some(taken) = event.accepted.filter(|_| delivery.dead.is_none() && event.offers == 1) {
                let answered = yes.map(|one| one.begun).min();
                seen.proven.extend(answered.map(|_| taken));
                // One that was never answered may be an unlisted dead letter.
                seen.taken.extend((listed || answered.is_some()).then_some(taken));
                seen.answered.extend(answered);
            }
        }
        seen
    }

    fn add(&mut self, other: Self) {
        self.offered.extend(other.offered);
        self.yes.extend(other.yes);
        self.delivered.extend(other.delivered);
        // Lanes may share one stored body.
        self.each_least = if self.each_least == 0 { other.each_least } else { 1 };
        self.taken.extend(other.taken);
        self.proven.extend(other.proven);
        self.answered.extend(other.answered);
        self.dead.extend(other.dead);
        self.replaceable.extend(other.replaceable);
        self.begun.extend(other.begun);
        self.ended.extend(other.ended);
        self.is_vague |= other.is_vague;
        self.is_redriven |= other.is_redriven;
    }

    fn sort(&mut self) {
        let Self {
            offered, yes, delivered, taken, proven, answered, dead, replaceable, begun, ended, ..
        } = self;
        for times in [offered, yes, delivered, taken, proven, answered, dead, replaceable, begun, ended] {
            times.sort_unstable();
        }
    }
}

fn until(times: &[u64], t: u64) -> u64 {
    times.partition_point(|at| *at <= t) as u64
}

struct Bounds {
    delivered: (u64, u64),
    waiting: (u64, u64),
    dead: (u64, u64),
    coalesced: (u64, u64),
}

impl ObservedMoments {
    fn compare(&self, evidence: &Evidence<'_>, outages: &Outages, samples: &mut [&Depth], tally: &mut Tally) {
        samples.sort_by_key(|depth| depth.t);
        let own = evidence.trace.header.clock == ClockKind::Virtual
            || evidence.trace.processes.iter().any(|one| one.event == ProcessEvent::Started);
        let before = |of: fn(&Depth) -> Option<u64>| {
            samples.first().filter(|_| !own).and_then(|first| of(first)).unwrap_or(0)
        };
        let (old_delivered, old_waiting) = (before(|one| one.delivered), before(|one| one.waiting));
        let (old_dead, old_coalesced) = (before(|one| one.dead), before(|one| one.coalesced));
        let lists = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.dead_listed)
            && evidence.trace.dead.iter().all(|dead| dead.token.is_some())
            && !self.is_redriven;
        let each =
            evidence.scenario.events.data_bytes.most.0.saturating_add(ENVELOPE_BYTES).saturating_mul(2);
        for (at, depth) in samples.iter().enumerate() {
            let (earlier, asked, answered) = window(evidence, samples, at);
            let noted = asked.saturating_sub(NOTED);
            let noted = noted.saturating_sub(evidence.forgiven.delay(noted, asked));
            let mut bounds = self.bounds(outages, (earlier, asked, answered), noted);
            if at + 1 == samples.len() && until(&self.offered, earlier) == self.offered.len() as u64 {
                bounds.dead.0 = (self.dead.len() as u64).saturating_sub(depth.waiting.unwrap_or(u64::MAX));
            }
            let mut said = |what: &str, said: u64, (least, most): (u64, u64), old: u64| {
                tally.see();
                let most = most.saturating_add(old);
                let fits = (least..=most).contains(&said);
                let seen = if least == most { least.to_string() } else { format!("{least} to {most}") };
                (!fits).then(|| format!("the sender reports {said} {what}; the trace shows {seen}"))
            };
            let bytes_max = bounds.waiting.1.saturating_add(old_waiting).saturating_mul(each);
            let bytes_min = bounds.waiting.0.saturating_mul(self.each_least);
            let bytes = (bytes_min, if own { bytes_max } else { u64::MAX });
            let wrong = [
                depth.delivered.and_then(|n| said("delivered", n, bounds.delivered, old_delivered)),
                depth.waiting.and_then(|n| said("waiting", n, bounds.waiting, old_waiting)),
                depth.dead.filter(|_| lists).and_then(|n| said("dead", n, bounds.dead, old_dead)),
                depth.coalesced.and_then(|n| said("coalesced", n, bounds.coalesced, old_coalesced)),
                depth.bytes.and_then(|n| said("bytes waiting", n, bytes, 0)),
            ];
            for what in wrong.into_iter().flatten() {
                let (subscriber, from, until) = (depth.subscriber.clone(), depth.t, answered);
                tally.broke(|| Witness { subscriber, from, until, what, arrivals: Vec::new() });
            }
        }
    }

    /// The sender had recorded by then each delivery that it learnt of by `noted`.
    fn bounds(&self, outages: &Outages, (earlier, asked, answered): (u64, u64, u64), noted: u64) -> Bounds {
        let noted = if outages.overlap(noted, answered) { 0 } else { until(&self.delivered, noted) };
        let offered = until(&self.offered, answered);
        let surely = self.surely_waiting(outages, (earlier, asked, answered), &self.taken);
        Bounds {
            delivered: (noted, until(&self.yes, answered)),
            waiting: (surely, offered.saturating_sub(noted)),
            dead: (0, until(&self.dead, answered)),
            coalesced: (0, until(&self.replaceable, answered)),
        }
    }

    fn surely_waiting(
        &self,
        outages: &Outages,
        (earlier, asked, answered): (u64, u64, u64),
        taken: &[u64],
    ) -> u64 {
        if self.is_vague || outages.overlap(earlier, answered) {
            return 0;
        }
        let open = until(&self.begun, answered).saturating_sub(until(&self.ended, asked.saturating_sub(1)));
        until(taken, earlier).saturating_sub(until(&self.answered, answered)).saturating_sub(open)
    }
}
