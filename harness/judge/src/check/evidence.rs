//! The trace, laid out for judging: exchanges by delivery and lane, and their outcomes.
//!
//! Built once in O(n log n). Times are the trace's; an *arrival* is the moment of the first byte.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::epochs::{Ahead, Epoch, epochs};
use super::process_timeline::{Strikes, unwritable};
use super::starvation::Starvation;
use super::verdict::{WITNESS_ARRIVALS_MAX, Witness};
use crate::scenario::{Answer, Behaviour, FaultAction, SECOND, Scenario, Subscriber};
use crate::trace::{Cut, CutKind, Depth, Fault, Handshake, Refused, Trace};

/// Bytes of a body beside its data, at most: ids, types, times.
pub(super) const ENVELOPE_BYTES: u64 = 2_048;
/// Time in which a sender records an outcome.
pub(super) const NOTED: u64 = 5 * SECOND;
/// An endpoint that resumes reads the waiting requests within this time.
const READ_WITHIN: u64 = SECOND / 4;
/// Time in which most sent requests and answers are read.
const READ_AT_ONCE: u64 = SECOND / 50;
/// An answer this near to the sender's deadline may have missed it; for a short deadline, its last quarter
/// counts.
const NEAR: u64 = SECOND / 4;

pub struct Evidence<'a> {
    pub scenario: &'a Scenario,
    pub trace: &'a Trace,
    /// By arrival number, then those of requests that were not read whole.
    pub(crate) exchanges: Vec<Exchange>,
    /// In the order of their exchanges.
    pub(crate) unread: Vec<&'a Cut>,
    /// The answers with `Retry-After`: arrival, and index into the trace's answers.
    asks: Vec<(u32, u32)>,
    /// In the scenario's order.
    pub(crate) lanes: Vec<Lane<'a>>,
    /// By token.
    pub(crate) events: Vec<Event>,
    /// Owed or received, by lane and token.
    pub(crate) deliveries: Vec<Delivery>,
    /// Arrivals with a lane and a token, by lane, token and time; deliveries hold ranges of it.
    attempts: Vec<u32>,
    pub(super) strikes: Strikes,
    last_used: OnceLock<BTreeMap<u64, u64>>,
    /// The end of the run, or the last event in the trace.
    pub(crate) end: u64,
    pub(crate) ahead: Ahead,
    /// Stalls whose lateness the judge forgives, if it does.
    pub(super) forgiven: Starvation,
}

pub(crate) struct Lane<'a> {
    pub(crate) subscriber: &'a Subscriber,
    pub(crate) arrivals: Vec<u32>,
    /// By time, including those not read whole: the contract counts these.
    pub(crate) begun: Vec<u32>,
    pub(crate) epochs: Vec<Epoch>,
    /// When it first answered 410.
    pub(crate) gone: Option<u64>,
}

