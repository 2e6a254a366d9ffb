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
use std::collections::{BinaryHeap, HashSet};

use crate::check::evidence::{Evidence, Exchange, Lane};
use crate::check::verdict::{Finding, Tally};
use crate::trace::{Process, ProcessEvent};

/// How long it may take to notice that the other side is gone.
const NOTICE: u64 = 250_000_000;

/// A process that stood still, from when to when.
struct Stop {
    from: u64,
    until: u64,
    /// The connections on which something arrived meanwhile.
    used: HashSet<u64>,
}

impl Stop {
    fn all(evidence: &Evidence<'_>) -> Vec<Self> {
        let processes = &evidence.trace.processes;
        let stops = processes.iter().filter(|one| one.event == ProcessEvent::Stopped);
        let stop = |stop: &Process| {
            let later = processes.iter().filter(|one| one.worker == stop.worker && one.t > stop.t);
            let (from, until) = (stop.t, later.map(|one| one.t).min().unwrap_or(u64::MAX));
            let meanwhile = evidence.trace.arrivals.iter().filter(|one| from < one.t && one.t <= until);
            Self { from, until, used: meanwhile.map(|one| one.connection).collect() }
        };
        stops.map(stop).collect()
    }

    /// Whether its lanes may have been taken over for that.
    fn outlasts_lease(&self, evidence: &Evidence<'_>) -> bool {
        let sender = &evidence.scenario.sender;
        sender.workers > 1 && self.until - self.from >= sender.takeover_within.0
    }

    /// Whether it may have left a request open that was sent then at the earliest: until it went on, and no longer.
    fn may_have_left(&self, exchange: &Exchange, connection: Option<u64>, earliest: u64) -> bool {
        let first = if exchange.ended_by_peer() { self.until } else { self.from };
        let ends = first..=self.until.saturating_add(NOTICE);
        earliest <= self.from
            && ends.contains(&exchange.end)
            && !connection.is_some_and(|one| self.used.contains(&one))
    }
}

/// Until when a request was surely open.
fn surely_open(evidence: &Evidence<'_>, stops: &[Stop], lane: &Lane<'_>, n: u32) -> u64 {
    let exchange = evidence.exchange(n);
    let timeout = lane.subscriber.timeout.0;
    let sent = evidence.sent_from(n);
    let earliest = sent.saturating_add(timeout);
    let stood_still = |stop: &Stop| stop.from <= exchange.t && stop.until >= earliest;
    if earliest <= exchange.t && stops.iter().any(stood_still) {
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
    let may_have_left =
        |stop: &&Stop| stop.outlasts_lease(evidence) && stop.may_have_left(exchange, connection, sent);
    let left = stops.iter().filter(may_have_left);
    until = left.map(|stop| stop.from).fold(until, u64::min);
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

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let mut figures = Vec::new();
    let stops = Stop::all(evidence);
    let capped = |lane: &Lane<'_>| lane.epochs.iter().any(|epoch| epoch.limit.in_flight.is_some());
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
    if !evidence.lanes.iter().any(capped) {
        return Finding::unasked("no subscriber has a cap on requests in flight");
    }
    let finding = tally.finding("caps in flight", "never exceeded", "exceeded");
    figures.into_iter().take(12).fold(finding, |finding, (name, value)| finding.with(name, value))
}
