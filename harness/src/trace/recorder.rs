//! Where everybody who sees something says so: what is recorded becomes a line of the trace at once, and the lines wait,
//! within bounds, for the thread that writes them.
//!
//! Nobody ever waits for the disk. What finds too many lines waiting is not kept, and counted: a trace that lacks lines says
//! how many, and is inconclusive. A line is made by whoever records it, since it is smaller than what it is made of, which
//! would have to be moved to another thread and freed there.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ledger::Ledger;
use super::lines::Lines;
use super::{Arrival, Depth, End, Fault, Header, Record, Writer};

/// Records that may wait for the disk. Most have some 500 bytes.
pub const QUEUE_MAX: usize = 100_000;
/// Bytes of them, as an offer names everybody to whom it is owed. As many may be on their way to the disk meanwhile.
const QUEUE_BYTES_MAX: usize = 256 << 20;

/// How long the thread that writes lets lines gather once it has written all. To wake it costs whoever keeps a record more
/// than the record, and takes the processor from those who are to be measured.
const GATHERED: Duration = Duration::from_millis(1);

thread_local! {
    /// The line of the record that is being kept. Nobody else waits while it is made, but arrivals for each other: they are
    /// numbered in the order of the trace.
    static LINE: RefCell<Lines> = RefCell::default();
}

/// Takes records from anywhere. Copies are the same.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    waiting: Arc<Mutex<Waiting>>,
    lines_max: usize,
    orders: Sender<Order>,
    /// How many arrivals there were. Held while one is kept, so that their numbers are in the order of the trace.
    arrivals: Mutex<u64>,
    tally: Tally,
    /// What the sender still owes, where it can't be asked.
    ledger: OnceLock<Mutex<Ledger>>,
    lately: Mutex<Lately>,
    /// Whether nobody writes any more.
    is_broken: AtomicBool,
}

/// What was kept and not taken.
#[derive(Debug, Default)]
struct Waiting {
    lines: Lines,
    /// Whether whoever takes them found none, and is to be told of the next.
    tell: bool,
    /// Whether nobody will take them.
    left: bool,
}

/// What was recorded, for whoever takes it. Dropped, what comes later is lost.
#[derive(Debug)]
pub struct Records {
    waiting: Arc<Mutex<Waiting>>,
    orders: Receiver<Order>,
}

/// What the writing thread is told.
#[derive(Debug)]
enum Order {
    /// The run begins: write this first, and what was kept before it after it.
    Begin(Box<Header>),
    /// There are lines again.
    Lines,
    /// Write out what is held back, and say so.
    Flush(SyncSender<()>),
    /// Write the trailer, and end.
    End(End),
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

impl Recorder {
    /// A recorder with which so many records may wait, and where they are taken.
    #[must_use]
    pub fn new(lines_max: usize) -> (Self, Records) {
        let (orders, ordered) = channel();
        let records = Records { waiting: Arc::default(), orders: ordered };
        let recorder = Self(Arc::new(Inner {
            waiting: Arc::clone(&records.waiting),
            lines_max,
            orders,
            arrivals: Mutex::new(0),
            tally: Tally::default(),
            ledger: OnceLock::new(),
            lately: Mutex::default(),
            is_broken: AtomicBool::new(false),
        }));
        (recorder, records)
    }

    /// Keeps account, from now on, of what the sender owes.
    pub(crate) fn account(&self, ledger: Ledger) {
        self.0.ledger.get_or_init(|| Mutex::new(ledger));
    }

    /// How many deliveries the sender still owes, where account is kept.
    pub(crate) fn owed(&self) -> Option<usize> {
        self.0.ledger.get().map(|ledger| lock(ledger).open())
    }

    /// A recorder whose records go to a sink, by a thread that ends with [`Recorder::end`].
    pub fn writing<W: Write + Send + 'static>(sink: W) -> io::Result<(Self, JoinHandle<io::Result<W>>)> {
        let (recorder, records) = Self::new(QUEUE_MAX);
        let writer = std::thread::Builder::new().name("trace".to_owned());
        let writer = writer.spawn(move || write(sink, &records))?;
        Ok((recorder, writer))
    }

