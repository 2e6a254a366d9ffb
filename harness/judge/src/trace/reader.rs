//! A trace in memory. The reader refuses an invalid trace, and marks one without a trailer as cut short: its
//! run died, and no check may pass on it.
//!
//! It refuses:
//!
//! - a missing header, another version's format, a line that is no record;
//! - times that run back by more than [`DISORDER`], the longest delay between the threads that record;
//! - an answer without its arrival, or two to one; an outcome without its offer, or an offer without its
//!   outcome;
//! - counts that differ from the trailer's, lines after it, a scenario with another SHA-256.
//!
//! It drops offers that the harness could not hand over, and, where the trailer counts lost records, the
//! lines that refer to those (`holes`).

use std::collections::{BTreeMap, BTreeSet};

use super::fault::{Fault, Process, Undone};
use super::harness::{Declared, Offset, Reached, Stall, Unoffered};
use super::machine::Host;
use super::record::{
    Accepted, Answer, Arrival, Cut, Ended, Header, Offer, Record, Refused, SharedSecret, Trailer,
};
use super::said::{Dead, Depth};
use crate::scenario::SECOND;

/// The format that this version writes and reads.
pub const FORMAT: u32 = 2;
/// How far a line's time may precede that of an earlier line, in nanoseconds.
pub const DISORDER: u64 = 2 * SECOND;
/// The most bytes that are read, decompressed: the whole trace stays in memory.
pub(super) const BYTES_MAX: u64 = 8 << 30;

/// A whole trace in memory: one list for each kind, in the order of its lines; arrivals by number.
#[derive(Clone, Debug)]
pub struct Trace {
    pub header: Header,
    pub offers: Vec<Offer>,
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refused>,
    /// Requests, by number: `arrivals[n].n == n`.
    pub arrivals: Vec<Arrival>,
    pub answers: Vec<Answer>,
    /// Exchanges that ended without an answer.
    pub cuts: Vec<Cut>,
    pub faults: Vec<Fault>,
    pub processes: Vec<Process>,
    pub depths: Vec<Depth>,
    pub dead: Vec<Dead>,
    /// Secrets that several subscribers have.
    pub shared: Vec<SharedSecret>,
    pub host: Host,
    /// The driver file's declarations; without any, the sender lacks nothing.
    pub declared: Declared,
    pub stalls: Vec<Stall>,
    pub unoffered: Vec<Unoffered>,
    pub undone: Vec<Undone>,
    /// The way to the endpoints, and the requests that matched none.
    pub reached: Reached,
    /// The offset of the sender's clock, if known.
    pub offset: Option<Offset>,
    /// The last line; none if the trace was cut short.
    pub trailer: Option<Trailer>,
}

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("reading the trace failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("the trace is empty; expected a header in its first line")]
    Empty,
    #[error("the trace has no header; expected one in its first line")]
    NoHeader,
    /// Another version wrote it.
    #[error("the trace has format {0}; expected {FORMAT}: judge it with the version that wrote it")]
    Format(u32),
    #[error("the trace is larger than {} GiB; expected a smaller one, of a shorter run", BYTES_MAX >> 30)]
    Large,
    #[error("line {line} of the trace is no record: {why}")]
    Line {
        /// The number of the line, from 1.
        line: u64,
        why: String,
    },
    /// Its records contradict each other.
    #[error("the trace contradicts itself: {0}")]
    Contradiction(String),
}

impl Trace {
    #[must_use]
    pub fn of(header: Header) -> Self {
        Self {
            header,
            offers: Vec::new(),
            accepted: Vec::new(),
            refused: Vec::new(),
            arrivals: Vec::new(),
            answers: Vec::new(),
            cuts: Vec::new(),
            faults: Vec::new(),
            processes: Vec::new(),
            depths: Vec::new(),
            dead: Vec::new(),
            shared: Vec::new(),
            host: Host::default(),
            declared: Declared::default(),
            stalls: Vec::new(),
            unoffered: Vec::new(),
            undone: Vec::new(),
            reached: Reached::default(),
            offset: None,
            trailer: None,
        }
    }

    pub(super) fn add(&mut self, record: Record, lines: u64) -> Result<(), TraceError> {
        match record {
            Record::Header(_) => {
                return Err(TraceError::Line { line: lines + 1, why: "it is a second header".to_owned() });
            }
            Record::Offer(one) => self.offers.push(one),
            Record::Accepted(one) => self.accepted.push(one),
            Record::Refused(one) => self.refused.push(one),
            Record::Arrival(one) => self.arrivals.push(one),
            Record::Answer(one) => self.answers.push(one),
            Record::Cut(one) => self.cuts.push(one),
            Record::Fault(one) => self.faults.push(one),
            Record::Process(one) => self.processes.push(one),
            Record::Depth(one) => self.depths.push(one),
            Record::Dead(one) => self.dead.push(one),
            Record::SharedSecret(one) => self.shared.push(one),
            Record::Ceiling(one) => self.host.ceiling = Some(one),
            Record::Machine(one) => self.host.machine = Some(one),
            Record::ClockSet(one) => self.host.clock_sets.push(one),
            Record::Declared(one) => self.declared = one,
            Record::Stall(one) => self.stalls.push(one),
            Record::Unoffered(one) => self.unoffered.push(one),
            Record::Offset(one) => self.offset = Some(one),
            Record::Public(one) => self.reached.public = Some(one),
            Record::Stray(one) => self.reached.strays.push(one),
            Record::Handshake(one) => self.reached.handshakes.push(one),
            Record::Undone(one) => {
                one.take_back(&mut self.faults, &mut self.processes);
                self.undone.push(one);
            }
            Record::Trailer(one) => {
                count("lines", one.lines, lines)?;
                count("offers", one.offers, self.offers.len() as u64)?;
                count("arrivals", one.arrivals, self.arrivals.len() as u64)?;
                self.trailer = Some(one);
            }
        }
        Ok(())
    }

