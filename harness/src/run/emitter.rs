//! From the schedule to the sender: the generator's thread hands events over, and a few callers emit them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use tokio::sync::{Mutex, mpsc};

use super::{Clock, Recorder};
use crate::driver::{Api, Event, Taken};
use crate::scenario::Scenario;
use crate::trace::{Accepted, Offer, Record, Refused};
use crate::traffic::{Due, Lag, Schedule, Tokens, play};

/// Events that may wait for a caller: more than any sender refuses before it answers. When it is full the generator
/// waits, and its lag shows it.
const WAITING_MAX: usize = 131_072;
/// What the generator may be late by before an event counts as late.
const LATE_NS: u64 = 50_000_000;

/// What an emission works with.
#[derive(Clone)]
pub(super) struct Emission {
    pub(super) api: Api,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    pub(super) schedule: Arc<Schedule>,
    pub(super) tokens: Tokens,
}

/// The emission under way.
pub(super) struct Emitting {
    pub(super) generator: JoinHandle<Lag>,
    /// Ends when everything that was released has been emitted.
    pub(super) callers: tokio::task::JoinSet<()>,
}

impl Emission {
    /// Starts the generator, which begins the schedule at `begin`, and the callers.
    pub(super) fn start(
        &self,
        scenario: &Scenario,
        begin: u64,
        stop: Arc<AtomicBool>,
    ) -> std::io::Result<Emitting> {
        let (release, waiting) = mpsc::channel::<Due>(WAITING_MAX);
        let owed = self.owed(scenario);
        let own = self.clone();
        let generator = std::thread::Builder::new().name("generator".to_owned()).spawn(move || {
            let hand_over = |due: &Due, intended, t| {
                own.recorder.keep(Record::Offer(own.offer(due, intended, t, &owed)));
                // Without callers the run is over.
                let _ = release.blocking_send(*due);
            };
            play(&own.schedule, begin, &own.clock, &stop, Lag::new(LATE_NS), hand_over)
        })?;
        // Calls that overtake each other would change the order of a key's events.
        let ordered = scenario.subscribers.iter().any(|subscriber| subscriber.handling.ordered);
        let count = if ordered { 1 } else { self.api.file().emit.calls.max(1) };
        let waiting = Arc::new(Mutex::new(waiting));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..count {
            callers.spawn(self.clone().call(Arc::clone(&waiting)));
        }
        Ok(Emitting { generator, callers })
    }

    /// Whom each type is owed to, in the order of the schedule's types.
    fn owed(&self, scenario: &Scenario) -> Vec<Vec<String>> {
        let to = |kind: &str| {
            let owed = scenario.subscribers.iter().filter(|subscriber| subscriber.is_owed(kind));
            owed.map(|subscriber| subscriber.name.clone()).collect()
        };
        self.schedule.types().map(to).collect()
    }

    fn offer(&self, due: &Due, intended: u64, t: u64, owed: &[Vec<String>]) -> Offer {
        let owed = usize::try_from(due.kind).ok().and_then(|at| owed.get(at)).cloned().unwrap_or_default();
        Offer {
            t,
            intended,
            token: due.token,
            kind: self.schedule.kind(due).to_owned(),
            key: self.schedule.key(due).to_owned(),
            owed,
        }
    }

    /// Emits what waits, as much in one call as there is and the driver allows, until nothing more comes.
    async fn call(self, waiting: Arc<Mutex<mpsc::Receiver<Due>>>) {
        let emit = &self.api.file().emit;
        let most = if emit.batch { emit.batch_max.max(1) } else { 1 };
        let mut due = Vec::with_capacity(most);
        loop {
            due.clear();
            if waiting.lock().await.recv_many(&mut due, most).await == 0 {
                return;
            }
            let now = self.clock.unix_ns(self.clock.now());
            let events: Vec<Event> = due.iter().map(|due| self.event(due, now)).collect();
            let taken = self.api.emit(&events).await;
            let t = self.clock.now();
            for (due, taken) in due.iter().zip(taken) {
                self.recorder.keep(record(t, due.token, taken));
            }
        }
    }

    fn event(&self, due: &Due, unix_ns: u64) -> Event {
        Event {
            token: due.token,
            text: self.tokens.text(due.token),
            kind: self.schedule.kind(due).to_owned(),
            key: self.schedule.key(due).to_owned(),
            data: self.schedule.data(due, self.tokens),
            unix_ns,
        }
    }
}

fn record(t: u64, token: u64, taken: Taken) -> Record {
    match taken {
        Taken::Accepted { status, matched } => Record::Accepted(Accepted { t, token, status, matched }),
        Taken::Refused { status, retry_after, why } => {
            Record::Refused(Refused { t, token, status: Some(status), retry_after, unknown: false, why })
        }
        Taken::Silent { unknown, why } => {
            Record::Refused(Refused { t, token, status: None, retry_after: None, unknown, why })
        }
    }
}
