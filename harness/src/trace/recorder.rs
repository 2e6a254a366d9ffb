//! Where everybody who sees something says so: a bounded queue to the thread that writes the trace.
//!
//! Nobody ever waits for the disk. What finds the queue full is not kept, and counted: a trace that lacks lines says how
//! many, and is inconclusive.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ledger::Ledger;
use super::{Arrival, Depth, End, Fault, Header, Record, Writer};
use crate::clock::Clock;

/// Records that may wait for the disk. At some 500 bytes each this is the bound on a run's memory for them.
pub const QUEUE_MAX: usize = 100_000;

/// How long the thread that writes lets records gather once it has written all. To wake it costs whoever keeps a record more
/// than the record, and takes the processor from those who are to be measured.
const GATHERED_NS: u64 = 1_000_000;

/// Takes records from anywhere. Copies are the same.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: SyncSender<Message>,
    /// How many arrivals there were. Held while one is queued, so that their numbers are in the order of the trace.
    arrivals: Mutex<u64>,
    tally: Tally,
    /// What the sender still owes, where it can't be asked.
    ledger: Mutex<Option<Ledger>>,
    lately: Mutex<Lately>,
    /// Whether nobody writes any more.
    is_broken: AtomicBool,
}

/// What has been seen so far, kept or not.
#[derive(Debug, Default)]
pub struct Tally {
    /// Events offered.
    pub offers: AtomicU64,
    /// Events that the sender took.
    pub accepted: AtomicU64,
    /// Events that it did not take.
    pub refused: AtomicU64,
    /// Requests that were answered 2xx.
    pub delivered: AtomicU64,
    /// Exchanges with an endpoint that are over.
    pub ended: AtomicU64,
    /// When something came to an endpoint last.
    pub came: AtomicU64,
    /// Events of the schedule that were never written to the sender's API.
    pub unoffered: AtomicU64,
    /// Records that could not be kept.
    pub dropped: AtomicU64,
}

/// What went on lately, for whoever watches the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lately {
    /// The lane for which most waited in the latest sample: when that was, who, how much.
    pub(crate) worst: Option<(u64, String, u64)>,
    /// The latest fault.
    pub(crate) fault: Option<Fault>,
}

impl Lately {
    fn note(&mut self, record: &Record) {
        match record {
            Record::Depth(Depth { t, subscriber: Some(name), waiting: Some(waiting), .. }) => {
                let is_worse = |(at, _, most): &(u64, String, u64)| at < t || (at == t && most < waiting);
                if self.worst.as_ref().is_none_or(is_worse) {
                    self.worst = Some((*t, name.clone(), *waiting));
                }
            }
            Record::Fault(fault) => self.fault = Some(fault.clone()),
            _ => {}
        }
    }
}

/// What the writing thread is told.
#[derive(Debug)]
pub enum Message {
    /// The run begins: write this first, and what was kept before it after it.
    Begin(Box<Header>),
    /// Write this.
    Record(Box<Record>),
    /// Write out what is held back, and say so.
    Flush(SyncSender<()>),
    /// Write the trailer, and end.
    End(End),
}

impl Recorder {
    /// A recorder, and the other end of its queue.
    #[must_use]
    pub fn new(queue_max: usize) -> (Self, Receiver<Message>) {
        let (queue, messages) = sync_channel(queue_max);
        let (arrivals, tally, is_broken) = (Mutex::new(0), Tally::default(), AtomicBool::new(false));
        let (ledger, lately) = (Mutex::default(), Mutex::default());
        (Self(Arc::new(Inner { queue, arrivals, tally, ledger, lately, is_broken })), messages)
    }

