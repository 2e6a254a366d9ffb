//! Turns records of every thread into lines at once, and queues these, within bounds, for the thread that writes them.
//!
//! No recording thread ever waits for the disk. A record that meets a full queue is dropped and counted, and such a
//! trace is inconclusive. The recording thread serializes, since a line is smaller than its record and moves more
//! cheaply.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ledger::Ledger;
use super::writer::Lines;
use super::{Arrival, Depth, End, Fault, Header, Record, Writer};

/// Records that may wait for the disk. Most have some 500 bytes.
pub const QUEUE_MAX: usize = 100_000;
/// Bytes that may wait; an offer names all of its subscribers. The writer may hold as many again.
const QUEUE_BYTES_MAX: usize = 256 << 20;

/// A wakeup costs the recording thread more than the record does, and takes processor time from the sender under test.
const GATHERED: Duration = Duration::from_millis(1);

thread_local! {
    /// The line of the record in hand. Only arrivals wait for each other: they are numbered in the order of
    /// the trace.
    static LINE: RefCell<Lines> = RefCell::default();
}

/// Takes records from any thread. Clones share one trace.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    waiting: Arc<Mutex<Waiting>>,
    lines_max: usize,
    orders: Sender<Order>,
    /// The number of arrivals. Locked while one is recorded, so that numbers follow the order of the trace.
    arrivals: Mutex<u64>,
    tally: Tally,
    ledger: OnceLock<Mutex<Ledger>>,
    lately: Mutex<Lately>,
    is_broken: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Lines,
    /// Whether the writer waits for a notification.
    tell: bool,
    left: bool,
}

#[derive(Debug)]
pub struct Records {
    waiting: Arc<Mutex<Waiting>>,
    orders: Receiver<Order>,
}

#[derive(Debug)]
enum Order {
    /// The run begins: write this first, then the lines recorded earlier.
    Begin(Box<Header>),
    Lines,
    Flush(SyncSender<()>),
    End(End),
}

/// So far, including dropped records.
#[derive(Debug, Default)]
pub struct Tally {
    pub offers: AtomicU64,
    pub accepted: AtomicU64,
    pub refused: AtomicU64,
    pub delivered: AtomicU64,
    pub ended: AtomicU64,
    pub came: AtomicU64,
    pub unoffered: AtomicU64,
    pub dropped: AtomicU64,
}

#[derive(Clone, Debug, Default)]
pub struct Lately {
    /// The longest queue of the latest sample: time, lane, deliveries.
    pub worst: Option<(u64, String, u64)>,
    pub fault: Option<Fault>,
}

impl Lately {
    fn update(&mut self, record: &Record) {
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

    pub fn account(&self, ledger: Ledger) {
        self.0.ledger.get_or_init(|| Mutex::new(ledger));
    }

    pub fn owed(&self) -> Option<usize> {
        self.0.ledger.get().map(|ledger| lock(ledger).open())
    }

    /// Writes on a thread of its own, until [`Recorder::end`].
    pub fn writing<W: Write + Send + 'static>(sink: W) -> io::Result<(Self, JoinHandle<io::Result<W>>)> {
        let (recorder, records) = Self::new(QUEUE_MAX);
        let writer = std::thread::Builder::new().name("trace".to_owned());
        let writer = writer.spawn(move || write(sink, &records))?;
        Ok((recorder, writer))
    }

    pub fn begin(&self, header: Header) {
        // Without a writer there is no trace to begin; its thread reports why.
        let _ = self.0.orders.send(Order::Begin(Box::new(header)));
    }

    pub fn record(&self, record: Record) {
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
        self.update_tally(&record);
        let kept = LINE.with_borrow_mut(|line| {
            line.clear();
            line.push(&record).is_ok() && self.put(line)
        });
        if !kept {
            tally.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn put(&self, line: &Lines) -> bool {
        let mut waiting = lock(&self.0.waiting);
        if waiting.left {
            // The run is over, or its disk failed.
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
            // A writer that has left since loses this line.
            let _ = self.0.orders.send(Order::Lines);
        }
        true
    }

    fn update_tally(&self, record: &Record) {
        let tally = &self.0.tally;
        match record {
            Record::Arrival(arrival) => drop(tally.came.fetch_max(arrival.read, Ordering::Relaxed)),
            Record::Cut(cut) if cut.n.is_none() => drop(tally.came.fetch_max(cut.t, Ordering::Relaxed)),
            Record::Answer(_) | Record::Cut(_) => drop(tally.ended.fetch_add(1, Ordering::Relaxed)),
            Record::Depth(_) | Record::Fault(_) => {
                lock(&self.0.lately).update(record);
            }
            _ => {}
        }
        if let Some(ledger) = self.0.ledger.get() {
            lock(ledger).apply(record);
        }
    }

    /// Returns its number.
    pub fn arrival(&self, mut arrival: Arrival) -> u64 {
        let mut count = lock(&self.0.arrivals);
        let n = *count;
        *count += 1;
        arrival.n = n;
        self.record(Record::Arrival(arrival));
        n
    }

    /// Makes the writer flush, for a reader that follows the trace. Blocks for at most a second.
    pub fn flush(&self) {
        let (done, flushed) = sync_channel(1);
        if self.0.orders.send(Order::Flush(done)).is_ok() {
            // The reader takes the lines that are there by then.
            let _ = flushed.recv_timeout(Duration::from_secs(1));
        }
    }

    /// The trailer comes after all earlier records.
    pub fn end(&self, end: End) {
        let _ = self.0.orders.send(Order::End(end));
    }

    #[must_use]
    pub fn arrivals(&self) -> u64 {
        *lock(&self.0.arrivals)
    }

    pub fn lately(&self) -> Lately {
        lock(&self.0.lately).clone()
    }

    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.0.tally
    }

    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.tally.dropped.load(Ordering::Relaxed)
    }
}

