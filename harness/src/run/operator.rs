//! Each operator action is a task, so that a silent sender blocks nothing else. It is repeated until the sender
//! answers, and then recorded.

use std::sync::Arc;

use hookproof_judge::scenario::{Duration, FaultAction, FaultPlan, Scenario};
use hookproof_judge::signature::Scheme;
use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::{Fault, Record};
use hookproof_play::fault;

use crate::clock::Clock;
use crate::database::Server;
use crate::driver::{Api, ApiError};
use crate::endpoint::Keys;
use crate::fault::hold_database;

const AGAIN_NS: u64 = 250_000_000;
/// How often the owner is asked for while a subscriber has none.
const OWNER_QUESTIONS: u32 = 20;

#[derive(Clone, Debug)]
pub(super) struct Operator {
    pub(super) api: Api,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    pub(super) keys: Keys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActionOutcome {
    All,
    /// The fault's index in the scenario, and the process.
    Found(usize, usize),
}

#[derive(Clone, Debug)]
pub(super) struct Errand {
    plan: FaultPlan,
    place: Option<u32>,
    whom: Vec<Concerned>,
}

#[derive(Clone, Debug)]
struct Concerned {
    at: usize,
    name: String,
    scheme: Scheme,
}

/// Recorded when this is dropped.
struct Lasting<'a> {
    recorder: &'a Recorder,
    fault: Option<Fault>,
}

impl Drop for Lasting<'_> {
    fn drop(&mut self) {
        self.fault.take().into_iter().for_each(|fault| self.recorder.record(Record::Fault(fault)));
    }
}

#[derive(Debug)]
enum Undone {
    /// It is repeated.
    Unanswered,
    Refused(String),
    Unknown(String),
}

impl From<ApiError> for Undone {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Silent(_) => Self::Unanswered,
            error => Self::Refused(error.to_string()),
        }
    }
}

impl Errand {
    /// `schemes` are those of its subscribers, in order.
    pub(super) fn new(scenario: &Scenario, plan: &FaultPlan, schemes: &[Scheme]) -> Self {
        let all = scenario.subscribers.iter().zip(schemes).enumerate();
        let whom =
            all.filter(|(_, (subscriber, _))| plan.action.concerns(&subscriber.group, &subscriber.name));
        let whom = whom.map(|(at, (subscriber, scheme))| Concerned {
            at,
            name: subscriber.name.clone(),
            scheme: scheme.clone(),
        });
        Self { plan: plan.clone(), place: Fault::place(&scenario.faults, plan), whom: whom.collect() }
    }
}

impl Operator {
    /// Acts for each of its subscribers in turn.
    pub(super) async fn carry_out(self, errand: Errand) -> Result<ActionOutcome, String> {
        let asked = self.clock.now();
        for whom in &errand.whom {
            let done = self.persist(whom, &errand.plan).await;
            done.map_err(|why| format!("{} was not injected: {why}", errand.plan.action.kind()))?;
        }
        // The end of a lasting fault counts from the request, which is not later than the action.
        self.record_fault(&errand, asked);
        Ok(ActionOutcome::All)
    }

    /// Holds the lock for the fault's duration, or until this is dropped.
    pub(super) async fn lock(self, database: String, errand: Errand) -> Result<ActionOutcome, String> {
        let held = hold_database(&database).await;
        let held =
            held.map_err(|error| format!("{} was not injected: {error}", errand.plan.action.kind()))?;
        self.record_fault(&errand, self.clock.now());
        self.clock.pass(errand.plan.lasts.0).await;
        drop(held);
        Ok(ActionOutcome::All)
    }

    /// Stops the server as a crash would, and starts it again after the fault's duration.
    pub(super) async fn restart_database(
        self,
        server: Arc<Server>,
        errand: Errand,
    ) -> Result<ActionOutcome, String> {
        let (kind, t) = (errand.plan.action.kind(), self.clock.now());
        // A cancelled restart never comes back, and the fault has no end.
        let until = Some(u64::MAX);
        let fault = Fault { t, kind, until, detail: None, delay: None, plan: errand.place };
        let mut lasting = Lasting { recorder: &self.recorder, fault: Some(fault) };
        if let Err(error) = server.stop().await {
            lasting.fault = None;
            return Err(format!("{kind} was not injected: {error}"));
        }
        self.clock.pass(errand.plan.lasts.0).await;
        let begun = server.begin().await;
        begun.map_err(|error| format!("the database server was stopped and did not restart: {error}"))?;
        lasting.fault.iter_mut().for_each(|fault| fault.until = Some(self.clock.now()));
        Ok(ActionOutcome::All)
    }

