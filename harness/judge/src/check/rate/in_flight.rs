//! `rate.in-flight`.
//!
//! A request is open from its first byte to the last byte of its answer. The endpoint notes that moment just before it
//! writes, so nobody can have read the whole answer earlier. The end moves to an earlier moment in these cases:
//!
//! - An answer in several pieces ends with its first byte.
//! - If the *sender* ended the exchange, by its deadline or death, the endpoint notices later. The request counts until
//!   [`NOTICE`] before that, and never beyond its deadline.
//! - A kill ends each request, but not one that another of several processes surely held: it was answered in full more
//!   than [`NOTICE`] after the killed process was gone, and no proxy stood between.
//! - A request does not count if its deadline passed before it was read and while a process was stopped: nobody could
//!   close it, and a process that takes over does not wait.
//! - A request does not count if the harness may have stalled for its whole deadline before it stamped it.
//! - A request that was open when one of several processes stopped counts until the stop, if the stop lasted
//!   `takeover_within`. That exceeds the lease, so another process may have taken the lane over.
//!
//! The last case does not apply to a request that the sender ended during the stop, or with another request on its
//! connection during the stop: those belong to other processes.
//!
//! At one moment ends come first. If a run changes a cap, each cap holds in its own time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::check::evidence::{Evidence, Exchange, Lane};
use crate::check::process_timeline::NOTICE;
use crate::check::verdict::{Finding, Tally};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::trace::{Process, ProcessEvent};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stop {
    from: u64,
    until: u64,
}

impl Stop {
    fn outlasts_lease(&self, evidence: &Evidence<'_>) -> bool {
        let sender = &evidence.scenario.sender;
        sender.workers > 1 && self.until - self.from >= sender.takeover_within.0
    }
}

struct Stops {
    all: Vec<Stop>,
    /// For each stop, the latest end so far.
    latest: Vec<u64>,
    /// Stops that outlast the lease.
    long: Vec<Stop>,
    /// Sorted by connection and time; empty without a long stop.
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
            // The process continued or ended.
            let next = events.partition_point(|one| *one <= (stop.worker, stop.t));
            let next = events.get(next).filter(|(worker, _)| *worker == stop.worker);
            Stop { from: stop.t, until: next.map_or(u64::MAX, |(_, t)| *t) }
        };
        let stopped = processes.iter().filter(|one| one.event == ProcessEvent::Stopped);
        let mut stops: Vec<Stop> = stopped.map(stop).collect();
        stops.sort_unstable();
        stops
    }

    fn overlap(&self, from: u64, until: u64) -> bool {
        let begun = self.all.partition_point(|stop| stop.from <= until);
        begun.checked_sub(1).is_some_and(|last| self.latest[last] >= from)
    }

    /// `sent` is the earliest sending.
    fn left(&self, exchange: &Exchange, connection: Option<u64>, sent: u64) -> Option<u64> {
        let first = self.long.partition_point(|stop| stop.from < sent);
        let mut inside = self.long[first..].iter().take_while(|stop| stop.from <= exchange.end);
        inside.find(|stop| self.may_have_left(stop, exchange, connection)).map(|stop| stop.from)
    }

    /// Until the process continued, and no longer.
    fn may_have_left(&self, stop: &Stop, exchange: &Exchange, connection: Option<u64>) -> bool {
        let first = if exchange.ended_by_peer() { stop.until } else { stop.from };
        let ends = first..=stop.until.saturating_add(NOTICE);
        ends.contains(&exchange.end) && !connection.is_some_and(|one| self.is_used(one, stop))
    }

    fn is_used(&self, connection: u64, stop: &Stop) -> bool {
        let next = self.used.partition_point(|one| *one <= (connection, stop.from));
        self.used.get(next).is_some_and(|(one, t)| *one == connection && *t <= stop.until)
    }
}