    /// Checks the whole trace.
    ///
    /// # Errors When a record refers to a missing one, or a cause comes after its effect.
    pub fn settle(&mut self) -> Result<(), TraceError> {
        self.leave_out_unoffered();
        self.close_holes();
        self.arrivals.sort_by_key(|arrival| arrival.n);
        self.begin_connections();
        for (at, arrival) in self.arrivals.iter().enumerate() {
            if arrival.n != at as u64 {
                return contradiction(format!("arrival {at} is missing or there twice"));
            }
            if arrival.read < arrival.t {
                return contradiction(format!("arrival {at} was read before it came"));
            }
        }
        let came =
            |n: u64| usize::try_from(n).ok().and_then(|n| self.arrivals.get(n)).map(|arrival| arrival.t);
        for answer in &self.answers {
            match came(answer.n) {
                Some(t) if t <= answer.t && answer.t <= answer.end => {}
                Some(_) => return contradiction(format!("arrival {} was answered before it came", answer.n)),
                None => return contradiction(format!("an answer to arrival {}, which never came", answer.n)),
            }
        }
        if let Some(n) = self.cuts.iter().filter_map(|cut| cut.n).find(|n| came(*n).is_none()) {
            return contradiction(format!("a cut of arrival {n}, which never came"));
        }
        let mut answered: Vec<u64> = self.answers.iter().map(|answer| answer.n).collect();
        answered.sort_unstable();
        if let Some(pair) = answered.windows(2).find(|pair| pair[0] == pair[1]) {
            return contradiction(format!("two answers to arrival {}", pair[0]));
        }
        self.outcomes()?;
        self.nothing_later()
    }

    /// Drops the offers that the harness could not hand over, which it learns only after it has recorded the
    /// offer. They stay until the trailer is read, since the trailer counts them.
    fn leave_out_unoffered(&mut self) {
        if self.trailer.is_none() || self.unoffered.is_empty() {
            return;
        }
        // An event that is offered twice has two intended moments.
        let unoffered: BTreeSet<_> = self.unoffered.iter().map(|one| (one.token, one.intended)).collect();
        self.offers.retain(|offer| !unoffered.contains(&(offer.token, offer.intended)));
    }

    /// Sorts handshakes, and finds the first arrival on each connection.
    fn begin_connections(&mut self) {
        let handshakes = &mut self.reached.handshakes;
        handshakes.sort_by_key(|one| one.connection);
        if handshakes.is_empty() {
            return;
        }
        for arrival in &self.arrivals {
            let at = handshakes.binary_search_by_key(&arrival.connection, |one| one.connection);
            if let Ok(at) = at {
                handshakes[at].first.get_or_insert(arrival.n);
            }
        }
    }

    /// Every offer has exactly one outcome. In a run that was not done, some have none.
    fn outcomes(&self) -> Result<(), TraceError> {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for offer in &self.offers {
            *left.entry(offer.token).or_default() += 1;
        }
        let outcomes =
            self.accepted.iter().map(|one| one.token).chain(self.refused.iter().map(|one| one.token));
        for token in outcomes {
            match left.get_mut(&token) {
                Some(0) => return contradiction(format!("more outcomes for event {token} than offers")),
                Some(count) => *count -= 1,
                None => {
                    return contradiction(format!("an outcome for event {token}, which was never offered"));
                }
            }
        }
        let whole = |trailer: &Trailer| trailer.ended == Ended::Done && trailer.dropped == 0;
        let open = left.iter().find(|(_, count)| **count > 0);
        match open.filter(|_| self.trailer.as_ref().is_some_and(whole)) {
            Some((token, _)) => {
                contradiction(format!("no outcome for event {token}, in a run that was done"))
            }
            None => Ok(()),
        }
    }

    /// No record comes later than the run's end by more than [`DISORDER`].
    fn nothing_later(&self) -> Result<(), TraceError> {
        let Some(trailer) = &self.trailer else { return Ok(()) };
        let ends = [
            self.arrivals.iter().map(|one| one.read).max(),
            self.answers.iter().map(|one| one.end).max(),
            self.offers.iter().map(|one| one.t).max(),
        ];
        match ends.into_iter().flatten().max().filter(|t| *t > trailer.t.saturating_add(DISORDER)) {
            Some(t) => contradiction(format!("the run ended at {} ns, and a line is of {t} ns", trailer.t)),
            None => Ok(()),
        }
    }
}

fn contradiction(what: String) -> Result<(), TraceError> {
    Err(TraceError::Contradiction(what))
}

fn count(what: &str, said: u64, found: u64) -> Result<(), TraceError> {
    if said == found {
        return Ok(());
    }
    contradiction(format!("the trailer counts {said} {what}, and there are {found}"))
}
