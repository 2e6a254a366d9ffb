//! From the schedule to the sender: the generator releases events, and callers write them to the sender's API.
//!
//! ```text
//!   intended ──► released ──────────────► a caller is free ──► written (the offer) ──► answered
//!            lag of the        the sender's delay: its       lag of the
//!            generator         earlier answers are awaited   harness
//! ```
//!
//! An event is offered when its call is written. An event that waits for a free caller waits for the sender; without
//! a call before the end it is `unoffered`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::{Accepted, GENERATOR, Offer, Record, Refused, Shared, Stall, Text, Unoffered};
use hookproof_play::traffic::{Due, Schedule, Tokens};
use tokio::sync::{Mutex, mpsc, watch};

use super::heartbeat::STALL_NS;
use crate::clock::Clock;
use crate::driver::{Api, EmitResult, Event};
use crate::traffic::{Lag, Pace, play};

/// An event counts as late from this lag on.
const LATE_NS: u64 = 50_000_000;

#[derive(Clone)]
pub(super) struct Emission {
    pub(super) api: Api,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    pub(super) schedule: Arc<Schedule>,
    pub(super) tokens: Tokens,
}

pub(super) struct Emitting {
    pub(super) generator: JoinHandle<Lag>,
    pub(super) callers: tokio::task::JoinSet<()>,
    /// Once true, a call without an answer is in doubt, and the rest is not emitted.
    pub(super) give_up: watch::Sender<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Released {
    due: Due,
    intended: u64,
    at: u64,
}

impl Released {
    /// A caller became free at `free`.
    const fn waited(&self, free: u64) -> u64 {
        free.saturating_sub(self.at)
    }
}

/// The generator's clock; records a stall when its thread oversleeps.
struct Paced {
    clock: Clock,
    recorder: Recorder,
}

impl Pace for Paced {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn wait(&self, until: u64) {
        self.clock.block_until(until);
        let now = self.clock.now();
        if now >= until.saturating_add(STALL_NS) {
            self.recorder.record(Record::Stall(Stall {
                thread: GENERATOR.to_owned(),
                from: until,
                until: now,
            }));
        }
    }
}

struct Waiting {
    queue: Mutex<Queue>,
    /// Subscribers by type, in the schedule's order.
    owed: Vec<Shared<[Text]>>,
}

struct Queue {
    released: mpsc::Receiver<Released>,
    /// It did not fit its batch, and begins the next one.
    next: Option<Released>,
}

impl Queue {
    /// At most `most` events, and `bytes_max` bytes unless one event alone exceeds that. False at the end.
    async fn take(&mut self, batch: &mut Vec<Released>, most: usize, bytes_max: u64) -> bool {
        let first = match self.next.take() {
            Some(first) => Some(first),
            None => self.released.recv().await,
        };
        let Some(first) = first else { return false };
        let mut bytes = u64::from(first.due.bytes);
        batch.push(first);
        while batch.len() < most
            && let Ok(one) = self.released.try_recv()
        {
            bytes = bytes.saturating_add(u64::from(one.due.bytes));
            if bytes > bytes_max {
                self.next = Some(one);
                break;
            }
            batch.push(one);
        }
        true
    }
}

impl Emission {
    /// The schedule begins at `begin`.
    pub(super) fn start(
        &self,
        scenario: &Scenario,
        begin: u64,
        stop: Arc<AtomicBool>,
    ) -> std::io::Result<Emitting> {
        // Room for the whole schedule, so that the generator never waits for the sender.
        let (release, released) = mpsc::channel::<Released>(self.schedule.due().len().max(1));
        let own = self.clone();
        let generator = std::thread::Builder::new().name(GENERATOR.to_owned()).spawn(move || {
            let hand_over = |due: &Due, intended, at| {
                // Without callers the run is over.
                let _ = release.try_send(Released { due: *due, intended, at });
            };
            let pace = Paced { clock: own.clock, recorder: own.recorder };
            play(&own.schedule, begin, &pace, &stop, Lag::new(LATE_NS), hand_over)
        })?;
        // Concurrent calls could reorder the events of a key.
        let keeps_order = self.api.file().declares.ordered != Some(false);
        let ordered = scenario.subscribers.iter().any(|subscriber| subscriber.handling.ordered);
        let count = if ordered && keeps_order { 1 } else { self.api.file().emit.calls };
        let waiting = Arc::new(Waiting {
            queue: Mutex::new(Queue { released, next: None }),
            owed: self.owed(scenario),
        });
        let mut callers = tokio::task::JoinSet::new();
        let (give_up, given_up) = watch::channel(false);
        for _ in 0..count {
            callers.spawn(self.clone().call(Arc::clone(&waiting), given_up.clone()));
        }
        Ok(Emitting { generator, callers, give_up })
    }

