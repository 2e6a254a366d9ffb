use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use hookproof_judge::scenario::{self, Limit, SECOND, Subscriber};
use hookproof_judge::trace::{Offset, Substitution};
use hookproof_play::settings::{of_limit, of_subscriber, of_timeout};
use serde_json::Value;
use tokio::task::JoinSet;

use super::answers::{self, EmitResult, Listed, Sample};
use super::calls::Request;
use super::client::{Call, CallError, Certificates, Client, Reply};
use super::error::ApiError;
use super::file::{Connect, DriverFile};
use super::moment::Offsets;
use super::template::{Event, Lookup, Redactor, Template, TemplateError, Variables, Words, encoded};
use crate::clock::Clock;
use crate::database::is_on_a_server;

/// How long a call with `until` is repeated, by default.
const POLL_WITHIN: scenario::Duration = scenario::Duration::from_secs(30);
const POLL_PAUSE_NS: u64 = 100_000_000;

/// Calls a sender. Clones share one connection pool and state.
#[derive(Clone, Debug)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: DriverFile,
    client: Client,
    within: Duration,
    /// A clock of its own: it serves for durations and the wall clock only.
    clock: Clock,
    offsets: Offsets,
    /// The variables of every template, except `base`.
    shared: RwLock<Variables>,
    addresses: Vec<WorkerAddress>,
    subscribers: RwLock<BTreeMap<String, Variables>>,
    /// Whether a call was made that teardown may have to undo.
    begun: AtomicBool,
    /// Values given to subscribers in place of the scenario's.
    told: Mutex<Vec<Substitution>>,
    redactor: Redactor,
    last: Option<Mutex<Option<LastCall>>>,
}

/// Redacted only when shown: later calls may add secrets.
type LastCall = (Call, Result<Reply, String>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub sent: String,
    pub got: String,
}

impl Api {
    pub fn new(file: DriverFile, ports: &[u16], shared: Variables) -> Result<Self, ApiError> {
        Self::build(file, ports, shared, None)
    }

    /// Retains the last call for [`Api::last`].
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
        // The address may contain a password.
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

    #[must_use]
    pub fn file(&self) -> &DriverFile {
        &self.0.file
    }

    pub fn set_open(&self, worker: usize, open: bool) {
        self.0.addresses.get(worker).into_iter().for_each(|address| address.set_open(open));
    }

    /// Calls then go to other processes, if there are any.
    pub fn set_frozen(&self, worker: usize, frozen: bool) {
        self.0.addresses.get(worker).into_iter().for_each(|address| address.set_frozen(frozen));
    }

    #[must_use]
    pub fn variables(&self, worker: usize) -> Variables {
        let mut variables = self.0.shared.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.0.addresses.get(worker).into_iter().for_each(|address| address.name_in(&mut variables));
        variables
    }

    /// Variables of the first process that answers, or of the first.
    fn any(&self) -> Variables {
        self.variables(self.0.addresses.iter().position(WorkerAddress::answers).unwrap_or(0))
    }

    /// Estimated from the sender's answers; `t` is now, on the run's clock.
    #[must_use]
    pub fn offset(&self, t: u64) -> Option<Offset> {
        self.0.offsets.estimate(t)
    }

    /// Redacted; only after [`Api::watched`].
    #[must_use]
    pub fn last(&self) -> Option<Exchange> {
        let last = self.0.last.as_ref()?.lock();
        let (call, reply) = last.unwrap_or_else(PoisonError::into_inner).clone()?;
        let got = reply.map_or_else(|why| self.hide(&why), |reply| reply.display_text(&self.0.redactor));
        Some(Exchange { sent: call.display_text(&self.0.redactor), got })
    }

    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        self.0.redactor.hide(text)
    }

    pub(super) fn hiding<T>(&self, made: Result<T, ApiError>) -> Result<T, ApiError> {
        made.map_err(|error| error.hiding(&self.0.redactor))
    }

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
            self.0.offsets.record_date(date, began, clock.unix_ns(clock.now()));
        }
        Ok(reply)
    }

    pub async fn is_ready(&self, worker: usize) -> bool {
        let ready = self.0.file.start.is_none();
        ready || self.readiness(worker).await.is_some_and(|reply| (200..300).contains(&reply.status))
    }

    /// A 502 to 504 is a proxy's answer for a missing process.
    pub(super) async fn answers(&self, worker: usize) -> bool {
        self.readiness(worker).await.is_some_and(|reply| !(502..=504).contains(&reply.status))
    }

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

    pub async fn set_up(&self) -> Result<(), ApiError> {
        self.0.begun.store(true, Ordering::Relaxed);
        for request in &self.0.file.setup {
            let saved = self.make("setup", request, &self.any()).await?;
            self.0.shared.write().unwrap_or_else(PoisonError::into_inner).extend(saved);
        }
        Ok(())
    }

    /// The values that it saves are secret from then on, even if the call fails.
    async fn make(
        &self,
        what: &'static str,
        request: &Request,
        variables: &Variables,
    ) -> Result<Variables, ApiError> {
        self.hiding(self.persist(what, request, variables).await)
    }

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

    /// Emits them in one call; returns the outcomes in order.
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
            Ok(reply) => answers::emit_results(emit, &reply, events.len(), &self.0.redactor),
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