    /// Begins the trace.
    pub fn begin(&self, header: Header) {
        // Without a writer there is no trace to begin; its thread says why.
        let _ = self.0.orders.send(Order::Begin(Box::new(header)));
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
        let kept = LINE.with_borrow_mut(|line| {
            line.clear();
            line.push(&record).is_ok() && self.put(line)
        });
        if !kept {
            tally.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets a line wait for whoever takes it; answers whether there is room for it, and somebody to take it.
    fn put(&self, line: &Lines) -> bool {
        let mut waiting = lock(&self.0.waiting);
        if waiting.left {
            // The run is over, or its disk has failed.
            self.0.is_broken.store(true, Ordering::Relaxed);
            return false;
        }
        let bytes = waiting.lines.text().len().saturating_add(line.text().len());
        if waiting.lines.counts.lines >= self.0.lines_max as u64 || bytes > QUEUE_BYTES_MAX {
            return false;
        }
        waiting.lines.append(line);
        let tell = std::mem::take(&mut waiting.tell);
        drop(waiting);
        if tell {
            // Who has left since finds the line there, and nobody reads it.
            let _ = self.0.orders.send(Order::Lines);
        }
        true
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
                lock(&self.0.lately).note(record);
            }
            _ => {}
        }
        if let Some(ledger) = self.0.ledger.get() {
            lock(ledger).note(record);
        }
    }

    /// Keeps an arrival and gives it its number.
    pub fn arrival(&self, mut arrival: Arrival) -> u64 {
        let mut count = lock(&self.0.arrivals);
        let n = *count;
        *count += 1;
        arrival.n = n;
        self.keep(Record::Arrival(arrival));
        n
    }

    /// Has the thread write out what it holds back, for somebody who reads along. Waits for that, a second at most, so it is
    /// for a thread that may.
    pub(crate) fn flush(&self) {
        let (done, flushed) = sync_channel(1);
        if self.0.orders.send(Order::Flush(done)).is_ok() {
            // Later or never, what is there by now is what is read.
            let _ = flushed.recv_timeout(Duration::from_secs(1));
        }
    }

    /// Ends the trace: the trailer comes after everything that was kept before.
    pub fn end(&self, end: End) {
        // Without a writer there is no trace to end; its thread says why.
        let _ = self.0.orders.send(Order::End(end));
    }