impl Records {
    /// Takes the records since the last call.
    ///
    /// # Panics
    ///
    /// Never: each line was written as a record.
    #[must_use]
    pub fn take(&self) -> Vec<Record> {
        let mut lines = Lines::default();
        self.exchange(&mut lines);
        let text = lines.text().split_inclusive(|byte| *byte == b'\n');
        text.map(|line| serde_json::from_slice(line).expect("it was written as a record")).collect()
    }

    /// Takes the waiting lines in exchange for the buffer in `lines`. If there are none, the next one sends
    /// an order.
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

/// Ignores poisoning: no thread leaves these values half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes until the end is ordered. When the sink fails, waiting lines are lost and later ones count as
/// dropped.
fn write<W: Write>(sink: W, records: &Records) -> io::Result<W> {
    let cut_short = || io::Error::other("the run ended without a trailer");
    let header = loop {
        match records.orders.recv().map_err(|_| cut_short())? {
            Order::Begin(header) => break header,
            Order::Lines => {}
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
            // Lines recorded before the order come first.
            Ok(Order::Flush(done)) => {
                records.exchange(&mut lines);
                writer.append(&lines)?;
                writer.flush()?;
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
    use crate::signature::sha256_hex;
    use crate::trace::{ClockKind, Cut, CutKind, Ended, FORMAT, Offer, Shared, Text, Trace};

    fn cut(t: u64) -> Record {
        Record::Cut(Cut {
            t,
            endpoint: "a".into(),
            n: None,
            how: CutKind::Close,
            began: None,
            token: None,
            why: None,
        })
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
    fn a_record_beyond_a_full_queue_is_counted_and_blocks_no_caller() {
        let (recorder, records) = Recorder::new(2);
        (0..5).for_each(|t| recorder.record(cut(t)));
        assert!(recorder.dropped() == 3 && !recorder.is_broken());
        assert_eq!(records.take(), [cut(0), cut(1)]);
        drop(records);
        recorder.record(cut(9));
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
            recorder.record(Record::Offer(Offer { t: 1, intended: 1, held: 0, token, kind, key, owed }));
        }
        recorder.record(cut(1));
        assert_eq!(recorder.dropped(), 1, "the last offer, which has some letters more than room");
        assert_eq!(records.take().len(), QUEUE_BYTES_MAX / EACH);
    }

    #[test]
    fn records_of_several_threads_before_and_in_a_run_reach_its_trace() {
        let (recorder, writer) = Recorder::writing(Vec::new()).unwrap();
        recorder.record(cut(0));
        recorder.begin(header());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..=2_000).for_each(|t| recorder.record(cut(t))));
            }
        });
        recorder.end(end());
        let trace = Trace::read(&writer.join().unwrap().unwrap()[..]).unwrap();
        let mut times: Vec<u64> = trace.cuts.iter().map(|cut| cut.t).collect();
        times.sort_unstable();
        let recorded = std::iter::once(0).chain((1..=2_000).flat_map(|t| [t; 4]));
        assert!(times.into_iter().eq(recorded));
        assert_eq!(trace.trailer.unwrap().lines, 8_002, "with the header");
        recorder.record(cut(9));
        assert!(recorder.is_broken(), "the trace has ended");
    }

    struct ForwardingSink(mpsc::Sender<String>);

    impl Write for ForwardingSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8_lossy(bytes).into_owned()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_record_after_a_pause_is_written_without_a_flush() {
        let (told, written) = mpsc::channel();
        let (recorder, writer) = Recorder::writing(ForwardingSink(told)).unwrap();
        recorder.begin(header());
        let next = || written.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(next().starts_with(r#"{"k":"header""#));
        for t in 1..=3 {
            // The writer must find the queue empty before the next record.
            while !lock(&recorder.0.waiting).tell {
                std::thread::yield_now();
            }
            recorder.record(cut(t));
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