impl<'a> Evidence<'a> {
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
        let ahead = Ahead::of(trace);
        Self {
            scenario,
            trace,
            exchanges,
            unread,
            asks: retry_after_answers(trace),
            lanes,
            events,
            deliveries,
            attempts,
            strikes: Strikes::of(&trace.processes, &trace.faults, scenario.sender.takeover_within.0, end),
            last_used: OnceLock::new(),
            end,
            ahead,
            forgiven: Starvation::default(),
        }
    }

    pub(super) fn forgiving(scenario: &'a Scenario, trace: &'a Trace) -> Self {
        Self { forgiven: Starvation::of(&trace.stalls), ..Self::new(scenario, trace) }
    }

    /// How much later than `due` something came, without the machine's part.
    pub(super) fn late(&self, due: u64, came: u64) -> u64 {
        came.saturating_sub(due).saturating_sub(self.forgiven.delay(due, came))
    }

    /// The same for a timer that began once the sender had seen something at `seen`.
    pub(super) fn late_after(&self, seen: u64, due: u64, came: u64) -> u64 {
        let machine = self.forgiven.held_from(seen) + self.forgiven.delay(due, came);
        came.saturating_sub(due).saturating_sub(machine.min(self.forgiven.delay(seen, came)))
    }

    /// A request may have waited at an endpoint that had just resumed accepting or reading, or for a TLS handshake. A
    /// request that was read just after its process was killed or stopped was sent before. The machine may have held up
    /// the request or its stamp.
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
        let earliest = known.into_iter().flatten().chain(waited).fold(exchange.t, u64::min);
        earliest.saturating_sub(self.forgiven.behind(exchange.t))
    }

    fn dialled_before(&self, n: u32, t: u64) -> Option<u64> {
        let arrival = self.trace.arrivals.get(n as usize)?;
        let handshakes = &self.trace.reached.handshakes;
        let at = handshakes.binary_search_by_key(&arrival.connection, |one| one.connection).ok()?;
        let Handshake { t: dialled, until, first, .. } = handshakes[at];
        // A request after an answer on the same connection waited for that answer at most.
        let waited = first.is_some_and(|first| {
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            first == n || self.exchanges.get(first as usize).is_some_and(|first| t < first.begun)
        });
        (waited && t.saturating_sub(until) <= READ_WITHIN).then_some(dialled)
    }

    /// When the process that sent a request was killed or stopped just before `t`, if no process started or continued
    /// since. If other processes live, they sent most later requests.
    fn struck_before(&self, t: u64) -> Option<u64> {
        let within = if self.scenario.sender.workers == 1 { READ_WITHIN } else { READ_AT_ONCE };
        self.strikes.shortly_before(t, within)
    }

    /// The deadline counts from the sending, and the machine may have held up the sender's view.
    pub(crate) fn is_in_time(&self, n: u32, t: u64) -> bool {
        let seen = t.saturating_add(self.forgiven.held_from(t.saturating_add(READ_AT_ONCE)));
        let took = seen.saturating_sub(self.sent_from(n));
        let lane = self.exchange(n).lane.and_then(|lane| self.lanes.get(lane as usize));
        let timeout = lane.map_or(0, |lane| lane.subscriber.timeout.0);
        took.saturating_add(NEAR.min(timeout / 4)) < timeout
    }

    /// Sorted by time.
    pub(crate) fn attempts(&self, delivery: &Delivery) -> &[u32] {
        &self.attempts[delivery.range.start as usize..delivery.range.end as usize]
    }

    pub(crate) fn deliveries_of(&self, lane: u32) -> &[Delivery] {
        let from = self.deliveries.partition_point(|delivery| delivery.lane < lane);
        let until = self.deliveries.partition_point(|delivery| delivery.lane <= lane);
        &self.deliveries[from..until]
    }

    pub(crate) fn ended_finally(&self, delivery: &Delivery) -> bool {
        let last = self.attempts(delivery).last().and_then(|n| self.exchange(*n).status());
        last.is_some_and(|status| self.trace.declared.final_statuses.contains(&status))
    }

    /// Every failed attempt with a successor: delivery, attempt's number from 1, both attempts.
    pub(crate) fn retries(&self) -> impl Iterator<Item = (&Delivery, u32, u32, u32)> {
        self.deliveries.iter().flat_map(|delivery| {
            let pairs = (1..).zip(self.attempts(delivery).windows(2));
            pairs.map(move |(number, pair)| (delivery, number, pair[0], pair[1]))
        })
    }

    pub(crate) fn retry_after(&self, n: u32) -> Option<&'a str> {
        let at = self.asks.binary_search_by_key(&n, |(n, _)| *n).ok()?;
        self.trace.answers[self.asks[at].1 as usize].retry_after.as_deref()
    }

    pub(crate) fn carried(&self, n: u32) -> usize {
        1 + self.trace.arrivals[n as usize].more.len()
    }

    pub(crate) fn exchange(&self, n: u32) -> &Exchange {
        &self.exchanges[n as usize]
    }

    pub(super) fn event_of(&self, token: u64) -> Option<&Event> {
        let at = self.events.binary_search_by_key(&token, |event| event.token).ok()?;
        self.events.get(at)
    }

    pub(crate) fn event(&self, delivery: &Delivery) -> Option<&Event> {
        delivery.event.map(|at| &self.events[at as usize])
    }

    pub(crate) fn accepted(&self, delivery: &Delivery) -> Option<u64> {
        self.event(delivery).and_then(|event| event.accepted)
    }

    pub(crate) fn subscriber(&self, delivery: &Delivery) -> &'a Subscriber {
        self.lanes[delivery.lane as usize].subscriber
    }

    pub(crate) fn is_delivered(&self, delivery: &Delivery) -> bool {
        self.attempts(delivery).iter().any(|n| self.exchange(*n).is_delivered())
    }

    pub(crate) fn was_killed(&self, from: u64, until: u64) -> bool {
        self.strikes.touch(from, until)
    }

    /// A fault that forbade or slowed writing prolongs the time.
    pub(crate) fn noted_by(&self, t: u64) -> u64 {
        let promised = self.trace.declared.confirmed_within.unwrap_or(self.scenario.sender.confirm_within.0);
        let writable = self.strikes.unwritable.iter().fold(t, |writable, one| {
            if one.from <= writable.saturating_add(promised) { one.over_for(writable) } else { writable }
        });
        let due = writable.saturating_add(promised);
        let mut noted = due;
        // Each turn takes in at least one more stall.
        loop {
            let held = due.saturating_add(self.forgiven.delay(t, noted));
            if held <= noted {
                return noted;
            }
            noted = held;
        }
    }

    /// From when a process that was asked to end could record its state, by the faults known at `until`.
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

    /// By a kill or a stop before the sender had to record how it ended. A process outlived a kill if its connection
    /// carried a later request and no proxy stood between.
    pub(crate) fn may_be_forgotten(&self, n: u32) -> bool {
        let (from, until) = (self.sent_from(n), self.noted_by(self.exchange(n).end));
        self.was_killed(from, until) && self.strikes.touch_one(from, until, self.alive_at(n))
    }

    /// 0 if unknown.
    fn alive_at(&self, n: u32) -> u64 {
        let Some(arrival) = self.trace.arrivals.get(n as usize) else { return 0 };
        if self.trace.reached.public.is_some() {
            return 0;
        }
        let last_used = self.last_used.get_or_init(|| {
            let mut last = BTreeMap::new();
            for (n, arrival) in (0..).zip(&self.trace.arrivals) {
                let used: &mut u64 = last.entry(arrival.connection).or_default();
                *used = self.sent_from(n).max(*used);
            }
            last
        });
        last_used.get(&arrival.connection).copied().unwrap_or(0)
    }

    /// How far ahead and back. The end of a fault sets the clock right again.
    pub(super) fn clock_set(&self, from: u64, until: u64) -> (u64, u64) {
        let inside = |begun: u64, over: u64| begun <= until && from <= over;
        let host = self.trace.host.clock_sets.iter().filter(|set| inside(set.from, set.until));
        let host = host.map(|set| (set.ns > 0, set.ns.unsigned_abs()));
        let faults = self.trace.faults.iter().flat_map(|fault| {
            let action = fault.plan.and_then(|plan| self.scenario.faults.get(plan as usize));
            let Some(FaultAction::ClockStep { by, back }) = action.map(|one| &one.action) else {
                return [None; 2];
            };
            let over = fault.until.filter(|until| inside(*until, *until)).map(|_| (*back, by.0));
            [inside(fault.t, fault.t).then_some((!*back, by.0)), over]
        });
        host.chain(faults.flatten()).fold((0, 0), |(ahead, behind), (is_ahead, by)| match is_ahead {
            true => (ahead.saturating_add(by), behind),
            false => (ahead, behind.saturating_add(by)),
        })
    }

    pub(crate) fn is_whole(&self, n: u32) -> bool {
        (n as usize) < self.trace.arrivals.len()
    }

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