const PAGES_MAX: usize = 100_000;

impl Api {
    /// Each subscriber's too where the answer has them.
    pub async fn depth(&self) -> Result<Vec<Sample>, ApiError> {
        self.hiding(self.depth_openly().await)
    }

    async fn depth_openly(&self) -> Result<Vec<Sample>, ApiError> {
        let depth = self.0.file.depth.as_ref().ok_or(ApiError::Absent { what: "depth" })?;
        let call = assemble("depth", &depth.request, &depth.headers, Content::None, &self.any())?;
        let reply = self.call(call).await?;
        check("depth", &reply, &[], &self.0.redactor)?;
        Ok(answers::samples(depth, &serde_json::from_slice(&reply.body).unwrap_or_default()))
    }

    /// Delivered at this moment, in Unix nanoseconds; none if no delivery is retained.
    pub async fn oldest_kept(&self) -> Result<Option<u64>, ApiError> {
        self.hiding(self.oldest_kept_openly().await)
    }

    async fn oldest_kept_openly(&self) -> Result<Option<u64>, ApiError> {
        let kept = self.0.file.depth.as_ref().and_then(|depth| depth.kept.as_ref());
        let kept = kept.ok_or(ApiError::Absent { what: "kept" })?;
        let call = assemble("kept", &kept.request, &kept.headers, Content::None, &self.any())?;
        let reply = self.call(call).await?;
        check("kept", &reply, &[], &self.0.redactor)?;
        answers::oldest(kept, &reply.body)
    }

    /// None if no process that answers serves the subscriber.
    pub async fn owner(&self, name: &str) -> Result<Option<usize>, ApiError> {
        self.hiding(self.owner_openly(name).await)
    }

    async fn owner_openly(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let owner = self.0.file.owner().ok_or(ApiError::Absent { what: "owner" })?;
        for (worker, _) in self.0.addresses.iter().enumerate().filter(|(_, address)| address.answers()) {
            let call =
                assemble("owner", &owner.request, &owner.headers, Content::None, &self.variables(worker))?;
            // This process may be gone, and another may serve the subscriber.
            let Ok(reply) = self.call(call).await else { continue };
            check("owner", &reply, &[], &self.0.redactor)?;
            if answers::owns(owner, &serde_json::from_slice(&reply.body).unwrap_or_default(), name) {
                return Ok(Some(worker));
            }
        }
        Ok(None)
    }

    /// More than `most` are an error.
    pub async fn dead(&self, most: usize) -> Result<Vec<Listed>, ApiError> {
        self.hiding(self.dead_openly(most).await)
    }

