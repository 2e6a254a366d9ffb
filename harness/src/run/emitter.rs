//! From the schedule to the sender: the generator's thread hands events over, and a few callers emit them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use tokio::sync::{Mutex, mpsc, watch};

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
    /// Told true, the callers wait for no answer any more: what has none is unknown, and what is left is not emitted.
    pub(super) give_up: watch::Sender<bool>,
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
        let (give_up, given_up) = watch::channel(false);
        for _ in 0..count {
            callers.spawn(self.clone().call(Arc::clone(&waiting), given_up.clone()));
        }
        Ok(Emitting { generator, callers, give_up })
    }

    /// How many deliveries the whole schedule owes.
    pub(super) fn owed_in_all(&self, scenario: &Scenario) -> usize {
        let owed = self.owed(scenario);
        let kinds = self.schedule.due().iter().filter_map(|due| usize::try_from(due.kind).ok());
        kinds.filter_map(|kind| owed.get(kind)).map(Vec::len).sum()
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
    async fn call(self, waiting: Arc<Mutex<mpsc::Receiver<Due>>>, mut given_up: watch::Receiver<bool>) {
        let emit = &self.api.file().emit;
        let most = if emit.batch { emit.batch_max.max(1) } else { 1 };
        let mut due = Vec::with_capacity(most);
        loop {
            due.clear();
            if waiting.lock().await.recv_many(&mut due, most).await == 0 {
                return;
            }
            let taken = if *given_up.borrow() {
                let why = "not emitted: the time for it was over".to_owned();
                vec![Taken::Silent { unknown: false, why }; due.len()]
            } else {
                self.emit(&due, &mut given_up).await
            };
            let t = self.clock.now();
            for (due, taken) in due.iter().zip(taken) {
                self.recorder.keep(record(t, due.token, taken));
            }
        }
    }

    async fn emit(&self, due: &[Due], given_up: &mut watch::Receiver<bool>) -> Vec<Taken> {
        let now = self.clock.unix_ns(self.clock.now());
        let events: Vec<Event> = due.iter().map(|due| self.event(due, now)).collect();
        tokio::select! {
            taken = self.api.emit(&events) => taken,
            Ok(_) = given_up.wait_for(|given_up| *given_up) => {
                let why = "no answer until the run was over".to_owned();
                vec![Taken::Silent { unknown: true, why }; events.len()]
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

#[cfg(test)]
mod tests {
    use super::super::recorder::Message;
    use super::*;
    use crate::driver::{DriverFile, Variables};

    const BURST: &str =
        "name = \"burst\"\n[[traffic]]\nshape = \"burst\"\nevents = 20\n[[subscriber]]\nname = \"a\"\n";

    #[tokio::test]
    async fn a_sender_that_never_answers_is_given_up_and_each_event_has_its_record() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let file = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n\
                    emit = { request = \"POST {{ base }}/\", body = \"{{ data }}\" }\n";
        let file = DriverFile::parse(file, "x.toml").unwrap();
        let scenario = Scenario::from_text(BURST, "burst.toml").unwrap();
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
        assert_eq!(emission.owed_in_all(&scenario), 20);
        let mut emitting = emission.start(&scenario, 0, Arc::default()).unwrap();
        // One call is under way, and nobody will answer it.
        let _held = listener.accept().await.unwrap();
        emitting.give_up.send_replace(true);
        while emitting.callers.join_next().await.is_some() {}
        let refused: Vec<bool> = records
            .try_iter()
            .filter_map(|message| match message {
                Message::Record(record) => match *record {
                    Record::Refused(refused) => Some(refused.unknown),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        assert_eq!(refused.len(), 20, "an event without a record");
        assert!(refused.contains(&true) && refused.contains(&false), "{refused:?}");
    }
}