/// The answer came well before its deadline, counted from the earliest sending, and no process was killed before it can
/// have recorded that.
pub(super) fn surely_heard(evidence: &Evidence<'_>, n: u32) -> bool {
    let exchange = evidence.exchange(n);
    exchange.is_delivered()
        && evidence.is_in_time(n, exchange.end)
        && !evidence.was_killed(
            evidence.sent_from(n),
            exchange.end.saturating_add(NOTED).max(evidence.noted_by(exchange.end)),
        )
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

fn retry_after_answers(trace: &Trace) -> Vec<(u32, u32)> {
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
    // An answer of 500 or more does not say how much of the request was done.
    let is_sure = |one: &&Refused| !one.unknown && one.status.is_none_or(|status| status < 500);
    for one in trace.refused.iter().filter(is_sure) {
        find(one.token, &mut |event| event.refused += 1);
    }
    events
}

/// By its name, or because the scenario has no other lane.
pub(super) fn concerns(depth: &Depth, subscriber: &Subscriber, scenario: &Scenario) -> bool {
    depth.subscriber.as_ref().map_or(scenario.subscribers.len() == 1, |name| *name == subscriber.name)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// Its first byte.
    pub(crate) t: u64,
    pub(crate) lane: Option<u32>,
    pub(crate) outcome: Outcome,
    /// The answer's first byte, or the cut.
    pub(crate) begun: u64,
    pub(crate) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered { status: u16, whole: bool },
    Cut(CutKind),
    Open,
}

impl Exchange {
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { status: 200..=299, whole: true })
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self.outcome {
            Outcome::Answered { status, whole: true } => Some(status),
            _ => None,
        }
    }

    /// Its end is then known only as late as it was noticed.
    pub(crate) fn ended_by_peer(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Cut(CutKind::Blackhole | CutKind::PeerGone | CutKind::RunEnded)
                | Outcome::Open
                | Outcome::Answered { whole: false, .. }
        )
    }
}