    async fn dead_openly(&self, most: usize) -> Result<Vec<Listed>, ApiError> {
        let dead = self.0.file.dead.as_ref().ok_or(ApiError::Absent { what: "dead" })?;
        let (mut variables, mut request, mut all) = (self.any(), &dead.request, Vec::new());
        let mut seen = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let call = assemble("dead", request, &dead.headers, Content::None, &variables)?;
            let reply = self.call(call).await?;
            check("dead", &reply, &[], &self.0.redactor)?;
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

const UNSUBSCRIBING_MAX: usize = 16;
const AFTER_WITHIN_NS: u64 = 120 * SECOND;

#[derive(Clone, Copy, Debug)]
pub struct Subscription<'a> {
    pub subscriber: &'a Subscriber,
    /// Those that it is owed.
    pub types: &'a [String],
    pub url: &'a str,
    /// Given to senders that don't generate one.
    pub secret: &'a str,
}

impl Api {
    /// With `[poll]`, waits until the sender serves it. Returns the key that verifies its signatures: its secret, or
    /// the sender's public key.
    pub async fn subscribe(&self, one: &Subscription<'_>) -> Result<String, ApiError> {
        let Subscription { subscriber, types, url, secret } = *one;
        let name = &subscriber.name;
        self.0.redactor.learn([secret.to_owned()]);
        let mut own = of_subscriber(subscriber, types, url, secret);
        // From the first call on there may be something to undo, even if its answer is unusable.
        self.know(name, own.clone());
        for request in &self.0.file.subscribe {
            let mut variables = self.any();
            variables.extend(own.clone());
            self.record_substitutions(name, request, &variables);
            own.extend(self.make("subscribe", request, &variables).await?);
            self.know(name, own.clone());
        }
        if let Some(poll) = &self.0.file.poll {
            let mut variables = self.any();
            variables.extend(own.clone());
            own.extend(self.make("poll", poll, &variables).await?);
        }
        let public = self.0.file.sign.as_ref().and_then(|sign| sign.public_key.as_ref());
        let mut variables = self.any();
        variables.extend(own.clone());
        let public = public.map(|key| key.fill(&variables)).transpose();
        let public = public.map_err(|error| ApiError::Template { what: "sign.public_key", error });
        let public = self.hiding(public)?;
        let secret = own.get("secret").cloned().unwrap_or_default();
        self.know(name, own);
        Ok(public.unwrap_or(secret))
    }

    fn know(&self, name: &str, own: Variables) {
        let mut subscribers = self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.insert(name.to_owned(), own);
    }

    /// The sender cannot express the scenario's.
    #[must_use]
    pub fn substitutions(&self) -> Vec<Substitution> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record_substitutions(&self, name: &str, request: &Request, variables: &Variables) {
        let differences = request.templates().flat_map(|template| template.differences(variables));
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        for difference in differences {
            let one = Substitution { subscriber: name.to_owned(), what: self.hide(&difference.to_string()) };
            if !told.contains(&one) {
                told.push(one);
            }
        }
    }

    pub async fn change(
        &self,
        name: &str,
        limit: &Limit,
        timeout: Option<scenario::Duration>,
    ) -> Result<(), ApiError> {
        let mut words = of_limit(limit);
        words.extend(timeout.into_iter().flat_map(of_timeout));
        self.about("change", self.0.file.change.as_ref(), name, words).await.map(drop)
    }

    /// The old secret signs beside the new one for `overlap`.
    pub async fn rotate(&self, name: &str, overlap: scenario::Duration) -> Result<Option<String>, ApiError> {
        let overlap = Variables::from([("overlap".to_owned(), overlap.to_string())]);
        let mut saved = self.about("rotate", self.0.file.rotate.as_ref(), name, overlap).await?;
        Ok(saved.remove("secret"))
    }

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
        self.record_substitutions(name, request, &variables);
        self.make(what, request, &variables).await
    }

    /// Also makes the calls of `[teardown]`. Returns the failures, for people.
    pub async fn tear_down(&self) -> Vec<String> {
        self.tear_down_within(AFTER_WITHIN_NS).await
    }

    async fn tear_down_within(&self, within_ns: u64) -> Vec<String> {
        let mut failed = Vec::new();
        tokio::select! {
            () = self.tear_all_down(&mut failed) => {}
            () = self.0.clock.pass(within_ns) => {
                let within = scenario::Duration(within_ns);
                failed.push(format!("not all subscriptions were removed within {within}"));
            }
        }
        let left = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner).len();
        if left > 0 && !self.0.file.unsubscribe.is_empty() {
            failed.push(format!("subscriptions left with the sender: {left}; remove them there"));
        }
        failed
    }

    async fn tear_all_down(&self, failed: &mut Vec<String>) {
        let names: Vec<String> = {
            let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
            if self.0.file.unsubscribe.is_empty() {
                Vec::new()
            } else {
                subscribers.keys().cloned().collect()
            }
        };
        let mut calls = JoinSet::new();
        for name in names {
            if calls.len() >= UNSUBSCRIBING_MAX {
                failed.extend(outcome(calls.join_next().await));
            }
            let api = self.clone();
            calls.spawn(async move { api.unsubscribe(&name).await });
        }
        while !calls.is_empty() {
            failed.extend(outcome(calls.join_next().await));
        }
        let begun = self.0.begun.load(Ordering::Relaxed);
        for request in self.0.file.teardown.iter().filter(|_| begun) {
            let made = self.make("teardown", request, &self.any()).await;
            failed.extend(made.err().map(|error| error.to_string()));
        }
    }

    pub async fn unsubscribe(&self, name: &str) -> Result<(), String> {
        for request in &self.0.file.unsubscribe {
            let made = self.about("unsubscribe", Some(request), name, Variables::new()).await;
            made.map_err(|error| format!("{name}: {error}"))?;
        }
        self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }
}