    /// Arrivals so far, kept or not.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        *lock(&self.0.arrivals)
    }

    /// What went on lately.
    pub(crate) fn lately(&self) -> Lately {
        lock(&self.0.lately).clone()
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

impl Records {
    /// Takes what was recorded since.
    ///
    /// # Panics
    /// Never: what was written as a record is one.
    #[must_use]
    pub fn take(&self) -> Vec<Record> {
        let mut lines = Lines::default();
        self.exchange(&mut lines);
        let text = lines.text().split_inclusive(|byte| *byte == b'\n');
        text.map(|line| serde_json::from_slice(line).expect("it was written as a record")).collect()
    }

    /// Takes the lines that wait, for which it leaves the room of others; answers whether there were any. If not, an order
    /// tells of the next.
    fn exchange(&self, lines: &mut Lines) -> bool {
        lines.clear();
        let mut waiting = lock(&self.waiting);
        std::mem::swap(&mut waiting.lines, lines);
        waiting.tell = lines.text().is_empty();
        !waiting.tell
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        lock(&self.waiting).left = true;
    }
}

/// What one thread left half done while it panicked is right all the same: nothing here is done in two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes until told to end. When the sink fails, what was recorded and is not written goes away with its other end, and
/// what comes later is counted as lost.
fn write<W: Write>(sink: W, records: &Records) -> io::Result<W> {
    let cut_short = || io::Error::other("the run ended without saying how");
    // Before a run begins there is little to say: processes that start. It waits.
    let header = loop {
        match records.orders.recv().map_err(|_| cut_short())? {
            Order::Begin(header) => break header,
            Order::Lines => {}
            // Nothing is held back: there is nothing yet.
            Order::Flush(_) => {}
            Order::End(_) => return Err(cut_short()),
        }
    };
    let mut writer = Writer::new(sink, *header)?;
    let mut lines = Lines::default();
    loop {
        let order = if records.exchange(&mut lines) {
            writer.append(&lines)?;
            records.orders.recv_timeout(GATHERED)
        } else {
            records.orders.recv().map_err(RecvTimeoutError::from)
        };
        match order {
            Err(RecvTimeoutError::Timeout) | Ok(Order::Begin(_) | Order::Lines) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(cut_short()),
            // What was kept before the order comes first.
            Ok(Order::Flush(done)) => {
                records.exchange(&mut lines);
                writer.append(&lines)?;
                writer.flush()?;
                // Whoever asked may have given up.
                let _ = done.try_send(());
            }
            Ok(Order::End(end)) => {
                records.exchange(&mut lines);
                writer.append(&lines)?;
                return writer.finish(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::trace::{ClockKind, Cut, CutKind, Ended, FORMAT, Offer, Shared, Text, Trace};
    use crate::wire::digest::sha256_hex;

    fn cut(t: u64) -> Record {
        Record::Cut(Cut { t, endpoint: "a".into(), n: None, how: CutKind::Close, began: None, token: None })
    }

    fn header() -> Header {
        Header {
            format: FORMAT,
            version: String::new(),
            scenario: String::new(),
            scenario_sha256: sha256_hex(b""),
            schedule_sha256: String::new(),
            seed: 1,
            driver: String::new(),
            clock: ClockKind::Virtual,
            clock_resolution_ns: 1,
            began_unix_ns: 0,
            scenario_toml: String::new(),
        }
    }

    fn end() -> End {
        End { t: 0, ended: Ended::Done, dead_listed: false, late: 0, dropped: 0 }
    }

    #[test]
    fn what_finds_the_queue_full_is_counted_and_nobody_waits() {
        let (recorder, records) = Recorder::new(2);
        (0..5).for_each(|t| recorder.keep(cut(t)));
        assert!(recorder.dropped() == 3 && !recorder.is_broken());
        assert_eq!(records.take(), [cut(0), cut(1)]);
        drop(records);
        recorder.keep(cut(9));
        assert_eq!(recorder.dropped(), 4);
        assert!(recorder.is_broken());
    }

    #[test]
    fn the_queue_is_bounded_in_bytes_as_well() {
        const EACH: usize = 32 << 20;
        let (recorder, records) = Recorder::new(QUEUE_MAX);
        let owed: Shared<[Text]> = vec![Text::from("x".repeat(EACH))].into();
        let (kind, key) = (Text::from("a"), Text::from("b"));
        for token in 0..QUEUE_BYTES_MAX as u64 / EACH as u64 {
            let (kind, key, owed) = (kind.clone(), key.clone(), owed.clone());
            recorder.keep(Record::Offer(Offer { t: 1, intended: 1, held: 0, token, kind, key, owed }));
        }
        recorder.keep(cut(1));
        assert_eq!(recorder.dropped(), 1, "the last offer, which has some letters more than room");
        assert_eq!(records.take().len(), QUEUE_BYTES_MAX / EACH);
    }

    #[test]
    fn what_several_threads_record_before_and_in_a_run_is_all_in_its_trace() {
        let (recorder, writer) = Recorder::writing(Vec::new()).unwrap();
        recorder.keep(cut(0));
        recorder.begin(header());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..=2_000).for_each(|t| recorder.keep(cut(t))));
            }
        });
        recorder.end(end());
        let trace = Trace::read(&writer.join().unwrap().unwrap()[..]).unwrap();
        let mut times: Vec<u64> = trace.cuts.iter().map(|cut| cut.t).collect();
        times.sort_unstable();
        let recorded = std::iter::once(0).chain((1..=2_000).flat_map(|t| [t; 4]));
        assert!(times.into_iter().eq(recorded));
        assert_eq!(trace.trailer.unwrap().lines, 8_002, "with the header");
        recorder.keep(cut(9));
        assert!(recorder.is_broken(), "the trace has ended");
    }

    /// A sink that hands on what it is given.
    struct Told(mpsc::Sender<String>);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8_lossy(bytes).into_owned()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_recorded_after_a_while_of_silence_is_written_without_being_asked_for() {
        let (told, written) = mpsc::channel();
        let (recorder, writer) = Recorder::writing(Told(told)).unwrap();
        recorder.begin(header());
        let next = || written.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(next().starts_with(r#"{"k":"header""#));
        for t in 1..=3 {
            // Whoever writes has found nothing more before the next is recorded.
            while !lock(&recorder.0.waiting).tell {
                std::thread::yield_now();
            }
            recorder.keep(cut(t));
            assert!(next().contains(&format!("\"t\":{t}")));
        }
        recorder.end(end());
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn a_trace_that_nobody_can_end_any_more_is_cut_short() {
        let (recorder, writer) = Recorder::writing(io::sink()).unwrap();
        recorder.begin(header());
        drop(recorder);
        assert!(writer.join().unwrap().is_err());
    }
}