    /// Fails when no process serves it, or the question is refused.
    pub(super) async fn find_owner(self, place: usize, name: String) -> Result<ActionOutcome, String> {
        for _ in 0..OWNER_QUESTIONS {
            let found = self.api.owner(&name).await;
            if let Some(worker) = found.map_err(|error| format!("a fault was not injected: {error}"))? {
                return Ok(ActionOutcome::Found(place, worker));
            }
            self.clock.pass(AGAIN_NS).await;
        }
        Err(format!("a fault was not injected: no process reports that it serves {name}"))
    }

    fn record_fault(&self, errand: &Errand, from: u64) {
        let Errand { plan, place, .. } = errand;
        let until = from.saturating_add(plan.lasts.0);
        self.recorder.record(Record::Fault(fault::record(plan, *place, self.clock.now(), until, None)));
    }

    async fn persist(&self, whom: &Concerned, plan: &FaultPlan) -> Result<(), String> {
        loop {
            let done = match &plan.action {
                FaultAction::Limit { limit, timeout, .. } => {
                    self.api.change(&whom.name, limit, *timeout).await.map_err(Undone::from)
                }
                FaultAction::Redrive { .. } => self.api.redrive(&whom.name).await.map_err(Undone::from),
                _ => self.rotate(whom, plan.lasts).await,
            };
            match done {
                Ok(()) => return Ok(()),
                Err(Undone::Unanswered) => self.clock.pass(AGAIN_NS).await,
                Err(Undone::Refused(why)) => return Err(why),
                Err(Undone::Unknown(why)) => {
                    // A second attempt would create another secret.
                    self.keys.forget(whom.at);
                    return Err(format!("{why}; the secrets of {} are not known from here on", whom.name));
                }
            }
        }
    }

    async fn rotate(&self, whom: &Concerned, overlap: Duration) -> Result<(), Undone> {
        let secret = match self.api.rotate(&whom.name, overlap).await {
            Ok(secret) => secret.ok_or_else(|| "the sender did not return the new secret".to_owned()),
            Err(ApiError::Silent(error)) if error.unknown => Err(error.to_string()),
            Err(error @ (ApiError::Missing { .. } | ApiError::Unreadable { .. })) => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        let secret = secret
            .and_then(|secret| whom.scheme.key(&secret).map_err(|error| format!("the new secret: {error}")));
        self.keys.add(whom.at, secret.map_err(Undone::Unknown)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::driver::{DriverFile, Variables};

    const SCENARIO: &str = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
        [[fault]]\nat = \"0s\"\ndo = \"redrive\"\n[[fault]]\nat = \"0s\"\ndo = \"rotate\"\n";

    async fn carry_out(place: usize, port: u16) -> (Result<ActionOutcome, String>, usize) {
        let call = "{ request = \"POST {{ base }}/\", body = \"\" }";
        let file =
            format!("name = \"x\"\nsubscribe = {call}\nemit = {call}\nredrive = {call}\nrotate = {call}\n");
        let file = DriverFile::parse(&file, "x.toml").unwrap();
        let scenario = Scenario::from_text(SCENARIO, "x.toml").unwrap();
        let (recorder, records) = Recorder::new(10);
        let operator = Operator {
            api: Api::new(file, &[port], Variables::new()).unwrap(),
            clock: Clock::begun(),
            recorder,
            keys: Keys::default(),
        };
        let errand = Errand::new(
            &scenario,
            &scenario.faults[place],
            &[hookproof_judge::signature::Profile::GITHUB.into()],
        );
        let done = operator.carry_out(errand).await;
        let is_fault = |record: &Record| matches!(record, Record::Fault(_));
        (done, records.take().into_iter().filter(is_fault).count())
    }

    #[tokio::test]
    async fn an_unanswered_call_is_repeated() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sender = tokio::spawn(async move {
            // The first connection is closed without an answer.
            drop(listener.accept().await.unwrap());
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        });
        assert_eq!(carry_out(0, port).await, (Ok(ActionOutcome::All), 1));
        sender.await.unwrap();
    }

    #[tokio::test]
    async fn a_rotation_that_may_have_been_made_is_not_made_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sender = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        });
        let (done, recorded) = carry_out(1, port).await;
        let why = done.unwrap_err();
        assert!(why.contains("the secrets of a are not known from here on") && recorded == 0, "{why}");
        sender.await.unwrap();
    }
}
