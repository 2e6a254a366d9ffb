//! `rate.in-flight`: at no moment are more requests open at one endpoint than its cap.
//!
//! A request is open from its first byte to its answer's last. (That is noted in the moment before it is written: nobody can
//! have read the whole answer before, so that counting up to it never counts two that were not open together.) Of an answer
//! that is written in several pieces a sender may have read what it needs long before the last: there the first byte counts.
//! Where the *sender* ended the exchange, by its deadline or its death, the endpoint notices later: such a request counts
//! up to [`NOTICE`] before, and never beyond its deadline or a kill. One that may have been sent so long before it was read
//! that its deadline passed while a process was stopped does not count: nobody could close it, and whoever took over does
//! not wait. For the same reason one that was open when one of several processes was stopped counts up to that stop, if it
//! lasted for `takeover_within`, which is longer than the lease: the lane may have been taken over since. (A shorter stop may be
//! within the lease; one that the sender ended meanwhile was another process's, and so was one whose connection brought another
//! request meanwhile; and a process that goes on has to close what it left: these count as ever.)
//!
//! A sweep over beginnings and ends, O(n log n); at one moment ends come first. Where a run changes a cap, each
//! holds in its own time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::check::evidence::{Evidence, Exchange, Lane};
use crate::check::verdict::{Finding, Tally};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::trace::{Process, ProcessEvent};

/// How long it may take to notice that the other side is gone.
const NOTICE: u64 = 250_000_000;

/// A process that stood still, from when to when.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stop {
    from: u64,
    until: u64,
}

impl Stop {
    /// Whether its lanes may have been taken over for that.
    fn outlasts_lease(&self, evidence: &Evidence<'_>) -> bool {
        let sender = &evidence.scenario.sender;
        sender.workers > 1 && self.until - self.from >= sender.takeover_within.0
    }
}

/// When processes stood still, in order.
struct Stops {
    all: Vec<Stop>,
    /// For each of them, the latest end of it and of those before it.
    latest: Vec<u64>,
    /// Those for which lanes may have been taken over.
    long: Vec<Stop>,
    /// On which connections something arrived, and when, in order; nothing where no stop is long.
    used: Vec<(u64, u64)>,
}

impl Stops {
    fn of(evidence: &Evidence<'_>) -> Self {
        let all = Self::all(evidence);
        let so_far = |latest: &mut u64, stop: &Stop| {
            *latest = stop.until.max(*latest);
            Some(*latest)
        };
        let latest = all.iter().scan(0, so_far).collect();
        let long: Vec<Stop> = all.iter().filter(|stop| stop.outlasts_lease(evidence)).copied().collect();
        let mut used = Vec::new();
        if !long.is_empty() {
            used.extend(evidence.trace.arrivals.iter().map(|one| (one.connection, one.t)));
            used.sort_unstable();
        }
        Self { all, latest, long, used }
    }

    fn all(evidence: &Evidence<'_>) -> Vec<Stop> {
        let processes = &evidence.trace.processes;
        let mut events: Vec<(u32, u64)> = processes.iter().map(|one| (one.worker, one.t)).collect();
        events.sort_unstable();
        let stop = |stop: &Process| {
            // Whatever is told of it next: it went on, or is no more.
            let next = events.partition_point(|one| *one <= (stop.worker, stop.t));
            let next = events.get(next).filter(|(worker, _)| *worker == stop.worker);
            Stop { from: stop.t, until: next.map_or(u64::MAX, |(_, t)| *t) }
        };
        let stopped = processes.iter().filter(|one| one.event == ProcessEvent::Stopped);
        let mut stops: Vec<Stop> = stopped.map(stop).collect();
        stops.sort_unstable();
        stops
    }

    /// Whether a process stood still at some moment from `from` to `until`.
    fn overlap(&self, from: u64, until: u64) -> bool {
        let begun = self.all.partition_point(|stop| stop.from <= until);
        begun.checked_sub(1).is_some_and(|last| self.latest[last] >= from)
    }

    /// When the first process stopped that may have left a request open which was sent then at the earliest.
    fn left(&self, exchange: &Exchange, connection: Option<u64>, sent: u64) -> Option<u64> {
        let first = self.long.partition_point(|stop| stop.from < sent);
        let mut inside = self.long[first..].iter().take_while(|stop| stop.from <= exchange.end);
        inside.find(|stop| self.may_have_left(stop, exchange, connection)).map(|stop| stop.from)
    }

    /// Whether a process may have left a request open that was sent before it stopped: until it went on, and no longer.
    fn may_have_left(&self, stop: &Stop, exchange: &Exchange, connection: Option<u64>) -> bool {
        let first = if exchange.ended_by_peer() { stop.until } else { stop.from };
        let ends = first..=stop.until.saturating_add(NOTICE);
        ends.contains(&exchange.end) && !connection.is_some_and(|one| self.is_used(one, stop))
    }

