//! The calls to a sender under test, as its driver file has them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::answers::{self, Listed, Sample, Taken};
use super::client::{Call, CallError, Client, Reply};
use super::file::{DriverFile, Request};
use super::template::{Template, TemplateError, Variables};
use super::words::{of_limit, of_subscriber};
use crate::scenario::{Limit, Subscriber};

/// How long any call may take but an emission: as long as a patient operator waits.
const CALL_WITHIN: Duration = Duration::from_secs(30);
/// Pages of dead letters that are read at most.
const PAGES_MAX: usize = 100_000;

/// Speaks to a sender. Copies speak to the same.
#[derive(Clone, Debug)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: DriverFile,
    client: Client,
    /// What every template may name, `base` aside.
    shared: RwLock<Variables>,
    doors: Vec<Door>,
    /// What was saved of each subscriber, by its name.
    subscribers: RwLock<BTreeMap<String, Variables>>,
}

/// Where one process of the sender is spoken to.
#[derive(Debug)]
struct Door {
    base: String,
    port: u16,
    open: AtomicBool,
}

/// An event, in the words of templates.
#[derive(Clone, Debug)]
pub struct Event {
    /// The harness's number for it.
    pub token: u64,
    /// The token as text.
    pub text: String,
    /// Its type.
    pub kind: String,
    /// Its key.
    pub key: String,
    /// Its data, a JSON object.
    pub data: String,
    /// When it is offered, by the wall clock.
    pub unix_ns: u64,
}

/// A call that did not do what it was for.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The template has holes that cannot be filled.
    #[error("the driver's {what} cannot be made: {error}")]
    Template {
        /// Which call.
        what: &'static str,
        /// Why not.
        error: TemplateError,
    },
    /// The request is none.
    #[error(
        "the driver's {what} is {request:?}; expected a method and a URL, such as \"POST {{{{ base }}}}/events\""
    )]
    Request {
        /// Which call.
        what: &'static str,
        /// What it is.
        request: String,
    },
    /// There was no answer.
    #[error(transparent)]
    Silent(#[from] CallError),
    /// The answer was a refusal.
    #[error("{what} was answered {status}, expected {expected}: {body}")]
    Status {
        /// Which call.
        what: &'static str,
        /// The status.
        status: u16,
        /// What would have been right.
        expected: String,
        /// The answer's beginning.
        body: String,
    },
    /// The answer lacks what is to be saved.
    #[error("{what}'s answer has nothing at {pointer:?}, which the driver saves as {variable:?}")]
    Missing {
        /// Which call.
        what: &'static str,
        /// Where it was looked for.
        pointer: String,
        /// What it should have been.
        variable: String,
    },
    /// The driver has no such call.
    #[error("the driver has no [{what}]")]
    Absent {
        /// Which call.
        what: &'static str,
    },
}

impl Api {
    /// Speaks to a sender whose processes listen on these ports.
    pub fn new(file: DriverFile, ports: &[u16], shared: Variables) -> Result<Self, ApiError> {
        let door = |port: &u16| {
            let mut variables = shared.clone();
            variables.insert("port".to_owned(), port.to_string());
            let base = file.base.as_ref().map_or_else(
                || Ok(format!("http://127.0.0.1:{port}")),
                |base| base.fill(&variables).map_err(|error| ApiError::Template { what: "base", error }),
            );
            Ok(Door { base: base?, port: *port, open: AtomicBool::new(false) })
        };
        let doors = ports.iter().map(door).collect::<Result<_, ApiError>>()?;
        Ok(Self(Arc::new(Inner {
            file,
            client: Client::default(),
            shared: RwLock::new(shared),
            doors,
            subscribers: RwLock::default(),
        })))
    }

    /// The driver file.
    #[must_use]
    pub fn file(&self) -> &DriverFile {
        &self.0.file
    }

    /// Says whether a process can be spoken to.
    pub fn set_open(&self, worker: usize, open: bool) {
        if let Some(door) = self.0.doors.get(worker) {
            door.open.store(open, Ordering::Relaxed);
        }
    }

    /// What a template about this process may name.
    #[must_use]
    pub fn variables(&self, worker: usize) -> Variables {
        let mut variables = self.0.shared.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(door) = self.0.doors.get(worker) {
            variables.insert("base".to_owned(), door.base.clone());
            variables.insert("port".to_owned(), door.port.to_string());
        }
        variables
    }

