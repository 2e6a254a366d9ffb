//! The calls to a sender under test, as its driver file has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::address::WorkerAddress;
use super::answers::{self, EmitResult, Listed, Sample};
use super::call::{assemble, check};
use super::client::{Call, CallError, Client, Reply};
use super::error::ApiError;
use super::event::Event;
use super::file::{DriverFile, Request};
use super::offset::Offsets;
use super::redactor::Redactor;
use super::template::Variables;
use super::words::{of_limit, of_subscriber, of_timeout};
use crate::clock::Clock;
use crate::scenario::{Limit, Subscriber};
use crate::trace::Offset;

/// Pages of dead letters that are read at most.
const PAGES_MAX: usize = 100_000;

/// Speaks to a sender. Copies speak to the same.
#[derive(Clone, Debug)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: DriverFile,
    client: Client,
    /// Of its own, as it is asked for differences and for the wall clock alone.
    clock: Clock,
    offsets: Offsets,
    /// What every template may name, `base` aside.
    shared: RwLock<Variables>,
    addresses: Vec<WorkerAddress>,
    /// What was saved of each subscriber, by its name.
    subscribers: RwLock<BTreeMap<String, Variables>>,
    redactor: Redactor,
}

impl Api {
    /// Speaks to a sender whose processes listen on these ports.
    pub fn new(file: DriverFile, ports: &[u16], shared: Variables) -> Result<Self, ApiError> {
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
        let redactor = Redactor::default();
        redactor.learn(file.environment.iter().filter_map(|name| std::env::var(name).ok()));
        Ok(Self(Arc::new(Inner {
            redactor,
            file,
            client: Client::default(),
            clock: Clock::begun(),
            offsets: Offsets::default(),
            shared: RwLock::new(shared),
            addresses,
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
        self.0.addresses.get(worker).into_iter().for_each(|address| address.set_open(open));
    }

    /// Says whether a process is stopped, so that others are spoken to if there are any.
    pub fn set_frozen(&self, worker: usize, frozen: bool) {
        self.0.addresses.get(worker).into_iter().for_each(|address| address.set_frozen(frozen));
    }

    /// What a template about this process may name.
    #[must_use]
    pub fn variables(&self, worker: usize) -> Variables {
        let mut variables = self.0.shared.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.0.addresses.get(worker).into_iter().for_each(|address| address.name_in(&mut variables));
        variables
    }

    /// What any template may name: that of the first process that answers, or of the first at all.
    fn any(&self) -> Variables {
        self.variables(self.0.addresses.iter().position(WorkerAddress::answers).unwrap_or(0))
    }

    /// How far the sender's clock is off, as far as its answers say; `t` is now, on the run's clock.
    #[must_use]
    pub fn offset(&self, t: u64) -> Option<Offset> {
        self.0.offsets.estimate(t)
    }

    /// Makes a call, and notes the time that its answer gives.
    async fn call(&self, call: Call) -> Result<Reply, CallError> {
        let clock = &self.0.clock;
        let began = clock.unix_ns(clock.now());
        let reply = self.0.client.call(call).await?;
        if let Some(date) = &reply.date {
            self.0.offsets.note(date, began, clock.unix_ns(clock.now()));
        }
        Ok(reply)
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
        self.call(call).await.is_ok_and(|reply| (200..300).contains(&reply.status))
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

    /// Changes a subscriber's limit, and how long its attempts may take, if that is given.
    pub async fn change(
        &self,
        name: &str,
        limit: &Limit,
        timeout: Option<crate::scenario::Duration>,
    ) -> Result<(), ApiError> {
        let mut words = of_limit(limit);
        words.extend(timeout.into_iter().flat_map(of_timeout));
        self.about("change", self.0.file.change.as_ref(), name, words).await.map(drop)
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

    /// Makes a call; what is saved of its answer is hidden from now on, and from what is said of its failure.
    async fn make(
        &self,
        what: &'static str,
        request: &Request,
        variables: &Variables,
    ) -> Result<Variables, ApiError> {
        let made = self.make_openly(what, request, variables).await;
        if let Ok(saved) = &made {
            self.0.redactor.learn(saved.values().cloned());
        }
        made.map_err(|error| error.hiding(&self.0.redactor))
    }

    async fn make_openly(
        &self,
        what: &'static str,
        request: &Request,
        variables: &Variables,
    ) -> Result<Variables, ApiError> {
        let body = request.body.as_ref().map(|body| body.fill(variables)).transpose();
        let body = body.map_err(|error| ApiError::Template { what, error })?;
        let call = assemble(what, &request.request, &request.headers, body, variables)?;
        let reply = self.call(call).await?;
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
    pub async fn emit(&self, events: &[Event]) -> Vec<EmitResult> {
        let mut taken = self.emit_openly(events).await;
        for one in &mut taken {
            if let EmitResult::Refused { why, .. }
            | EmitResult::Silent { why, .. }
            | EmitResult::Unoffered { why } = one
            {
                *why = self.0.redactor.hide(why);
            }
        }
        taken
    }

    async fn emit_openly(&self, events: &[Event]) -> Vec<EmitResult> {
        let emit = &self.0.file.emit;
        let mut variables = self.any();
        let mut body = String::new();
        for event in events {
            variables.extend(event.variables());
            match emit.body.fill(&variables) {
                Ok(line) => body.push_str(&line),
                Err(error) => return vec![EmitResult::failed(error.to_string()); events.len()],
            }
            if emit.batch {
                body.push('\n');
            }
        }
        let call = assemble("emit", &emit.request, &emit.headers, Some(body), &variables);
        let reply = match call {
            Ok(call) => self.call(call).await,
            Err(error) => return vec![EmitResult::failed(error.to_string()); events.len()],
        };
        match reply {
            Ok(reply) => answers::taken(emit, &reply, events.len()),
            Err(error) if error.ours => vec![EmitResult::failed(error.to_string()); events.len()],
            Err(error) => {
                vec![EmitResult::Silent { unknown: error.unknown, why: error.to_string() }; events.len()]
            }
        }
    }

    /// Looks into the queue: the whole, and each subscriber where the answer has them.
    pub async fn depth(&self) -> Result<Vec<Sample>, ApiError> {
        let depth = self.0.file.depth.as_ref().ok_or(ApiError::Absent { what: "depth" })?;
        let call = assemble("depth", &depth.request, &depth.headers, None, &self.any())?;
        let reply = self.call(call).await?;
        check("depth", &reply, &[])?;
        Ok(answers::samples(depth, &serde_json::from_slice(&reply.body).unwrap_or_default()))
    }

    /// When the oldest of what is kept after its delivery was delivered, in Unix nanoseconds; none if nothing is kept.
    pub async fn oldest_kept(&self) -> Result<Option<u64>, ApiError> {
        let kept = self.0.file.depth.as_ref().and_then(|depth| depth.kept.as_ref());
        let kept = kept.ok_or(ApiError::Absent { what: "kept" })?;
        let call = assemble("kept", &kept.request, &kept.headers, None, &self.any())?;
        let reply = self.call(call).await?;
        check("kept", &reply, &[])?;
        answers::oldest(kept, &reply.body)
    }

    /// Which process serves a subscriber, as far as those that can be spoken to say; none if none of them does.
    pub async fn owner(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let owner = self.0.file.owner().ok_or(ApiError::Absent { what: "owner" })?;
        for (worker, _) in self.0.addresses.iter().enumerate().filter(|(_, address)| address.answers()) {
            let call = assemble("owner", &owner.request, &owner.headers, None, &self.variables(worker))?;
            // One that doesn't answer now may be gone; the others may serve it already.
            let Ok(reply) = self.call(call).await else { continue };
            check("owner", &reply, &[])?;
            if answers::owns(owner, &serde_json::from_slice(&reply.body).unwrap_or_default(), name) {
                return Ok(Some(worker));
            }
        }
        Ok(None)
    }

    /// Lists all dead letters, of which there may be so many.
    pub async fn dead(&self, most: usize) -> Result<Vec<Listed>, ApiError> {
        let dead = self.0.file.dead.as_ref().ok_or(ApiError::Absent { what: "dead" })?;
        let (mut variables, mut request, mut all) = (self.any(), &dead.request, Vec::new());
        let mut seen = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let call = assemble("dead", request, &dead.headers, None, &variables)?;
            let reply = self.call(call).await?;
            check("dead", &reply, &[])?;
            let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
            let (answer, letters) = answers::listed(dead, &reply.body, &subscribers)?;
            drop(subscribers);
            all.extend(letters);
            let next = dead.next.as_ref().and_then(|next| answers::text(&answer, next));
            let (Some(next), Some(page)) = (next, &dead.page) else { return Ok(all) };
            if all.len() > most || !seen.insert(next.clone()) {
                break;
            }
            variables.insert("next".to_owned(), next);
            request = page;
        }
        Err(ApiError::Endless { listed: all.len(), most })
    }
}

#[cfg(test)]
mod tests;