    /// Whether something arrived on a connection while a process stood still.
    fn is_used(&self, connection: u64, stop: &Stop) -> bool {
        let next = self.used.partition_point(|one| *one <= (connection, stop.from));
        self.used.get(next).is_some_and(|(one, t)| *one == connection && *t <= stop.until)
    }
}

/// Until when a request was surely open.
fn surely_open(evidence: &Evidence<'_>, stops: &Stops, lane: &Lane<'_>, n: u32) -> u64 {
    let exchange = evidence.exchange(n);
    let timeout = lane.subscriber.timeout.0;
    let sent = evidence.sent_from(n);
    let earliest = sent.saturating_add(timeout);
    if earliest <= exchange.t && stops.overlap(earliest, exchange.t) {
        return exchange.t;
    }
    let deadline = exchange.t.saturating_add(timeout);
    let behaviours = &lane.subscriber.behaviours;
    let lengthy = behaviours.iter().any(|one| one.answer.is_lengthy() && one.covers(exchange.t));
    let mut until = if lengthy { exchange.begun } else { exchange.end };
    if exchange.ended_by_peer() || until >= deadline {
        until = until.min(deadline).saturating_sub(NOTICE);
    }
    // Of a request that was not read whole it is not known.
    let connection = evidence.trace.arrivals.get(n as usize).map(|arrival| arrival.connection);
    until = stops.left(exchange, connection, sent).map_or(until, |left| left.min(until));
    let kill = evidence.kills.partition_point(|t| *t < exchange.t);
    let killed = evidence.kills.get(kill).copied().unwrap_or(u64::MAX);
    until.min(killed).max(exchange.t)
}

/// How many are open once each of them has begun, itself included. They are in the order of their beginnings.
fn open_with_each(intervals: &[(u64, u64)]) -> impl Iterator<Item = usize> {
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    intervals.iter().map(move |(from, until)| {
        while ends.peek().is_some_and(|Reverse(end)| end <= from) {
            ends.pop();
        }
        if until > from {
            ends.push(Reverse(*until));
        }
        ends.len()
    })
}

/// The most that are open at once, and the arrival at which that was first so.
#[must_use]
pub fn most_open(intervals: &[(u64, u64)]) -> Option<(usize, usize)> {
    first_most(open_with_each(intervals).enumerate())
}

fn first_most(counts: impl Iterator<Item = (usize, usize)>) -> Option<(usize, usize)> {
    counts.map(|(at, count)| (count, at)).max_by_key(|(count, at)| (*count, Reverse(*at)))
}

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.in-flight",
    severity: Severity::Must,
    source: "S3",
    requirement: "requests open at one endpoint never exceed its cap",
    why: "each open request holds a thread, a connection or memory at the endpoint, however slow the rate is",
    remedy: "take a permit before connecting and give it back only after the answer's last byte or the \
        connection's end",
    stall: Stall::Crowds,
    by_contract: true,
    stands_alone: true,
    picture: Picture::Open,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let capped = |lane: &Lane<'_>| lane.epochs.iter().any(|epoch| epoch.limit.in_flight.is_some());
    if !evidence.lanes.iter().any(capped) {
        return Finding::unasked("no subscriber has a cap on requests in flight");
    }
    let mut tally = Tally::default();
    let mut figures = Vec::new();
    let stops = Stops::of(evidence);
    for (index, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| capped(lane)) {
        let interval = |n: &u32| (evidence.exchange(*n).t, surely_open(evidence, &stops, lane, *n));
        let intervals: Vec<(u64, u64)> = lane.begun.iter().map(interval).collect();
        for epoch in &lane.epochs {
            let Some(cap) = epoch.limit.in_flight else { continue };
            // What began under an older cap counts as long as it is open; only what begins under this one breaks it.
            let inside = |at: usize| epoch.from <= intervals[at].0 && intervals[at].0 <= epoch.until;
            let counts = open_with_each(&intervals).enumerate().filter(|(at, _)| inside(*at));
            let Some((most, at)) = first_most(counts) else { continue };
            tally.see();
            figures.push((format!("{} most open", lane.subscriber.name), format!("{most} of {cap}")));
            if most > cap as usize {
                let moment = intervals[at].0;
                let open = lane.begun[..=at].iter().zip(&intervals).filter(|(_, (_, until))| *until > moment);
                let open: Vec<u32> = open.map(|(n, _)| *n).collect();
                let what = format!("{most} requests open at once; the cap is {cap}");
                tally.broke(|| evidence.witness(index, &open, what));
            }
        }
    }
    let finding = tally.finding("caps in flight", "never exceeded", "exceeded");
    figures.into_iter().take(12).fold(finding, |finding, (name, value)| finding.with(name, value))
}
