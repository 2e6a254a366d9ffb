//! The trace, laid out for judging: which exchange belongs to which delivery of which lane, and what came of it.
//!
//! Built once in O(n log n); every check reads it. Times are the trace's. The time at which something *arrived* is that
//! of its first byte.

use std::collections::BTreeMap;

use super::clock_offset::Ahead;
pub(crate) use super::deliveries::{Delivery, Event};
pub(crate) use super::deliveries::{Exchange, Outcome};
use super::deliveries::{deliveries, small};
use super::deliveries::{exchanges, unread};
use super::epochs::{Epoch, epochs};
use super::process_timeline::Strikes;
use super::process_timeline::unwritable;
use super::verdict::{WITNESS_ARRIVALS_MAX, Witness};
use crate::scenario::{Answer, Behaviour, SECOND, Scenario, Subscriber};
use crate::trace::{Cut, Depth, Fault, Handshake, ProcessEvent, Refused, Trace};

/// What a body has beside its data at most: ids, types, times.
pub(super) const ENVELOPE_BYTES: u64 = 2_048;
/// What waited for an endpoint is read within so long of the moment at which that goes on.
const READ_WITHIN: u64 = SECOND / 4;
/// How soon most of what was sent is read.
const READ_AT_ONCE: u64 = SECOND / 50;
/// What came so near to a sender's deadline may have missed it; of a short one, in its last quarter.
const NEAR: u64 = SECOND / 4;

/// Everything that checks go by.
pub struct Evidence<'a> {
    /// What was played, and what must hold.
    pub scenario: &'a Scenario,
    /// What was seen.
    pub trace: &'a Trace,
    /// What came of every arrival, by its number; then what came of requests that were not read whole.
    pub(crate) exchanges: Vec<Exchange>,
    /// The ends of the requests that were not read whole, in the order of their exchanges.
    pub(crate) unread: Vec<&'a Cut>,
    /// The answers with `Retry-After`, by arrival, as indices into the trace's.
    asks: Vec<(u32, u32)>,
    /// A lane for every subscriber, in the scenario's order.
    pub(crate) lanes: Vec<Lane<'a>>,
    /// Every event that was offered, by token.
    pub(crate) events: Vec<Event>,
    /// Every delivery that is owed or was seen, by lane and token.
    pub(crate) deliveries: Vec<Delivery>,
    /// Arrivals with a lane and a token, by lane, token and time; deliveries hold ranges of it.
    attempts: Vec<u32>,
    /// When processes were killed, in order.
    pub(crate) kills: Vec<u64>,
    /// When processes were killed, asked to stop, stopped or gone, in order.
    pub(crate) upsets: Vec<u64>,
    /// What was done to processes and their store, for each request to be judged by.
    pub(super) strikes: Strikes,
    /// When the run ended, or the last thing that was seen.
    pub(crate) end: u64,
    /// How far the sender's clock is ahead of the harness's.
    pub(crate) ahead: Ahead,
}

/// One subscriber's side of the run.
pub(crate) struct Lane<'a> {
    pub(crate) subscriber: &'a Subscriber,
    /// Its arrivals, by time.
    pub(crate) arrivals: Vec<u32>,
    /// All requests that began to arrive, by time, those included that were not read whole: what its contract counts.
    pub(crate) begun: Vec<u32>,
    /// Which contract held when.
    pub(crate) epochs: Vec<Epoch>,
    /// When it first said that it is gone (410).
    pub(crate) gone: Option<u64>,
}

impl<'a> Evidence<'a> {
    /// Lays out a trace for judging by a scenario.
    #[must_use]
    pub fn new(scenario: &'a Scenario, trace: &'a Trace) -> Self {
        let end = ending(trace);
        let names: BTreeMap<&str, u32> =
            (0..).zip(&scenario.subscribers).map(|(at, one)| (one.name.as_str(), at)).collect();
        let unread = unread(trace);
        let exchanges = exchanges(trace, &unread, &names, end);
        let lanes = lanes(scenario, trace, &exchanges, end);
        let events = events(trace);
        let (attempts, deliveries) = deliveries(trace, &names, &exchanges, &events);
        let times = |wanted: &[ProcessEvent]| {
            let found = trace.processes.iter().filter(|process| wanted.contains(&process.event));
            let mut times: Vec<u64> = found.map(|process| process.t).collect();
            times.sort_unstable();
            times
        };
        use ProcessEvent::{Asked, Exited, Killed, Stopped};
        let (kills, upsets) = (times(&[Killed]), times(&[Killed, Asked, Stopped, Exited]));
        let ahead = Ahead::of(trace);
        Self {
            scenario,
            trace,
            exchanges,
            unread,
            asks: asks(trace),
            lanes,
            events,
            deliveries,
            attempts,
            kills,
            upsets,
            strikes: Strikes::of(&trace.processes, &trace.faults, scenario.sender.takeover_within.0, end),
            end,
            ahead,
        }
    }

