//! A trace in memory, and what is not taken for one: what is no trace is refused, what ends too early is called cut short.
//!
//! Refused are: a file without a header, a format of another version, a line that is no record, times that run back by
//! more than [`DISORDER`] (threads hand their lines over one after another; no thread waits that long), an answer
//! without its arrival or beside another, an outcome without its offer or an offer without its outcome, counts that are
//! not the trailer's, anything after it, and a scenario that is not the one of its SHA-256.
//! An offer that the harness itself could not hand over is none, and is left out.
//! Where the trailer says that records could not be kept, what refers to one of those is left out (`holes`).
//! Cut short is a trace without a trailer: a run that died. No check may pass on one.

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
/// How far times may run back from one line to a later one.
pub const DISORDER: u64 = 2 * SECOND;
/// The most that is read, decompressed: a trace lies in memory whole.
pub(super) const BYTES_MAX: u64 = 8 << 30;

/// A whole trace in memory, by kind, each kind in the order of its lines; arrivals by their number.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The first line.
    pub header: Header,
    /// Events that were written to the sender's API.
    pub offers: Vec<Offer>,
    /// Events that it took.
    pub accepted: Vec<Accepted>,
    /// Events that it didn't.
    pub refused: Vec<Refused>,
    /// Requests, by number: `arrivals[n].n == n`.
    pub arrivals: Vec<Arrival>,
    /// Answers.
    pub answers: Vec<Answer>,
    /// Exchanges without an answer.
    pub cuts: Vec<Cut>,
    /// What was done to the sender.
    pub faults: Vec<Fault>,
    /// What happened to its processes.
    pub processes: Vec<Process>,
    /// What it said of its queue.
    pub depths: Vec<Depth>,
    /// What it listed as given up.
    pub dead: Vec<Dead>,
    /// Secrets that several subscribers have.
    pub shared: Vec<SharedSecret>,
    /// What the run had beneath it.
    pub host: Host,
    /// What the driver file says of the sender; nothing lacks where the trace doesn't say.
    pub declared: Declared,
    /// When threads of the harness stood still.
    pub stalls: Vec<Stall>,
    /// Events that were never written to the sender's API.
    pub unoffered: Vec<Unoffered>,
    /// What was to be done to the sender and was not.
    pub undone: Vec<Undone>,
    /// How endpoints were reached, and what came to none of them.
    pub reached: Reached,
    /// How far the sender's clock is off, where that is known.
    pub offset: Option<Offset>,
    /// The last line; none if the trace was cut short.
    pub trailer: Option<Trailer>,
}

/// Why a trace is refused.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It can't be read.
    #[error("reading the trace failed: {0}")]
    Io(#[from] std::io::Error),
    /// There is nothing in it.
    #[error("the trace is empty; expected a header in its first line")]
    Empty,
    /// It doesn't begin with a header.
    #[error("the trace has no header; expected one in its first line")]
    NoHeader,
    /// Another version wrote it.
    #[error("the trace has format {0}; expected {FORMAT}: judge it with the version that wrote it")]
    Format(u32),
    /// It is too large.
    #[error("the trace is larger than {} GiB; expected a smaller one, of a shorter run", BYTES_MAX >> 30)]
    Large,
    /// A line is no record.
    #[error("line {line} of the trace is no record: {why}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// What it says doesn't fit together.
    #[error("the trace contradicts itself: {0}")]
    Contradiction(String),
}

impl Trace {
    /// A trace of which only the header is known so far.
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

    /// What can be seen only once all is read.
    ///
    /// # Errors
    /// When records refer to what isn't there, or causes come after their effects.
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

    /// Leaves out offers of events that the harness itself could not hand over: that is known only after the offer is written
    /// down. The trailer counts them, so they stay until it is read.
    fn leave_out_unoffered(&mut self) {
        if self.trailer.is_none() || self.unoffered.is_empty() {
            return;
        }
        // What is offered twice is intended for two moments.
        let unoffered: BTreeSet<_> = self.unoffered.iter().map(|one| (one.token, one.intended)).collect();
        self.offers.retain(|offer| !unoffered.contains(&(offer.token, offer.intended)));
    }

    /// Orders handshakes, and notes which arrival was the first on each connection.
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

    /// Every offer has an outcome, and no more than one. In a run that was not carried through, some have none.
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

    /// Nothing comes later than the run's end, but for what threads may be late.
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
