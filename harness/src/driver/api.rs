//! The calls to a sender under test, by its driver file. `subscribers`: the calls about one subscriber;
//! `questions`: the calls that read the queue and the dead letters.

mod questions;
mod subscribers;

pub use subscribers::Subscription;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::address::WorkerAddress;
use super::answers::{self, EmitResult};
use super::call::{CALL_WITHIN, Content, assemble, check};
use super::calls::Request;
use super::client::{Call, CallError, Client, Reply};
use super::connector::Certificates;
use super::error::ApiError;
use super::event::{Event, Words};
use super::file::{Connect, DriverFile};
use super::offset::Offsets;
use super::redactor::Redactor;
use super::template::{Template, TemplateError, Variables};
use crate::clock::Clock;
use crate::database::is_on_a_server;
use hookproof_judge::trace::{Offset, Told};

/// How long a call with `until` is repeated, by default.
const POLL_WITHIN: hookproof_judge::scenario::Duration = hookproof_judge::scenario::Duration::from_secs(30);
/// The pause between repeated calls.
const POLL_PAUSE_NS: u64 = 100_000_000;

/// Calls a sender. Clones share one connection pool and state.
#[derive(Clone, Debug)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: DriverFile,
    client: Client,
    /// The time limit of a call.
    within: Duration,
    /// A clock of its own: it serves for durations and the wall clock only.
    clock: Clock,
    offsets: Offsets,
    /// The variables of every template, except `base`.
    shared: RwLock<Variables>,
    addresses: Vec<WorkerAddress>,
    /// The variables saved for each subscriber, by name.
    subscribers: RwLock<BTreeMap<String, Variables>>,
    /// Whether a call was made that teardown may have to undo.
    begun: AtomicBool,
    /// Values that subscribers were given in place of the scenario's.
    told: Mutex<Vec<Told>>,
    redactor: Redactor,
    /// The last call and its outcome, for [`Api::last`].
    last: Option<Mutex<Option<LastCall>>>,
}

/// A call and its answer, or the error. Redacted only when shown: later calls may add secrets.
type LastCall = (Call, Result<Reply, String>);

/// A call and its outcome, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The request.
    pub sent: String,
    /// The answer, or the error.
    pub got: String,
}

impl Api {
    /// An API for a sender whose processes listen on these ports.
    pub fn new(file: DriverFile, ports: &[u16], shared: Variables) -> Result<Self, ApiError> {
        Self::build(file, ports, shared, None)
    }

    /// As [`Api::new`], and retains the last call for [`Api::last`].
    pub fn watched(file: DriverFile, ports: &[u16], shared: Variables) -> Result<Self, ApiError> {
        Self::build(file, ports, shared, Some(Mutex::default()))
    }

    fn build(
        file: DriverFile,
        ports: &[u16],
        shared: Variables,
        last: Option<Mutex<Option<LastCall>>>,
    ) -> Result<Self, ApiError> {
        let within = file.connect.within.map_or(CALL_WITHIN, |within| Duration::from_nanos(within.0));
        let redactor = Redactor::default();
        redactor.learn(file.environment.iter().filter_map(|name| std::env::var(name).ok()));
        // The address of a database server may contain a password.
        redactor.learn(shared.get("database").filter(|address| is_on_a_server(address)).cloned());
        let connected = connect(&file, ports, &shared).map_err(|error| error.hiding(&redactor));
        let (addresses, client) = connected?;
        Ok(Self(Arc::new(Inner {
            redactor,
            file,
            client,
            within,
            clock: Clock::begun(),
            offsets: Offsets::default(),
            shared: RwLock::new(shared),
            addresses,
            subscribers: RwLock::default(),
            begun: AtomicBool::default(),
            told: Mutex::default(),
            last,
        })))
    }

    /// The driver file.
    #[must_use]
    pub fn file(&self) -> &DriverFile {
        &self.0.file
    }

    /// Sets whether a process can be called.
    pub fn set_open(&self, worker: usize, open: bool) {
        self.0.addresses.get(worker).into_iter().for_each(|address| address.set_open(open));
    }

    /// Sets whether a process is stopped, so that calls go to others if there are any.
    pub fn set_frozen(&self, worker: usize, frozen: bool) {
        self.0.addresses.get(worker).into_iter().for_each(|address| address.set_frozen(frozen));
    }

    /// The variables for templates about this process.
    #[must_use]
    pub fn variables(&self, worker: usize) -> Variables {
        let mut variables = self.0.shared.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.0.addresses.get(worker).into_iter().for_each(|address| address.name_in(&mut variables));
        variables
    }