    /// The earliest moment at which a request may have been sent: one that was read when its endpoint had just begun again
    /// to accept or to read may have waited there for as long as it did not; one that was read just after its process
    /// was killed or stopped was sent before; and one that was read just after TLS was agreed may have waited for that.
    pub(crate) fn sent_from(&self, n: u32) -> u64 {
        let exchange = self.exchange(n);
        let lane = exchange.lane.and_then(|lane| self.lanes.get(lane as usize));
        let behaviours = lane.map_or(&[][..], |lane| lane.subscriber.behaviours.as_slice());
        let waited = |one: &&Behaviour| {
            matches!(one.answer, Answer::Stall | Answer::NoAccept)
                && one
                    .until()
                    .is_some_and(|end| (end..=end.saturating_add(READ_WITHIN)).contains(&exchange.t))
        };
        let known = [self.struck_before(exchange.t), self.dialled_before(n, exchange.t)];
        let waited = behaviours.iter().filter(waited).map(|one| one.at.0);
        known.into_iter().flatten().chain(waited).fold(exchange.t, u64::min)
    }

    /// When the connection was opened on which a request came at `t`, if TLS had just been agreed on it.
    fn dialled_before(&self, n: u32, t: u64) -> Option<u64> {
        let arrival = self.trace.arrivals.get(n as usize)?;
        let handshakes = &self.trace.reached.handshakes;
        let at = handshakes.binary_search_by_key(&arrival.connection, |one| one.connection).ok()?;
        let Handshake { t: dialled, until, first, .. } = handshakes[at];
        // What came after an answer on the same connection waited for that, if for anything.
        let waited = first.is_some_and(|first| {
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            first == n || self.exchanges.get(first as usize).is_some_and(|first| t < first.begun)
        });
        (waited && t.saturating_sub(until) <= READ_WITHIN).then_some(dialled)
    }

    /// When the process was killed or stopped that sent what was read at `t`, if that was just before, and none was started or went
    /// on meanwhile. Where others live, they sent most of what comes then.
    fn struck_before(&self, t: u64) -> Option<u64> {
        let within = if self.scenario.sender.workers == 1 { READ_WITHIN } else { READ_AT_ONCE };
        self.strikes.shortly_before(t, within)
    }

    /// Whether what came of a request at `t` surely came before the sender's deadline, which counts from when it was sent.
    pub(crate) fn is_in_time(&self, n: u32, t: u64) -> bool {
        let lane = self.exchange(n).lane.and_then(|lane| self.lanes.get(lane as usize));
        let took = t.saturating_sub(self.sent_from(n));
        let timeout = lane.map_or(0, |lane| lane.subscriber.timeout.0);
        took.saturating_add(NEAR.min(timeout / 4)) < timeout
    }

    /// The attempts of a delivery, by time.
    pub(crate) fn attempts(&self, delivery: &Delivery) -> &[u32] {
        &self.attempts[delivery.range.start as usize..delivery.range.end as usize]
    }

    /// The deliveries of a lane.
    pub(crate) fn deliveries_of(&self, lane: u32) -> &[Delivery] {
        let from = self.deliveries.partition_point(|delivery| delivery.lane < lane);
        let until = self.deliveries.partition_point(|delivery| delivery.lane <= lane);
        &self.deliveries[from..until]
    }