fn surely_open(evidence: &Evidence<'_>, stops: &Stops, lane: &Lane<'_>, n: u32) -> u64 {
    let exchange = evidence.exchange(n);
    let timeout = lane.subscriber.timeout.0;
    let (sent, held) = (evidence.sent_from(n), evidence.forgiven.behind(exchange.t));
    let earliest = sent.saturating_add(timeout);
    if held >= timeout || earliest <= exchange.t && stops.overlap(earliest, exchange.t) {
        return exchange.t;
    }
    let stamped = exchange.t.saturating_sub(held);
    let deadline = stamped.saturating_add(timeout);
    let behaviours = &lane.subscriber.behaviours;
    let lengthy = behaviours.iter().any(|one| one.answer.is_lengthy() && one.covers(exchange.t));
    let mut until = if lengthy { exchange.begun } else { exchange.end };
    if exchange.ended_by_peer() || until >= deadline {
        let noticed = until.saturating_sub(evidence.forgiven.behind(until));
        until = noticed.min(deadline).saturating_sub(NOTICE);
    }
    // The connection of a request that was not read whole is unknown.
    let connection = evidence.trace.arrivals.get(n as usize).map(|arrival| arrival.connection);
    until = stops.left(exchange, connection, sent).map_or(until, |left| left.min(until));
    let others = evidence.scenario.sender.workers > 1 && evidence.trace.reached.public.is_none();
    let answered = exchange.status().filter(|_| others);
    let answered = answered.map(|_| exchange.end.saturating_sub(evidence.forgiven.behind(exchange.end)));
    let killed = evidence.strikes.kill_that_ended(stamped, answered);
    until.min(killed.unwrap_or(u64::MAX)).max(exchange.t)
}

/// Itself included; `intervals` are sorted by their beginnings.
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

/// Returns the arrival that first reached it, too.
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
    source: "existing senders",
    requirement: "the requests in flight at one endpoint never exceed its cap",
    why: "each request in flight holds a thread, a connection or memory at the endpoint, even at a low rate",
    remedy: "take a permit before connecting, and return it only after the answer's last byte or the \
        connection's end",
    stall: Stall::Delays,
    by_contract: true,
    stands_alone: true,
    picture: Picture::Open,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let capped = |lane: &Lane<'_>| lane.epochs.iter().any(|epoch| epoch.limit.in_flight.is_some());
    if !evidence.lanes.iter().any(capped) {
        return Finding::unasked("no subscriber has an in-flight cap");
    }
    let mut tally = Tally::default();
    let mut figures = Vec::new();
    let stops = Stops::of(evidence);
    let mut has_reached = false;
    for (index, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| capped(lane)) {
        let interval = |n: &u32| (evidence.exchange(*n).t, surely_open(evidence, &stops, lane, *n));
        let intervals: Vec<(u64, u64)> = lane.begun.iter().map(interval).collect();
        for epoch in &lane.epochs {
            let Some(cap) = epoch.limit.in_flight else { continue };
            // A request that began under an older cap counts while it is open; only a request that begins
            // under this cap can break it.
            let inside = |at: usize| epoch.from <= intervals[at].0 && intervals[at].0 <= epoch.until;
            let counts = open_with_each(&intervals).enumerate().filter(|(at, _)| inside(*at));
            let Some((most, at)) = first_most(counts) else { continue };
            tally.see();
            has_reached |= most >= cap as usize;
            figures.push((format!("{} most in flight", lane.subscriber.name), format!("{most} of {cap}")));
            if most > cap as usize {
                let moment = intervals[at].0;
                let open = lane.begun[..=at].iter().zip(&intervals).filter(|(_, (_, until))| *until > moment);
                let open: Vec<u32> = open.map(|(n, _)| *n).collect();
                let what = format!("{most} requests in flight at once; the cap is {cap}");
                tally.broke(|| evidence.witness(index, &open, what));
            }
        }
    }
    let far = "no endpoint had as many open requests as its cap".to_owned();
    let finding = tally.finding("in-flight caps", "never exceeded", "exceeded");
    let finding = finding.unless_shown((!has_reached).then_some(far));
    figures.into_iter().take(12).fold(finding, |finding, (name, value)| finding.with(name, value))
}