    /// The variables for any template: of the first process that answers, or of the first.
    fn any(&self) -> Variables {
        self.variables(self.0.addresses.iter().position(WorkerAddress::answers).unwrap_or(0))
    }

    /// The offset of the sender's clock, estimated from its answers; `t` is now, on the run's clock.
    #[must_use]
    pub fn offset(&self, t: u64) -> Option<Offset> {
        self.0.offsets.estimate(t)
    }

    /// The last call and its outcome, redacted; only after [`Api::watched`].
    #[must_use]
    pub fn last(&self) -> Option<Exchange> {
        let last = self.0.last.as_ref()?.lock();
        let (call, reply) = last.unwrap_or_else(PoisonError::into_inner).clone()?;
        let got = reply.map_or_else(|why| self.hide(&why), |reply| reply.shown(&self.0.redactor));
        Some(Exchange { sent: call.shown(&self.0.redactor), got })
    }

    /// Redacts a text.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        self.0.redactor.hide(text)
    }

    /// Redacts an error.
    pub(super) fn hiding<T>(&self, made: Result<T, ApiError>) -> Result<T, ApiError> {
        made.map_err(|error| error.hiding(&self.0.redactor))
    }

    /// Makes a call, and records the `Date` of its answer.
    async fn call(&self, call: Call) -> Result<Reply, CallError> {
        let call = Call { within: call.within.min(self.0.within), ..call };
        let clock = &self.0.clock;
        let began = clock.unix_ns(clock.now());
        let sent = self.0.last.as_ref().map(|_| call.clone());
        let reply = self.0.client.call(call).await;
        if let (Some(last), Some(sent)) = (&self.0.last, sent) {
            let got = reply.as_ref().map(Reply::clone).map_err(ToString::to_string);
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((sent, got));
        }
        let reply = reply?;
        if let Some(date) = &reply.date {
            self.0.offsets.note(date, began, clock.unix_ns(clock.now()));
        }
        Ok(reply)
    }

    /// Whether a process reports that it is ready.
    pub async fn is_ready(&self, worker: usize) -> bool {
        let ready = self.0.file.start.is_none();
        ready || self.readiness(worker).await.is_some_and(|reply| (200..300).contains(&reply.status))
    }

    /// Whether a process answers its readiness URL at all. A 502 to 504 is a proxy's answer for a missing
    /// process.
    pub(super) async fn answers(&self, worker: usize) -> bool {
        self.readiness(worker).await.is_some_and(|reply| !(502..=504).contains(&reply.status))
    }

    /// Whether each process has its own readiness URL.
    pub(super) fn tells_processes_apart(&self) -> bool {
        let ready = self.0.file.start.as_ref().map(|start| &start.ready);
        let count = self.0.addresses.len();
        let urls = (0..count).filter_map(|worker| ready?.fill(&self.variables(worker)).ok());
        urls.collect::<std::collections::BTreeSet<_>>().len() == count
    }

    async fn readiness(&self, worker: usize) -> Option<Reply> {
        let start = self.0.file.start.as_ref()?;
        let url = start.ready.fill(&self.variables(worker)).ok()?;
        let call = Call {
            method: http::Method::GET,
            url,
            headers: Vec::new(),
            body: Bytes::new(),
            within: Duration::from_secs(2),
        };
        self.call(call).await.ok()
    }

    /// Makes the calls of `[setup]`.
    pub async fn set_up(&self) -> Result<(), ApiError> {
        self.0.begun.store(true, Ordering::Relaxed);
        for request in &self.0.file.setup {
            let saved = self.make("setup", request, &self.any()).await?;
            self.0.shared.write().unwrap_or_else(PoisonError::into_inner).extend(saved);
        }
        Ok(())
    }

    /// Makes a call. The values that it saves are secret from then on, even if the call fails.
    async fn make(
        &self,
        what: &'static str,
        request: &Request,
        variables: &Variables,
    ) -> Result<Variables, ApiError> {
        self.hiding(self.persist(what, request, variables).await)
    }

    /// Makes a call, and repeats it until its answer has the expected values.
    async fn persist(
        &self,
        what: &'static str,
        request: &Request,
        variables: &Variables,
    ) -> Result<Variables, ApiError> {
        let began = self.0.clock.now();
        let within = request.within.unwrap_or(POLL_WITHIN);
        loop {
            let made = self.make_openly(what, request, variables).await;
            if request.until.is_empty() {
                return answers::save(what, request, &made?);
            }
            let last = match made {
                Ok(answer) => match answers::differing(&answer, &request.until) {
                    None => return answers::save(what, request, &answer),
                    Some(differing) => differing,
                },
                Err(error @ (ApiError::Silent(_) | ApiError::Status { .. })) => error.to_string(),
                Err(error) => return Err(error),
            };
            if self.0.clock.now().saturating_sub(began) >= within.0 {
                return Err(ApiError::NotYet { what, within, last });
            }
            self.0.clock.pass(POLL_PAUSE_NS).await;
        }
    }

    async fn make_openly(
        &self,
        what: &'static str,
        request: &Request,
        variables: &Variables,
    ) -> Result<Value, ApiError> {
        let content = Content::fill(request.body.as_ref(), &request.form, variables);
        let content = content.map_err(|error| ApiError::Template { what, error })?;
        let call = assemble(what, &request.request, &request.headers, content, variables)?;
        let reply = self.call(call).await?;
        let answer = serde_json::from_slice(&reply.body).unwrap_or_default();
        let saved = request.save.values().filter_map(|pointer| answers::text(&answer, pointer));
        self.0.redactor.learn(saved);
        check(what, &reply, &request.accept, &self.0.redactor)?;
        Ok(answer)
    }

    /// Emits events in one call; returns one outcome for each event, in order.
    pub async fn emit(&self, events: &[Event]) -> Vec<EmitResult> {
        let mut taken = self.emit_openly(events).await;
        for one in &mut taken {
            if let EmitResult::Refused { why, .. }
            | EmitResult::Silent { why, .. }
            | EmitResult::Unoffered { why, .. } = one
            {
                *why = self.0.redactor.hide(why);
            }
        }
        taken
    }

    async fn emit_openly(&self, events: &[Event]) -> Vec<EmitResult> {
        let emit = &self.0.file.emit;
        let others = &self.any();
        // The headers of a batch describe its last event.
        let event = if emit.batch { events.last() } else { events.first() };
        let words = Words { event, others };
        let content = if emit.batch {
            lines(emit.body.as_ref(), events, others).map(Content::Body)
        } else {
            Content::fill(emit.body.as_ref(), &emit.form, &words)
        };
        let unoffered = |ours, why| vec![EmitResult::Unoffered { ours, why }; events.len()];
        let content = match content {
            Ok(content) => content,
            Err(error) => return unoffered(false, error.to_string()),
        };
        let call = assemble("emit", &emit.request, &emit.headers, content, &words);
        let reply = match call {
            Ok(call) => self.call(call).await,
            Err(error) => return unoffered(false, error.to_string()),
        };
        match reply {
            Ok(reply) => answers::taken(emit, &reply, events.len(), &self.0.redactor),
            Err(error) if error.ours => unoffered(true, error.to_string()),
            Err(error) => {
                vec![EmitResult::Silent { unknown: error.unknown, why: error.to_string() }; events.len()]
            }
        }
    }
}