    /// Every failed attempt that has a successor: the delivery, the attempt's number from 1, and both.
    pub(crate) fn retries(&self) -> impl Iterator<Item = (&Delivery, u32, u32, u32)> {
        self.deliveries.iter().flat_map(|delivery| {
            let pairs = (1..).zip(self.attempts(delivery).windows(2));
            pairs.map(move |(number, pair)| (delivery, number, pair[0], pair[1]))
        })
    }

    /// The answer's `Retry-After`, by arrival.
    pub(crate) fn asked(&self, n: u32) -> Option<&'a str> {
        let at = self.asks.binary_search_by_key(&n, |(n, _)| *n).ok()?;
        self.trace.answers[self.asks[at].1 as usize].retry_after.as_deref()
    }

    /// How many events an arrival carries.
    pub(crate) fn carried(&self, n: u32) -> usize {
        1 + self.trace.arrivals[n as usize].more.len()
    }

    pub(crate) fn exchange(&self, n: u32) -> &Exchange {
        &self.exchanges[n as usize]
    }

    pub(crate) fn event(&self, delivery: &Delivery) -> Option<&Event> {
        delivery.event.map(|at| &self.events[at as usize])
    }

    /// When a delivery's event was surely taken.
    pub(crate) fn accepted(&self, delivery: &Delivery) -> Option<u64> {
        self.event(delivery).and_then(|event| event.accepted)
    }

    pub(crate) fn subscriber(&self, delivery: &Delivery) -> &'a Subscriber {
        self.lanes[delivery.lane as usize].subscriber
    }

    /// Whether one of a delivery's attempts was taken.
    pub(crate) fn is_delivered(&self, delivery: &Delivery) -> bool {
        self.attempts(delivery).iter().any(|n| self.exchange(*n).is_delivered())
    }

    /// Whether a process was killed, stopped or cut off from its store from `from` to `until`.
    pub(crate) fn was_killed(&self, from: u64, until: u64) -> bool {
        self.strikes.touch(from, until)
    }

    /// By when the sender has promised to have written down what it learnt at `t`: counted from when it could, where a
    /// fault kept it from that by then, and from as much later as a fault made that.
    pub(crate) fn noted_by(&self, t: u64) -> u64 {
        let promised = self.trace.declared.confirmed_within.unwrap_or(self.scenario.sender.confirm_within.0);
        let writable = self.strikes.unwritable.iter().fold(t, |writable, one| {
            if one.from <= writable.saturating_add(promised) { one.over_for(writable) } else { writable }
        });
        writable.saturating_add(promised)
    }

    /// From when on a process that was asked to end could write down what it knew, as far as was decided by `until`: at once, or
    /// from the end of what kept it from that.
    pub(crate) fn could_end_from(&self, worker: u32, asked: u64, until: u64) -> u64 {
        let name = format!("worker {worker}");
        let concerns = |fault: &&Fault| {
            let whom = fault.detail.as_deref().and_then(|detail| detail.split(',').next());
            fault.t <= until && whom.is_none_or(|whom| whom == name)
        };
        let stops = self.strikes.stops.iter().filter(|stop| stop.worker == worker && stop.from <= until);
        let kept = unwritable(self.trace.faults.iter().filter(concerns), stops);
        kept.iter().filter(|one| one.until > asked).fold(asked, |from, one| one.over_for(from))
    }

    /// Whether a process was killed or stopped before the sender must have written down how a request ended, so that the
    /// next may know nothing of it.
    pub(crate) fn may_be_forgotten(&self, n: u32) -> bool {
        self.was_killed(self.sent_from(n), self.noted_by(self.exchange(n).end))
    }

    /// Whether a request was read whole, so that it is an arrival.
    pub(crate) fn is_whole(&self, n: u32) -> bool {
        (n as usize) < self.trace.arrivals.len()
    }

    /// A witness at a lane, of these arrivals.
    pub(crate) fn witness(&self, lane: u32, arrivals: &[u32], what: String) -> Witness {
        let times = arrivals.iter().map(|n| self.exchange(*n).t);
        Witness {
            subscriber: Some(self.lanes[lane as usize].subscriber.name.clone()),
            from: times.clone().min().unwrap_or(0),
            until: times.max().unwrap_or(self.end),
            what,
            arrivals: arrivals
                .iter()
                .filter(|n| self.is_whole(**n))
                .take(WITNESS_ARRIVALS_MAX)
                .map(|n| u64::from(*n))
                .collect(),
        }
    }

    /// The name of the lane of a delivery, for witnesses without an arrival.
    pub(crate) fn absent(&self, delivery: &Delivery, what: String) -> Witness {
        let offer = self.event(delivery).map(|event| self.trace.offers[event.offer as usize].t);
        let arrivals = self.attempts(delivery);
        Witness {
            from: offer.unwrap_or(0),
            until: self.end,
            ..self.witness(delivery.lane, arrivals, format!("event {}: {what}", delivery.token))
        }
    }
}