/// An exchange without an answer or a cut ends with the run.
pub(super) fn exchanges(
    trace: &Trace,
    unread: &[&Cut],
    names: &BTreeMap<&str, u32>,
    end: u64,
) -> Vec<Exchange> {
    let open = |arrival: &crate::trace::Arrival| Exchange {
        t: arrival.t,
        lane: names.get(arrival.endpoint.as_str()).copied(),
        outcome: Outcome::Open,
        begun: end.max(arrival.t),
        end: end.max(arrival.t),
    };
    let mut exchanges: Vec<Exchange> = Vec::with_capacity(trace.arrivals.len() + unread.len());
    exchanges.extend(trace.arrivals.iter().map(open));
    for cut in &trace.cuts {
        let at = cut.n.and_then(|n| usize::try_from(n).ok());
        if let Some(exchange) = at.and_then(|at| exchanges.get_mut(at)) {
            let t = cut.t.max(exchange.t);
            (exchange.outcome, exchange.begun, exchange.end) = (Outcome::Cut(cut.how), t, t);
        }
    }
    for answer in &trace.answers {
        let at = usize::try_from(answer.n).unwrap_or(usize::MAX);
        if let Some(exchange) = exchanges.get_mut(at) {
            exchange.outcome = Outcome::Answered { status: answer.status, whole: answer.whole };
            (exchange.begun, exchange.end) = (answer.t, answer.end);
        }
    }
    exchanges.extend(unread.iter().filter_map(|cut| partial(cut, names)));
    exchanges
}

pub(super) fn unread(trace: &Trace) -> Vec<&Cut> {
    trace.cuts.iter().filter(|cut| cut.n.is_none() && cut.began.is_some()).collect()
}

fn partial(cut: &Cut, names: &BTreeMap<&str, u32>) -> Option<Exchange> {
    let t = cut.began?;
    let (lane, end) = (names.get(cut.endpoint.as_str()).copied(), cut.t.max(t));
    Some(Exchange { t, lane, outcome: Outcome::Cut(cut.how), begun: end, end })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) token: u64,
    pub(crate) offer: u32,
    pub(crate) offers: u32,
    pub(crate) accepted: Option<u64>,
    pub(crate) refused: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) lane: u32,
    pub(crate) token: u64,
    pub(super) range: Range<u32>,
    /// An index into `events`; none if the event was never offered.
    pub(crate) event: Option<u32>,
    pub(crate) owed: bool,
    /// An index into the trace's `dead`, if the sender lists it as a dead letter.
    pub(crate) dead: Option<u32>,
}