    /// Keeps account, from now on, of what the sender owes.
    pub(crate) fn account(&self, ledger: Ledger) {
        *self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner) = Some(ledger);
    }

    /// How many deliveries the sender still owes, where account is kept.
    pub(crate) fn owed(&self) -> Option<usize> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Ledger::open)
    }

    /// A recorder whose records go to a sink, by a thread that ends with [`Recorder::end`].
    pub fn writing<W: Write + Send + 'static>(sink: W) -> io::Result<(Self, JoinHandle<io::Result<W>>)> {
        let (recorder, messages) = Self::new(QUEUE_MAX);
        let writer = std::thread::Builder::new().name("trace".to_owned());
        let writer = writer.spawn(move || write(sink, &messages))?;
        Ok((recorder, writer))
    }

    /// Begins the trace. Waits for room in the queue, which there is before a run has begun.
    pub fn begin(&self, header: Header) {
        // Without a reader there is no trace to begin; its thread says why.
        let _ = self.0.queue.send(Message::Begin(Box::new(header)));
    }

    /// Keeps a record.
    pub fn keep(&self, record: Record) {
        let tally = &self.0.tally;
        let counter = match &record {
            Record::Offer(_) => Some(&tally.offers),
            Record::Accepted(_) => Some(&tally.accepted),
            Record::Refused(_) => Some(&tally.refused),
            Record::Unoffered(_) => Some(&tally.unoffered),
            Record::Answer(answer) if answer.whole && (200..300).contains(&answer.status) => {
                Some(&tally.delivered)
            }
            _ => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.note(&record);
        if let Err(error) = self.0.queue.try_send(Message::Record(Box::new(record))) {
            tally.dropped.fetch_add(1, Ordering::Relaxed);
            // Without a reader the run is over, or its disk has failed.
            if matches!(error, TrySendError::Disconnected(_)) {
                self.0.is_broken.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Notes what a record says of whether the world is quiet.
    fn note(&self, record: &Record) {
        let tally = &self.0.tally;
        match record {
            Record::Arrival(arrival) => drop(tally.came.fetch_max(arrival.read, Ordering::Relaxed)),
            Record::Cut(cut) if cut.n.is_none() => drop(tally.came.fetch_max(cut.t, Ordering::Relaxed)),
            Record::Answer(_) | Record::Cut(_) => drop(tally.ended.fetch_add(1, Ordering::Relaxed)),
            // Of these there are few.
            Record::Depth(_) | Record::Fault(_) => {
                self.0.lately.lock().unwrap_or_else(PoisonError::into_inner).note(record);
            }
            _ => {}
        }
        if let Some(ledger) = self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            ledger.note(record);
        }
    }

    /// Keeps an arrival and gives it its number.
    pub fn arrival(&self, mut arrival: Arrival) -> u64 {
        let mut count = self.0.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let n = *count;
        *count += 1;
        arrival.n = n;
        self.keep(Record::Arrival(arrival));
        n
    }

    /// Has the thread write out what it holds back, for somebody who reads along. Waits for that, a second at most, so it is
    /// for a thread that may; where the queue is full it is left.
    pub(crate) fn flush(&self) {
        let (done, flushed) = sync_channel(1);
        if self.0.queue.try_send(Message::Flush(done)).is_ok() {
            // Later or never, what is there by now is what is read.
            let _ = flushed.recv_timeout(Duration::from_secs(1));
        }
    }

    /// Ends the trace: the trailer comes after everything that was kept before. Waits for room in the queue, so it is for
    /// a thread that may.
    pub fn end(&self, end: End) {
        // Without a reader there is no trace to end; its thread says why.
        let _ = self.0.queue.send(Message::End(end));
    }

    /// Arrivals so far, kept or not.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        *self.0.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What went on lately.
    pub(crate) fn lately(&self) -> Lately {
        self.0.lately.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What has been seen so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.0.tally
    }

    /// Whether nobody writes any more, as seen by whoever kept a record last: the disk has failed.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Relaxed)
    }

    /// Records that could not be kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.tally.dropped.load(Ordering::Relaxed)
    }
}

/// Writes until told to end. When the sink fails, the queue's end goes away with it: what comes later is counted as lost.
fn write<W: Write>(sink: W, messages: &Receiver<Message>) -> io::Result<W> {
    let cut_short = || io::Error::other("the run ended without saying how");
    // Before a run begins there is little to say: processes that start.
    let mut early = Vec::new();
    let header = loop {
        match messages.recv().map_err(|_| cut_short())? {
            Message::Begin(header) => break header,
            Message::Record(record) => early.push(record),
            // Nothing is held back: there is nothing yet.
            Message::Flush(_) => {}
            Message::End(_) => return Err(cut_short()),
        }
    };
    let mut writer = Writer::new(sink, *header)?;
    early.iter().try_for_each(|record| writer.write(record))?;
    let clock = Clock::begun();
    loop {
        let message = match messages.try_recv() {
            Err(TryRecvError::Empty) => {
                clock.block_until(clock.now().saturating_add(GATHERED_NS));
                messages.recv()
            }
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Ok(message) => Ok(message),
        };
        match message.map_err(|_| cut_short())? {
            Message::Begin(_) => {}
            Message::Record(record) => writer.write(&record)?,
            Message::Flush(done) => {
                writer.flush()?;
                // Whoever asked may have given up.
                let _ = done.try_send(());
            }
            Message::End(end) => return writer.finish(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Cut, CutKind};

    fn cut(t: u64) -> Record {
        Record::Cut(Cut { t, endpoint: "a".into(), n: None, how: CutKind::Close, began: None, token: None })
    }

    #[test]
    fn what_finds_the_queue_full_is_counted_and_nobody_waits() {
        let (recorder, records) = Recorder::new(2);
        (0..5).for_each(|t| recorder.keep(cut(t)));
        assert!(recorder.dropped() == 3 && !recorder.is_broken());
        assert_eq!(records.try_iter().count(), 2);
        drop(records);
        recorder.keep(cut(9));
        assert_eq!(recorder.dropped(), 4);
        assert!(recorder.is_broken());
    }
}