fn lines(line: Option<&Template>, events: &[Event], others: &Variables) -> Result<String, TemplateError> {
    let mut lines = String::new();
    for event in events {
        line.map(|line| line.fill_into(&mut lines, &Words { event: Some(event), others })).transpose()?;
        lines.push('\n');
    }
    Ok(lines)
}

fn connect(
    file: &DriverFile,
    ports: &[u16],
    shared: &Variables,
) -> Result<(Vec<WorkerAddress>, Client), ApiError> {
    let address = |port: &u16| {
        let mut variables = shared.clone();
        variables.insert("port".to_owned(), port.to_string());
        let base = file.base.as_ref().map_or_else(
            || Ok(format!("http://127.0.0.1:{port}")),
            |base| base.fill(&variables).map_err(|error| ApiError::Template { what: "base", error }),
        );
        Ok(WorkerAddress::new(base?, *port))
    };
    let addresses = ports.iter().map(address).collect::<Result<_, ApiError>>()?;
    Ok((addresses, Client::new(&certificates(&file.connect, shared)?)?))
}

fn certificates(connect: &Connect, shared: &Variables) -> Result<Certificates, ApiError> {
    let here = std::path::Path::new(shared.get("here").map_or(".", String::as_str));
    let path = |template: &Template| {
        let path = template.fill(shared).map_err(|error| ApiError::Template { what: "connect", error })?;
        Ok::<_, ApiError>(here.join(path))
    };
    let own = match (&connect.certificate, &connect.key) {
        (Some(certificate), Some(key)) => Some((path(certificate)?, path(key)?)),
        _ => None,
    };
    Ok(Certificates { ca: connect.ca.as_ref().map(path).transpose()?, own })
}

#[cfg(test)]
mod tests;