fn ending(trace: &Trace) -> u64 {
    if let Some(trailer) = &trace.trailer {
        return trailer.t;
    }
    let last = [
        trace.arrivals.iter().map(|one| one.read).max(),
        trace.answers.iter().map(|one| one.end).max(),
        trace.offers.iter().map(|one| one.t).max(),
        trace.depths.iter().map(|one| one.t).max(),
    ];
    last.into_iter().flatten().max().unwrap_or(0)
}

fn lanes<'a>(scenario: &'a Scenario, trace: &Trace, exchanges: &[Exchange], end: u64) -> Vec<Lane<'a>> {
    let lane = |subscriber: &'a Subscriber| Lane {
        subscriber,
        arrivals: Vec::new(),
        begun: Vec::new(),
        epochs: epochs(scenario, trace, subscriber, end),
        gone: None,
    };
    let mut lanes: Vec<Lane<'a>> = scenario.subscribers.iter().map(lane).collect();
    for (n, exchange) in (0..).zip(exchanges) {
        if let Some(lane) = exchange.lane {
            let lane = &mut lanes[lane as usize];
            lane.begun.push(n);
            if (n as usize) < trace.arrivals.len() {
                lane.arrivals.push(n);
            }
            if exchange.status() == Some(410) {
                lane.gone = Some(lane.gone.map_or(exchange.begun, |earlier| earlier.min(exchange.begun)));
            }
        }
    }
    for lane in &mut lanes {
        lane.arrivals.sort_by_key(|n| (exchanges[*n as usize].t, *n));
        lane.begun.sort_by_key(|n| (exchanges[*n as usize].t, *n));
    }
    lanes
}

fn asks(trace: &Trace) -> Vec<(u32, u32)> {
    let asks = (0..).zip(&trace.answers).filter(|(_, answer)| answer.retry_after.is_some());
    let mut asks: Vec<(u32, u32)> =
        asks.filter_map(|(at, answer)| Some((u32::try_from(answer.n).ok()?, at))).collect();
    asks.sort_unstable();
    asks
}

fn events(trace: &Trace) -> Vec<Event> {
    let mut order: Vec<u32> = (0..small(trace.offers.len())).collect();
    let offer = |at: u32| &trace.offers[at as usize];
    order.sort_by_key(|at| (offer(*at).token, offer(*at).t));
    let mut events: Vec<Event> = Vec::with_capacity(order.len());
    for at in order {
        let token = offer(at).token;
        match events.last_mut().filter(|last| last.token == token) {
            Some(last) => last.offers += 1,
            None => events.push(Event { token, offer: at, offers: 1, accepted: None, refused: 0 }),
        }
    }
    let mut find = |token: u64, change: &mut dyn FnMut(&mut Event)| {
        if let Ok(at) = events.binary_search_by_key(&token, |event| event.token) {
            change(&mut events[at]);
        }
    };
    for one in &trace.accepted {
        find(one.token, &mut |event| {
            event.accepted = Some(event.accepted.map_or(one.t, |earlier| earlier.min(one.t)));
        });
    }
    // Who says that it failed need not know what of it was done.
    let is_sure = |one: &&Refused| !one.unknown && one.status.is_none_or(|status| status < 500);
    for one in trace.refused.iter().filter(is_sure) {
        find(one.token, &mut |event| event.refused += 1);
    }
    events
}

/// Whether a sample is of that subscriber's lane: by its name, or as there is no other.
pub(super) fn concerns(depth: &Depth, subscriber: &Subscriber, scenario: &Scenario) -> bool {
    depth.subscriber.as_ref().map_or(scenario.subscribers.len() == 1, |name| *name == subscriber.name)
}