fn outcome(ended: Option<Result<Result<(), String>, tokio::task::JoinError>>) -> Option<String> {
    match ended? {
        Ok(done) => done.err(),
        Err(error) => Some(error.to_string()),
    }
}

#[derive(Debug)]
struct WorkerAddress {
    base: String,
    port: u16,
    /// Its process was ready, and lives.
    open: AtomicBool,
    /// Its process listens and does not answer.
    frozen: AtomicBool,
}

impl WorkerAddress {
    pub(super) fn new(base: String, port: u16) -> Self {
        Self { base, port, open: AtomicBool::default(), frozen: AtomicBool::default() }
    }

    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }

    pub(super) fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
    }

    pub(super) fn answers(&self) -> bool {
        self.open.load(Ordering::Relaxed) && !self.frozen.load(Ordering::Relaxed)
    }

    pub(super) fn name_in(&self, variables: &mut Variables) {
        variables.insert("base".to_owned(), self.base.clone());
        variables.insert("port".to_owned(), self.port.to_string());
    }
}

const CALL_WITHIN: Duration = Duration::from_secs(30);

pub(super) enum Content {
    None,
    /// A body: JSON, unless a header says otherwise.
    Body(String),
    Form(String),
}

impl Content {
    pub(super) fn fill(
        body: Option<&Template>,
        form: &BTreeMap<String, Template>,
        variables: &impl Lookup,
    ) -> Result<Self, TemplateError> {
        if let Some(body) = body {
            return body.fill(variables).map(Self::Body);
        }
        if form.is_empty() {
            return Ok(Self::None);
        }
        let field = |(name, value): (&String, &Template)| {
            Ok(format!("{}={}", encoded(name), encoded(&value.fill(variables)?)))
        };
        let fields: Vec<String> = form.iter().map(field).collect::<Result<_, TemplateError>>()?;
        Ok(Self::Form(fields.join("&")))
    }
}

pub(super) fn assemble(
    what: &'static str,
    request: &Template,
    headers: &BTreeMap<String, Template>,
    content: Content,
    variables: &impl Lookup,
) -> Result<Call, ApiError> {
    let unmade = |error| ApiError::Template { what, error };
    let text = request.fill(variables).map_err(unmade)?;
    let unclear = || ApiError::Request { what, request: text.clone() };
    let (method, url) = text.split_once(' ').ok_or_else(unclear)?;
    let method = method.parse().map_err(|_| unclear())?;
    let fill =
        |(name, value): (&String, &Template)| Ok((name.clone(), value.fill(variables).map_err(unmade)?));
    let mut headers: Vec<(String, String)> = headers.iter().map(fill).collect::<Result<_, ApiError>>()?;
    let (kind, body) = match content {
        Content::None => (None, Bytes::new()),
        Content::Body(text) => (Some("application/json"), Bytes::from(text)),
        Content::Form(text) => (Some("application/x-www-form-urlencoded"), Bytes::from(text)),
    };
    if let Some(kind) = kind
        && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    {
        headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    Ok(Call { method, url: url.trim().to_owned(), headers, body, within: Duration::MAX })
}

/// Secrets are redacted from the error.
pub(super) fn check(
    what: &'static str,
    reply: &Reply,
    accept: &[u16],
    hidden: &Redactor,
) -> Result<(), ApiError> {
    if answers::is_right(reply.status, accept) {
        return Ok(());
    }
    let expected = if accept.is_empty() { "2xx".to_owned() } else { format!("{accept:?}") };
    let body = hidden.beginning(&reply.body, 300);
    Err(ApiError::Status { what, status: reply.status, expected, body })
}

#[cfg(test)]
mod tests;
