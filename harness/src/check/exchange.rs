//! A request at an endpoint, and what came of it.

use std::collections::BTreeMap;

use crate::trace::{Cut, CutKind, Trace};

/// What came of an arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// When its first byte was read.
    pub(crate) t: u64,
    pub(crate) lane: Option<u32>,
    pub(crate) outcome: Outcome,
    /// When its outcome began: the answer's first byte, or the cut.
    pub(crate) begun: u64,
    /// When it was over.
    pub(crate) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered { status: u16, whole: bool },
    Cut(CutKind),
    Open,
}

impl Exchange {
    /// Whether the endpoint took it, and said so in full.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { status: 200..=299, whole: true })
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self.outcome {
            Outcome::Answered { status, whole: true } => Some(status),
            _ => None,
        }
    }

    /// Whether the other side ended it, so that its end is known only as it was noticed.
    pub(crate) fn ended_by_peer(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Cut(CutKind::Blackhole | CutKind::PeerGone | CutKind::RunEnded)
                | Outcome::Open
                | Outcome::Answered { whole: false, .. }
        )
    }
}

/// What came of every arrival, by its number, and then of every request in `unread`. Of what has neither an answer nor a cut,
/// the end is that of the run.
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

/// A request that ended before it was read whole.
fn partial(cut: &Cut, names: &BTreeMap<&str, u32>) -> Option<Exchange> {
    let t = cut.began?;
    let (lane, end) = (names.get(cut.endpoint.as_str()).copied(), cut.t.max(t));
    Some(Exchange { t, lane, outcome: Outcome::Cut(cut.how), begun: end, end })
}
