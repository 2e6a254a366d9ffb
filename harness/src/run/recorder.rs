//! Where everybody who sees something says so: a bounded queue to the thread that writes the trace.
//!
//! Nobody ever waits for the disk. What finds the queue full is not kept, and counted: a trace that lacks lines says how
//! many, and is inconclusive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::trace::{Arrival, Record};

/// Records that may wait for the disk. At some 500 bytes each this is the bound on a run's memory for them.
pub const QUEUE_MAX: usize = 200_000;

/// Takes records from anywhere. Copies are the same.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: SyncSender<Record>,
    /// How many arrivals there were. Held while one is queued, so that their numbers are in the order of the trace.
    arrivals: Mutex<u64>,
    offers: AtomicU64,
    dropped: AtomicU64,
}

impl Recorder {
    /// A recorder, and the other end of its queue.
    #[must_use]
    pub fn new(queue_max: usize) -> (Self, Receiver<Record>) {
        let (queue, records) = sync_channel(queue_max);
        let (arrivals, offers, dropped) = (Mutex::new(0), AtomicU64::new(0), AtomicU64::new(0));
        (Self(Arc::new(Inner { queue, arrivals, offers, dropped })), records)
    }

    /// Keeps a record.
    pub fn keep(&self, record: Record) {
        if matches!(record, Record::Offer(_)) {
            self.0.offers.fetch_add(1, Ordering::Relaxed);
        }
        match self.0.queue.try_send(record) {
            Ok(()) => {}
            // Without a reader the run is over, or its disk has failed; either way these are lines that the trace lacks.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
            }
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

    /// Arrivals so far, kept or not.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        *self.0.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers so far, kept or not.
    #[must_use]
    pub fn offers(&self) -> u64 {
        self.0.offers.load(Ordering::Relaxed)
    }

    /// Records that could not be kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Cut, CutKind};

    fn cut(t: u64) -> Record {
        Record::Cut(Cut { t, endpoint: "a".to_owned(), n: None, how: CutKind::Close })
    }

    #[test]
    fn what_finds_the_queue_full_is_counted_and_nobody_waits() {
        let (recorder, records) = Recorder::new(2);
        (0..5).for_each(|t| recorder.keep(cut(t)));
        assert_eq!(recorder.dropped(), 3);
        assert_eq!(records.try_iter().count(), 2);
        drop(records);
        recorder.keep(cut(9));
        assert_eq!(recorder.dropped(), 4);
    }
}
