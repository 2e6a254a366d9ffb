//! The units of a run: exchanges (a request and its end), events, deliveries, and the attempts of each delivery.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::trace::{Cut, CutKind, Trace};

/// A request with its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// When its first byte was read.
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
    /// Whether the endpoint answered 2xx in full.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { status: 200..=299, whole: true })
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self.outcome {
            Outcome::Answered { status, whole: true } => Some(status),
            _ => None,
        }
    }

    /// Whether the peer ended it, so that its end is known only as late as it was noticed.
    pub(crate) fn ended_by_peer(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Cut(CutKind::Blackhole | CutKind::PeerGone | CutKind::RunEnded)
                | Outcome::Open
                | Outcome::Answered { whole: false, .. }
        )
    }
}

/// The exchange of every arrival, by its number, then of every request in `unread`. An exchange without an
/// answer or a cut ends with the run.
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

/// The ends of requests that were not read whole.
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
    /// Its first offer, as an index into the trace's.
    pub(crate) offer: u32,
    pub(crate) offers: u32,
    pub(crate) accepted: Option<u64>,
    /// Offers that were refused and certainly not accepted.
    pub(crate) refused: u32,
}

/// One event owed to one subscriber, or received by it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) lane: u32,
    pub(crate) token: u64,
    /// Its attempts, as a range of the evidence's.
    pub(super) range: Range<u32>,
    /// An index into `events`; none if the event was never offered.
    pub(crate) event: Option<u32>,
    pub(crate) owed: bool,
    /// An index into the trace's `dead`, if the sender lists it as a dead letter.
    pub(crate) dead: Option<u32>,
}

/// Arrivals with a lane and a token, sorted by lane, token and time, and the deliveries with ranges of them,
/// sorted by lane and token.
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

/// Token, lane and arrival of each carried event, sorted by lane, token and time. A request with several
/// events is an attempt of each. A request that was not read whole is no attempt.
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

/// Every owed delivery as lane and token, sorted.
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

/// Dead letters by lane and token. If a sender doesn't show the body, the id of its requests identifies the
/// event.
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