    pub(super) fn owed_in_all(&self, scenario: &Scenario) -> usize {
        let owed = self.owed(scenario);
        let kinds = self.schedule.due().iter().filter_map(|due| usize::try_from(due.kind).ok());
        kinds.filter_map(|kind| owed.get(kind)).map(|owed| owed.len()).sum()
    }

    fn owed(&self, scenario: &Scenario) -> Vec<Shared<[Text]>> {
        let to = |kind: &str| {
            let owed = scenario.subscribers.iter().filter(|subscriber| subscriber.is_owed(kind));
            owed.map(|subscriber| subscriber.name.as_str().into()).collect()
        };
        self.schedule.types().map(to).collect()
    }

    fn offer(&self, released: &Released, t: u64, free: u64, owed: &[Shared<[Text]>]) -> Offer {
        let Released { due, intended, .. } = released;
        let owed = usize::try_from(due.kind).ok().and_then(|at| owed.get(at)).cloned().unwrap_or_default();
        Offer {
            t,
            intended: *intended,
            held: released.waited(free),
            token: due.token,
            kind: self.schedule.kind(due).into(),
            key: self.schedule.key(due).into(),
            owed,
        }
    }

    /// In the largest batches that the driver allows, until the channel closes.
    async fn call(self, waiting: Arc<Waiting>, mut given_up: watch::Receiver<bool>) {
        let emit = &self.api.file().emit;
        let (most, bytes_max) = (if emit.batch { emit.batch_max } else { 1 }, emit.batch_bytes_max.0);
        let mut batch = Vec::with_capacity(most);
        loop {
            batch.clear();
            let free = self.clock.now();
            if !waiting.queue.lock().await.take(&mut batch, most, bytes_max).await {
                return;
            }
            if *given_up.borrow() {
                batch.iter().for_each(|released| self.not_offered(released));
                continue;
            }
            let taken = self.emit(&batch, free, &waiting.owed, &mut given_up).await;
            let t = self.clock.now();
            for (released, taken) in batch.iter().zip(taken) {
                self.recorder.record(record(t, released, taken));
            }
        }
    }

    fn not_offered(&self, released: &Released) {
        let why = "at the end of the run, too many earlier calls were still unanswered".to_owned();
        let (t, intended, token) = (self.clock.now(), released.intended, released.due.token);
        self.recorder.record(Record::Unoffered(Unoffered { t, intended, token, why }));
    }

    /// The outcome of each event, and whether the harness cut its call off.
    async fn emit(
        &self,
        batch: &[Released],
        free: u64,
        owed: &[Shared<[Text]>],
        given_up: &mut watch::Receiver<bool>,
    ) -> Vec<(EmitResult, bool)> {
        let now = self.clock.unix_ns(self.clock.now());
        let events: Vec<Event> = batch.iter().map(|released| self.event(&released.due, now)).collect();
        let t = self.clock.now();
        for released in batch {
            self.recorder.record(Record::Offer(self.offer(released, t, free, owed)));
        }
        tokio::select! {
            taken = self.api.emit(&events) => taken.into_iter().map(|taken| (taken, false)).collect(),
            Ok(_) = given_up.wait_for(|given_up| *given_up) => {
                let why = "no answer before the end of the run".to_owned();
                vec![(EmitResult::Silent { unknown: true, why }, true); events.len()]
            }
        }
    }

    fn event(&self, due: &Due, unix_ns: u64) -> Event {
        Event {
            token: due.token,
            text: self.tokens.text(due.token),
            uuid: self.tokens.uuid(due.token),
            kind: self.schedule.kind(due).into(),
            key: self.schedule.key(due).into(),
            data: self.schedule.data(due, self.tokens),
            unix_ns,
        }
    }
}

fn record(t: u64, released: &Released, (taken, cut_off): (EmitResult, bool)) -> Record {
    let (token, intended) = (released.due.token, released.intended);
    match taken {
        EmitResult::Unoffered { why, .. } => Record::Unoffered(Unoffered { t, intended, token, why }),
        EmitResult::Accepted { status, matched } => Record::Accepted(Accepted { t, token, status, matched }),
        EmitResult::Refused { status, retry_after, why } => Record::Refused(Refused {
            t,
            token,
            status: Some(status),
            retry_after,
            unknown: false,
            cut_off: false,
            why,
        }),
        EmitResult::Silent { unknown, why } => {
            Record::Refused(Refused { t, token, status: None, retry_after: None, unknown, cut_off, why })
        }
    }
}

#[cfg(test)]
mod tests {
    use hookproof_judge::trace::Records;