    /// What any template may name: that of the first process that can be spoken to, or of the first at all.
    fn any(&self) -> Variables {
        self.variables(self.0.doors.iter().position(|door| door.open.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// Whether a process says that it is ready.
    pub async fn is_ready(&self, worker: usize) -> bool {
        let Some(start) = &self.0.file.start else { return true };
        let Ok(url) = start.ready.fill(&self.variables(worker)) else { return false };
        let call = Call {
            method: http::Method::GET,
            url,
            headers: Vec::new(),
            body: Bytes::new(),
            within: Duration::from_secs(2),
        };
        self.0.client.call(call).await.is_ok_and(|reply| (200..300).contains(&reply.status))
    }

    /// Makes the calls that come before any subscription.
    pub async fn set_up(&self) -> Result<(), ApiError> {
        for request in &self.0.file.setup {
            let saved = self.make("setup", request, &self.any()).await?;
            self.0.shared.write().unwrap_or_else(PoisonError::into_inner).extend(saved);
        }
        Ok(())
    }

    /// Subscribes an endpoint; answers its secret.
    pub async fn subscribe(
        &self,
        subscriber: &Subscriber,
        url: &str,
        secret: &str,
    ) -> Result<String, ApiError> {
        let mut variables = self.any();
        variables.extend(of_subscriber(subscriber, url, secret));
        let saved = self.make("subscribe", &self.0.file.subscribe, &variables).await?;
        let secret = saved.get("secret").cloned().unwrap_or_else(|| secret.to_owned());
        let mut own = of_subscriber(subscriber, url, &secret);
        own.extend(saved);
        own.remove("secret");
        let mut subscribers = self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.insert(subscriber.name.clone(), own);
        Ok(secret)
    }

    /// Changes a subscriber's limit.
    pub async fn change(&self, name: &str, limit: &Limit) -> Result<(), ApiError> {
        self.about("change", self.0.file.change.as_ref(), name, of_limit(limit)).await.map(drop)
    }

    /// Gives a subscriber another secret, beside which the old one signs for so long; answers the new one.
    pub async fn rotate(
        &self,
        name: &str,
        overlap: crate::scenario::Duration,
    ) -> Result<Option<String>, ApiError> {
        let overlap = Variables::from([("overlap".to_owned(), overlap.to_string())]);
        let mut saved = self.about("rotate", self.0.file.rotate.as_ref(), name, overlap).await?;
        Ok(saved.remove("secret"))
    }

    /// Sends a subscriber's dead letters again.
    pub async fn redrive(&self, name: &str) -> Result<(), ApiError> {
        self.about("redrive", self.0.file.redrive.as_ref(), name, Variables::new()).await.map(drop)
    }

    async fn about(
        &self,
        what: &'static str,
        request: Option<&Request>,
        name: &str,
        more: Variables,
    ) -> Result<Variables, ApiError> {
        let request = request.ok_or(ApiError::Absent { what })?;
        let mut variables = self.any();
        if let Some(own) = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            variables.extend(own.clone());
        }
        variables.extend(more);
        self.make(what, request, &variables).await
    }

    async fn make(
        &self,
        what: &'static str,
        request: &Request,
        variables: &Variables,
    ) -> Result<Variables, ApiError> {
        let body = request.body.as_ref().map(|body| body.fill(variables)).transpose();
        let body = body.map_err(|error| ApiError::Template { what, error })?;
        let call = assemble(what, &request.request, &request.headers, body, variables)?;
        let reply = self.0.client.call(call).await?;
        check(what, &reply, &request.accept)?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let save = |(variable, pointer): (&String, &String)| {
            let missing = || ApiError::Missing { what, pointer: pointer.clone(), variable: variable.clone() };
            let value = answers::text(&answer, pointer).ok_or_else(missing)?;
            Ok((variable.clone(), value))
        };
        request.save.iter().map(save).collect()
    }

    /// Emits events in one call: what became of each, in their order.
    pub async fn emit(&self, events: &[Event]) -> Vec<Taken> {
        let emit = &self.0.file.emit;
        let mut variables = self.any();
        let mut body = String::new();
        for event in events {
            variables.extend(event.variables());
            match emit.body.fill(&variables) {
                Ok(line) => body.push_str(&line),
                Err(error) => return vec![Taken::failed(error.to_string()); events.len()],
            }
            if emit.batch {
                body.push('\n');
            }
        }
        let call = assemble("emit", &emit.request, &emit.headers, Some(body), &variables);
        let reply = match call {
            Ok(call) => self.0.client.call(call).await,
            Err(error) => return vec![Taken::failed(error.to_string()); events.len()],
        };
        match reply {
            Ok(reply) => answers::taken(emit, &reply, events.len()),
            Err(error) => {
                vec![Taken::Silent { unknown: error.unknown, why: error.to_string() }; events.len()]
            }
        }
    }

    /// Looks into the queue: the whole, and each subscriber where the answer has them.
    pub async fn depth(&self) -> Result<Vec<Sample>, ApiError> {
        let depth = self.0.file.depth.as_ref().ok_or(ApiError::Absent { what: "depth" })?;
        let call = assemble("depth", &depth.request, &depth.headers, None, &self.any())?;
        let reply = self.0.client.call(call).await?;
        check("depth", &reply, &[])?;
        Ok(answers::samples(depth, &serde_json::from_slice(&reply.body).unwrap_or_default()))
    }

    /// Lists all dead letters.
    pub async fn dead(&self) -> Result<Vec<Listed>, ApiError> {
        let dead = self.0.file.dead.as_ref().ok_or(ApiError::Absent { what: "dead" })?;
        let (mut variables, mut request, mut all) = (self.any(), &dead.request, Vec::new());
        for _ in 0..PAGES_MAX {
            let call = assemble("dead", request, &dead.headers, None, &variables)?;
            let reply = self.0.client.call(call).await?;
            check("dead", &reply, &[])?;
            let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(answers::listed(dead, &answer, &subscribers));
            drop(subscribers);
            let next = dead.next.as_ref().and_then(|next| answers::text(&answer, next));
            let (Some(next), Some(page)) = (next, &dead.page) else { break };
            variables.insert("next".to_owned(), next);
            request = page;
        }
        Ok(all)
    }
}

impl Event {
    fn variables(&self) -> Variables {
        let uuid = format!("00000000-0000-4000-8000-{:012x}", self.token & 0xffff_ffff_ffff);
        let own = [
            ("token", self.text.clone()),
            ("uuid", uuid),
            ("type", self.kind.clone()),
            ("key", self.key.clone()),
            ("data", self.data.clone()),
            ("now", rfc3339(self.unix_ns / crate::scenario::SECOND)),
        ];
        own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn rfc3339(unix_seconds: u64) -> String {
    let (year, month, day) = crate::endpoint::civil(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn assemble(
    what: &'static str,
    request: &Template,
    headers: &BTreeMap<String, Template>,
    body: Option<String>,
    variables: &Variables,
) -> Result<Call, ApiError> {
    let unmade = |error| ApiError::Template { what, error };
    let text = request.fill(variables).map_err(unmade)?;
    let unclear = || ApiError::Request { what, request: text.clone() };
    let (method, url) = text.split_once(' ').ok_or_else(unclear)?;
    let method = method.parse().map_err(|_| unclear())?;
    let fill =
        |(name, value): (&String, &Template)| Ok((name.clone(), value.fill(variables).map_err(unmade)?));
    let mut headers: Vec<(String, String)> = headers.iter().map(fill).collect::<Result<_, ApiError>>()?;
    if body.is_some() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    let body = body.map_or_else(Bytes::new, Bytes::from);
    Ok(Call { method, url: url.trim().to_owned(), headers, body, within: CALL_WITHIN })
}

fn check(what: &'static str, reply: &Reply, accept: &[u16]) -> Result<(), ApiError> {
    if answers::is_right(reply.status, accept) {
        return Ok(());
    }
    let expected = if accept.is_empty() { "2xx".to_owned() } else { format!("{accept:?}") };
    let shown = &reply.body[..reply.body.len().min(300)];
    let body = String::from_utf8_lossy(shown).into_owned();
    Err(ApiError::Status { what, status: reply.status, expected, body })
}