pub(super) fn deliveries(
    trace: &Trace,
    names: &BTreeMap<&str, u32>,
    exchanges: &[Exchange],
    events: &[Event],
) -> (Vec<u32>, Vec<Delivery>) {
    let carried = carried(trace, exchanges);
    let owed = owed(trace, names, events);
    let dead = dead(trace, names);
    let (mut at, mut owed) = (0, owed.into_iter().peekable());
    let mut deliveries = Vec::with_capacity(carried.len().max(owed.len()));
    loop {
        let seen = carried.get(at).map(|(token, lane, _)| (*lane, *token));
        let Some(place) = seen.into_iter().chain(owed.peek().copied()).min() else { break };
        let (lane, token) = place;
        let of_it = carried[at..].iter().take_while(|(token, lane, _)| (*lane, *token) == place).count();
        deliveries.push(Delivery {
            lane,
            token,
            range: small(at)..small(at + of_it),
            event: events.binary_search_by_key(&token, |event| event.token).ok().map(small),
            owed: owed.next_if_eq(&place).is_some(),
            dead: dead.get(&place).copied(),
        });
        at += of_it;
    }
    let mut attempts: Vec<u32> = carried.into_iter().map(|(.., n)| n).collect();
    // The vector was collected in place from items of four times the size.
    attempts.shrink_to_fit();
    (attempts, deliveries)
}

/// Token, lane and arrival, sorted by lane, token and time. A request with several events is an attempt of each; one
/// that was not read whole is none.
fn carried(trace: &Trace, exchanges: &[Exchange]) -> Vec<(u64, u32, u32)> {
    let mut carried = Vec::with_capacity(trace.arrivals.len());
    for (n, (arrival, exchange)) in (0..).zip(trace.arrivals.iter().zip(exchanges)) {
        let Some(lane) = exchange.lane else { continue };
        let tokens = arrival.token.iter().chain(&arrival.more);
        carried.extend(tokens.map(|token| (*token, lane, n)));
    }
    let t = |n: u32| (exchanges[n as usize].t, n);
    carried.sort_unstable_by(|one: &(u64, u32, u32), other| {
        (one.1, one.0).cmp(&(other.1, other.0)).then_with(|| t(one.2).cmp(&t(other.2)))
    });
    carried
}

fn owed(trace: &Trace, names: &BTreeMap<&str, u32>, events: &[Event]) -> Vec<(u32, u64)> {
    let mut owed = Vec::new();
    for event in events {
        let to = &trace.offers[event.offer as usize].owed;
        owed.extend(to.iter().filter_map(|name| Some((*names.get(name.as_str())?, event.token))));
    }
    owed.sort_unstable();
    owed.dedup();
    owed
}

/// By lane and token. If a sender doesn't show the body, the id of its requests identifies the event.
fn dead(trace: &Trace, names: &BTreeMap<&str, u32>) -> BTreeMap<(u32, u64), u32> {
    let anonymous = trace.dead.iter().any(|dead| dead.token.is_none());
    let mut ids: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    if anonymous {
        let named = trace.arrivals.iter().filter_map(|one| Some((one.id.as_deref()?, one.token?, one)));
        ids.extend(named.map(|(id, token, arrival)| ((arrival.endpoint.as_str(), id), token)));
    }
    let places = (0..).zip(&trace.dead).filter_map(|(at, dead)| {
        let lane = *names.get(dead.subscriber.as_str())?;
        let by_id = || ids.get(&(dead.subscriber.as_str(), dead.id.as_deref()?)).copied();
        Some(((lane, dead.token.or_else(by_id)?), at))
    });
    places.collect()
}

/// The stored form of an index: a trace of four thousand million lines does not fit into memory.
pub(super) fn small(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