    use super::*;
    use crate::driver::{DriverFile, Variables};

    const BURST: &str =
        "name = \"burst\"\n[[traffic]]\nshape = \"burst\"\nevents = 20\n[[subscriber]]\nname = \"a\"\n";

    fn emission(file: &str, scenario: &str, port: u16) -> (Emission, Scenario, Records) {
        let file = DriverFile::parse(file, "x.toml").unwrap();
        let scenario = Scenario::from_text(scenario, "burst.toml").unwrap();
        let here = std::path::Path::new(".");
        let schedule = Schedule::compute(&scenario.traffic, &scenario.events, 1, here).unwrap();
        let (recorder, records) = Recorder::new(1_000);
        let emission = Emission {
            api: Api::new(file, &[port], Variables::new()).unwrap(),
            clock: Clock::begun(),
            recorder,
            schedule: Arc::new(schedule),
            tokens: Tokens::new(1),
        };
        (emission, scenario, records)
    }

    fn reading(listener: tokio::net::TcpListener) -> mpsc::UnboundedReceiver<usize> {
        let (sizes, read) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, sizes.clone()));
            }
        });
        read
    }

    async fn answer_all(stream: tokio::net::TcpStream, sizes: mpsc::UnboundedSender<usize>) {
        use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
        let mut stream = BufReader::new(stream);
        let mut length = 0;
        let mut line = String::new();
        while stream.read_line(&mut line).await.unwrap() > 0 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                stream.read_exact(&mut vec![0; length]).await.unwrap();
                sizes.send(length).unwrap();
                stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
            line.clear();
        }
    }

    #[tokio::test]
    async fn a_batch_is_cut_by_its_bytes_before_its_count() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut read = reading(listener);
        let file = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n\
                    emit = { request = \"POST {{ base }}/\", body = \"{{ data }}\", batch = true, calls = 1 }\n";
        let large = format!("{BURST}[events]\ndata_bytes = 1000000\n");
        let (emission, scenario, _records) = emission(file, &large, port);
        let mut emitting = emission.start(&scenario, 0, Arc::default()).unwrap();
        while emitting.callers.join_next().await.is_some() {}
        let sizes: Vec<usize> = std::iter::from_fn(|| read.try_recv().ok()).collect();
        assert!(sizes.iter().all(|size| *size < 9_000_000), "{sizes:?}");
        assert!(sizes.iter().sum::<usize>() >= 20_000_000, "{sizes:?}");
    }

    #[test]
    fn time_without_a_free_caller_counts_as_waiting_for_the_sender() {
        let due = Due { at: 0, token: 1, kind: 0, key: 0, bytes: 0 };
        let released = Released { due, intended: 10, at: 20 };
        assert_eq!(released.waited(15), 0, "a caller was free before it came");
        assert_eq!(released.waited(120), 100);
    }

    #[tokio::test]
    async fn a_sender_that_never_answers_is_given_up_and_each_event_is_offered_or_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let file = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n\
                    emit = { request = \"POST {{ base }}/\", body = \"{{ data }}\" }\n";
        let (emission, scenario, records) = emission(file, BURST, port);
        assert_eq!(emission.owed_in_all(&scenario), 20);
        let mut emitting = emission.start(&scenario, 0, Arc::default()).unwrap();
        // No caller gets an answer.
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(listener.accept().await.unwrap());
        }
        emitting.give_up.send_replace(true);
        while emitting.callers.join_next().await.is_some() {}
        let records = records.take();
        let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
        let offered = count(|record| matches!(record, Record::Offer(_)));
        let unknown = count(|record| matches!(record, Record::Refused(refused) if refused.unknown));
        let unoffered = count(|record| matches!(record, Record::Unoffered(_)));
        // Four callers wrote one event each; the others were never written.
        assert_eq!((offered, unknown, unoffered), (4, 4, 16), "{records:?}");
    }
}
