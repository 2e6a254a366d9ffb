//! Tests a driver file: starts its sender, subscribes one endpoint, offers three events, verifies the deliveries,
//! reads the queue, and takes all back, within a minute. A failed step shows its request and answer, redacted.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use hookproof_judge::exit::{FAILED, HARNESS, INTERRUPTED, UNREACHABLE, USAGE};
use hookproof_judge::scenario::{Durability, SECOND, Scenario, Subscriber};
use hookproof_judge::trace::{
    Arrival, Payload, ProcessEvent, Record, Recorder, Records, Stray, StrayKind, Verified,
};
use hookproof_play::payload::Offered;
use hookproof_play::traffic::{Schedule, Tokens};
use serde::Serialize;

use crate::clock::Clock;
use crate::driver::{
    Api, ApiError, DriverFile, EmitResult, Event, Exchange, ProcessConfig, Processes, StartError,
    Subscription, log_path,
};
use crate::endpoint::{Endpoints, Identity, Reach, Spec, Stage};
use crate::run::{Interrupt, RunError, here, scheme};

/// Excludes the teardown.
const WITHIN_NS: u64 = 60 * SECOND;
const DELIVERED_WITHIN_NS: u64 = 20 * SECOND;
const STOP_WITHIN_NS: u64 = 10 * SECOND;
/// Shown with the first failed step.
const LOG_LINES: usize = 10;
const LOOK_NS: u64 = 20_000_000;

/// Three events at once, and a subscriber that any sender can serve.
const SCENARIO: &str = r#"
name = "driver-check"
[[traffic]]
shape = "burst"
events = 3
[events]
types = { "driver.check" = 1 }
[[subscriber]]
name = "hookproof-check"
limit = { rate = "10/s", burst = 5, in_flight = 3 }
timeout = "5s"
"#;

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub driver: &'a Path,
    /// It wraps processes.
    pub program: &'a Path,
    /// An empty folder for the sender's files and its log.
    pub folder: &'a Path,
    pub reach: &'a Reach,
}

/// Fails when the harness itself fails.
pub async fn rehearse(
    file: &DriverFile,
    options: Options<'_>,
    mut interrupt: Interrupt,
) -> Result<Rehearsal, RunError> {
    let scenario = Scenario::from_text(SCENARIO, "driver-check").map_err(|_| RunError::Generator)?;
    let clock = Clock::begun();
    let run = clock.unix_ns(0) / 1_000_000 % (1 << 32);
    let tokens = Tokens::new(u32::try_from(run).unwrap_or_default());
    let (recorder, records) = Recorder::new(10_000);
    let offered = offered(file, &scenario, tokens)?;
    let stage =
        Stage { clock: clock.clone(), recorder, tokens, seed: 1, offered: Some(Arc::clone(&offered)) };
    let mut rehearsal = Rehearsal::new(&file.name);
    let name = scenario.subscribers[0].name.as_str();
    options.reach.check(std::iter::once(name))?;
    let identity = Identity::of(options.reach, &[name], options.folder, &clock)?;
    let trust = identity.as_ref().map_or(Path::new(""), Identity::trust);
    let api = match api(file, options, tokens, (scenario.sender.durability, trust)) {
        Ok(api) => api,
        Err(error) => {
            rehearsal.failed("connect", error.to_string(), None, error.code());
            return Ok(rehearsal);
        }
    };
    let config = ProcessConfig {
        program: options.program.to_owned(),
        logs: options.folder.to_owned(),
        ..ProcessConfig::default()
    };
    let mut processes = match Processes::new(&api, 1, &config, &clock, &stage.recorder) {
        Ok(processes) => processes,
        Err(error) => {
            let error = RunError::from(error);
            rehearsal.failed("start", error.to_string(), None, error.code());
            return Ok(rehearsal);
        }
    };
    let spec = spec(file, &scenario.subscribers[0]);
    let endpoints = Endpoints::open_at(vec![spec], &stage, options.reach, identity.as_ref());
    let endpoints = endpoints.await.map_err(RunError::Endpoints)?;
    let mut stand = Stand {
        scenario: &scenario,
        schedule: &offered.schedule,
        api: &api,
        endpoints: &endpoints,
        arrivals: Arrivals::new(records),
        stage: &stage,
        rehearsal: &mut rehearsal,
    };
    let broken_off = tokio::select! {
        () = stand.play(&mut processes) => None,
        () = clock.pass(WITHIN_NS) => Some(("the time limit of 60 s is over", UNREACHABLE)),
        Ok(_) = interrupt.wait_for(|wanted| *wanted) => Some(("interrupted", INTERRUPTED)),
    };
    let Stand { arrivals, .. } = stand;
    if let Some((why, code)) = broken_off {
        rehearsal.failed("end", why.to_owned(), api.last(), code);
    }
    take_back(&api, &mut processes, &mut rehearsal, &arrivals.records).await;
    endpoints.close().await;
    rehearsal.show_log(&api, options.folder);
    Ok(rehearsal)
}

fn spec(file: &DriverFile, subscriber: &Subscriber) -> Spec {
    Spec {
        name: subscriber.name.clone(),
        path: subscriber.path(),
        behaviours: Vec::new(),
        answers: subscriber.answers,
        permission: subscriber.permission.clone(),
        scheme: scheme(file, subscriber.sign),
    }
}

fn offered(file: &DriverFile, scenario: &Scenario, tokens: Tokens) -> Result<Arc<Offered>, RunError> {
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, 1, Path::new("."));
    let schedule = Arc::new(schedule.map_err(|_| RunError::Generator)?);
    Ok(Arc::new(Offered { schedule, tokens, places: file.payload.clone() }))
}

fn api(
    file: &DriverFile,
    options: Options<'_>,
    tokens: Tokens,
    (durability, trust): (Durability, &Path),
) -> Result<Api, RunError> {
    let port = crate::driver::free_port().map_err(RunError::Port)?;
    let variables = [
        ("hookproof", options.program.display().to_string()),
        ("here", here(Some(options.driver))),
        ("dir", options.folder.display().to_string()),
        ("database", options.folder.join("sender.db").display().to_string()),
        ("durability", durability.name().to_owned()),
        ("run", tokens.run()),
        ("ca", trust.display().to_string()),
    ];
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Api::watched(file.clone(), &[port], variables)?)
}

struct Stand<'a> {
    scenario: &'a Scenario,
    schedule: &'a Schedule,
    api: &'a Api,
    endpoints: &'a Endpoints,
    arrivals: Arrivals,
    stage: &'a Stage,
    rehearsal: &'a mut Rehearsal,
}

impl Stand<'_> {
    /// Ends at the first failure that makes the other steps useless.
    async fn play(&mut self, processes: &mut Processes) {
        let started = processes.start().await;
        let is_ours = self.api.file().start.is_some();
        if !self.started(started, is_ours) || !self.set_up().await || !self.subscribe().await {
            return;
        }
        if self.emit().await {
            self.receive().await;
            self.check_depth().await;
        }
    }

    fn started(&mut self, started: Result<(), StartError>, is_ours: bool) -> bool {
        match started {
            Ok(()) if is_ours => self.rehearsal.passed("start", "the sender is ready".to_owned()),
            Ok(()) => {
                self.rehearsal
                    .skipped("start", "the driver file has no [start], so the sender must already run");
            }
            Err(error) => {
                let error = RunError::from(error);
                self.rehearsal.failed("start", self.api.hide(&error.to_string()), None, error.code());
                return false;
            }
        }
        true
    }

    async fn set_up(&mut self) -> bool {
        let count = self.api.file().setup.len();
        match self.api.set_up().await {
            Ok(()) if count == 0 => self.rehearsal.skipped("setup", "the driver file has no [[setup]]"),
            Ok(()) => self.rehearsal.passed("setup", format!("{count} calls")),
            Err(error) => return self.refused("setup", error),
        }
        true
    }

    async fn subscribe(&mut self) -> bool {
        let subscriber = &self.scenario.subscribers[0];
        let url = self.endpoints.url(0).unwrap_or_default();
        let scheme = scheme(self.api.file(), subscriber.sign);
        let bytes: Vec<u8> = self.stage.tokens.run().bytes().cycle().take(32).collect();
        let types: Vec<String> = self.scenario.events.types.iter().map(|(kind, _)| kind.clone()).collect();
        let secret = scheme.secret_of(&bytes);
        let one = Subscription { subscriber, types: &types, url: &url, secret: &secret };
        let key = match self.api.subscribe(&one).await {
            Ok(key) => key,
            Err(error) => return self.refused("subscribe", error),
        };
        if scheme.is_signed() {
            match scheme.key(&key) {
                Ok(key) => self.endpoints.learn(0, vec![key]),
                Err(error) => {
                    self.rehearsal.failed("subscribe", error.to_string(), self.api.last(), UNREACHABLE);
                    return false;
                }
            }
        }
        let told = self.api.substitutions().into_iter().map(|told| told.what);
        let said: Vec<String> = std::iter::once(format!("an endpoint at {url}")).chain(told).collect();
        self.rehearsal.passed("subscribe", said.join("; "));
        true
    }

    async fn emit(&mut self) -> bool {
        let (schedule, tokens, clock) = (self.schedule, self.stage.tokens, &self.stage.clock);
        let events: Vec<Event> = schedule
            .due()
            .iter()
            .map(|due| Event {
                token: due.token,
                text: tokens.text(due.token),
                uuid: tokens.uuid(due.token),
                kind: schedule.kind(due).to_owned(),
                key: schedule.key(due).to_owned(),
                data: schedule.data(due, tokens),
                unix_ns: clock.unix_ns(clock.now()),
            })
            .collect();
        let emit = &self.api.file().emit;
        let calls = if emit.batch { emit.batch_max } else { 1 };
        let (mut accepted, mut all_unmatched) = (0, true);
        for batch in events.chunks(calls) {
            for result in self.api.emit(batch).await {
                match result {
                    EmitResult::Accepted { matched, .. } => {
                        accepted += 1;
                        all_unmatched &= matched == Some(0);
                    }
                    EmitResult::Refused { status, why, .. } => {
                        let why = format!("an event was answered with {status}: {why}");
                        return self.not_emitted(why, UNREACHABLE);
                    }
                    EmitResult::Silent { why, .. } => return self.not_emitted(why, UNREACHABLE),
                    EmitResult::Unoffered { ours, why } => {
                        return self.not_emitted(why, if ours { HARNESS } else { USAGE });
                    }
                }
            }
        }
        self.arrivals.expect(events.iter().map(|event| event.token));
        if all_unmatched {
            let why = "the sender says that no subscriber matches the events; if it knows no patterns such as \
                `video.*`, use `filter_types` in place of `events` in [subscribe]";
            return self.not_emitted(why.to_owned(), FAILED);
        }
        self.rehearsal.passed("emit", format!("events accepted: {accepted}"));
        true
    }

    fn not_emitted(&mut self, why: String, code: u8) -> bool {
        self.rehearsal.failed("emit", why, self.api.last(), code);
        false
    }

    async fn receive(&mut self) {
        let until = self.stage.clock.now() + DELIVERED_WITHIN_NS;
        while !self.arrivals.are_all_there() && self.stage.clock.now() < until {
            self.stage.clock.pass(LOOK_NS).await;
        }
        let (came, wanted) = self.arrivals.count();
        if came < wanted {
            let within = DELIVERED_WITHIN_NS / SECOND;
            let mut what = format!("{came} of {wanted} events arrived within {within} s");
            if let Some(stranger) = self.arrivals.stranger() {
                what.push_str(&format!(
                    "; a request without the harness's token arrived: {}",
                    self.api.hide(&stranger)
                ));
            }
            if let Some(stray) = self.arrivals.stray() {
                what.push_str(&format!("; {}", self.api.hide(&stray)));
            }
            self.rehearsal.failed("deliver", what, None, FAILED);
        } else {
            self.rehearsal.passed("deliver", format!("events arrived: {came}; {}", self.arrivals.shape()));
        }
        match self.arrivals.signatures() {
            Ok(what) => self.rehearsal.passed("verify", what),
            Err(Outcome::Skipped(why)) => self.rehearsal.skipped("verify", &why),
            Err(Outcome::Failed(why)) => self.rehearsal.failed("verify", why, None, FAILED),
            Err(Outcome::Passed) => {}
        }
        match self.arrivals.payloads() {
            Ok(0) => self.rehearsal.skipped("payload", "no payload could be compared"),
            Ok(count) => {
                self.rehearsal
                    .passed("payload", format!("{count} requests have their events as they were offered"));
            }
            Err(why) => self.rehearsal.failed("payload", why, None, FAILED),
        }
    }

    async fn check_depth(&mut self) {
        let file = self.api.file();
        match (&file.depth, self.api.depth().await) {
            (None, _) => self.rehearsal.skipped("depth", "the driver file has no [depth]"),
            (Some(depth), Ok(samples)) => match samples.first().and_then(|whole| whole.waiting) {
                Some(waiting) => self
                    .rehearsal
                    .passed("depth", format!("the queue can be read; deliveries waiting: {waiting}")),
                None => {
                    let what = format!("there is no number at {:?} in the answer", depth.pointer);
                    self.rehearsal.failed("depth", what, self.api.last(), FAILED);
                }
            },
            (Some(_), Err(error)) => drop(self.refused("depth", error)),
        }
        match (&file.dead, self.api.dead(1_000_000).await) {
            (None, _) => self.rehearsal.skipped("dead", "the driver file has no [dead]"),
            (Some(_), Ok(letters)) => {
                self.rehearsal.passed("dead", format!("dead letters: {}", letters.len()));
            }
            (Some(_), Err(error)) => drop(self.refused("dead", error)),
        }
    }

    fn refused(&mut self, step: &'static str, error: ApiError) -> bool {
        let error = RunError::from(error);
        self.rehearsal.failed(step, self.api.hide(&error.to_string()), self.api.last(), error.code());
        false
    }
}

async fn take_back(api: &Api, processes: &mut Processes, rehearsal: &mut Rehearsal, records: &Records) {
    let (unsubscribes, tears_down) = (!api.file().unsubscribe.is_empty(), !api.file().teardown.is_empty());
    let failed = api.tear_down().await;
    if !failed.is_empty() {
        rehearsal.failed("unsubscribe", failed.join("; "), api.last(), UNREACHABLE);
    } else if unsubscribes || tears_down {
        rehearsal.passed("unsubscribe", "subscriptions and setup are removed".to_owned());
    } else {
        rehearsal.skipped("unsubscribe", "the driver file has neither [unsubscribe] nor [teardown]");
    }
    if processes.is_empty() {
        return;
    }
    let stopped = processes.stop(STOP_WITHIN_NS).await;
    let left = processes.take_undone();
    match stopped {
        Ok(()) if !left.is_empty() => {
            let why: Vec<String> = left.into_iter().map(|undone| undone.why).collect();
            rehearsal.failed("stop", why.join("; "), None, FAILED);
        }
        Ok(()) if rehearsal.has_failed("start") => rehearsal.skipped("stop", "`start` failed"),
        Ok(()) => match unclean_end(&records.take()) {
            Some(why) => rehearsal.failed("stop", why, None, FAILED),
            None => rehearsal.passed("stop", "the sender has ended".to_owned()),
        },
        Err(error) => rehearsal.failed("stop", error.to_string(), None, FAILED),
    }
}

/// The end for which `process.exits` fails a run.
fn unclean_end(records: &[Record]) -> Option<String> {
    let mut asked = BTreeSet::new();
    let mut processes = records.iter().filter_map(|record| match record {
        Record::Process(one) => Some((one.worker, one.event, one.status.as_deref().unwrap_or("exit 0"))),
        _ => None,
    });
    processes.find_map(|(worker, event, status)| match event {
        ProcessEvent::Started => {
            asked.remove(&worker);
            None
        }
        ProcessEvent::Asked => {
            asked.insert(worker);
            None
        }
        ProcessEvent::Killed => {
            let within = STOP_WITHIN_NS / SECOND;
            Some(format!("the sender had to be killed {within} s after it was asked to stop"))
        }
        ProcessEvent::Exited if !asked.contains(&worker) => {
            Some(format!("the sender ended by itself ({status})"))
        }
        ProcessEvent::Exited if status != "exit 0" => {
            Some(format!("the sender was asked to stop and ended with {status}; expected exit 0"))
        }
        _ => None,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub step: &'static str,
    /// `passed`, `skipped` or `failed`.
    pub status: &'static str,
    pub what: String,
    /// A failed call's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<String>,
    /// Shown with the first failed step only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rehearsal {
    pub driver: String,
    pub code: u8,
    pub steps: Vec<Step>,
}

impl Rehearsal {
    fn new(driver: &str) -> Self {
        Self { driver: driver.to_owned(), code: 0, steps: Vec::new() }
    }

    fn passed(&mut self, step: &'static str, what: String) {
        self.steps.push(Step { step, status: "passed", what, sent: None, got: None, log: None });
    }

    fn skipped(&mut self, step: &'static str, why: &str) {
        self.steps.push(Step {
            step,
            status: "skipped",
            what: why.to_owned(),
            sent: None,
            got: None,
            log: None,
        });
    }

    /// `code` is the exit code of this failure.
    fn failed(&mut self, step: &'static str, why: String, last: Option<Exchange>, code: u8) {
        self.code = hookproof_judge::exit::worse(self.code, code);
        let (sent, got) = last.map(|Exchange { sent, got }| (sent, got)).unzip();
        self.steps.push(Step { step, status: "failed", what: why, sent, got, log: None });
    }

    fn has_failed(&self, step: &str) -> bool {
        self.steps.iter().any(|one| one.step == step && one.status == "failed")
    }

    fn show_log(&mut self, api: &Api, folder: &Path) {
        let Some(step) = self.steps.iter_mut().find(|step| step.status == "failed") else { return };
        // No log: the harness started no sender.
        let Ok(log) = std::fs::read(log_path(folder, 0)) else { return };
        let log = api.hide(&String::from_utf8_lossy(&log));
        let lines: Vec<&str> = log.lines().collect();
        step.log = Some(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"));
    }

    /// Below a failed step stand its request, its answer and the end of the sender's log.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Step { step, status, what, sent, got, log } in &self.steps {
            text.push_str(&format!("{status:7}  {step:11}  {}\n", marked(what)));
            for (name, part) in [("sent", sent), ("got", got), ("log", log)] {
                for part in part.iter().filter(|part| !part.trim_end().is_empty()) {
                    text.push_str(&format!("         {name:>11}  {}\n", marked(part)));
                }
            }
        }
        let failed = self.steps.iter().filter(|step| step.status == "failed").count();
        let end = match failed {
            0 => "the driver works".to_owned(),
            1 => "one step failed".to_owned(),
            _ => format!("{failed} steps failed"),
        };
        text.push_str(&format!("{}: {end}\n", self.driver));
        text
    }
}

/// A CI runner obeys lines that begin with `::`, which a sender may print. For it a carriage return also begins a
/// line.
fn marked(text: &str) -> String {
    let lines = text.trim_end().replace("\r\n", "\n");
    lines.replace(['\r', '\n'], &format!("\n{:22}| ", ""))
}

struct Arrivals {
    records: Records,
    all: Vec<Arrival>,
    stray: Option<Stray>,
    wanted: BTreeSet<u64>,
}

impl Arrivals {
    const fn new(records: Records) -> Self {
        Self { records, all: Vec::new(), stray: None, wanted: BTreeSet::new() }
    }

    fn expect(&mut self, tokens: impl Iterator<Item = u64>) {
        self.wanted = tokens.collect();
    }

    fn collect(&mut self) {
        for record in self.records.take() {
            match record {
                Record::Arrival(arrival) => self.all.push(arrival),
                Record::Stray(stray) => self.stray = Some(stray),
                _ => {}
            }
        }
    }

    fn stray(&self) -> Option<String> {
        let stray = self.stray.as_ref()?;
        Some(match stray.kind {
            StrayKind::Handshake => format!("a TLS handshake failed: {}", stray.said),
            StrayKind::Request => format!("a request named no endpoint: {}", stray.said),
        })
    }

    fn came(&self) -> BTreeSet<u64> {
        let tokens = self.all.iter().flat_map(|arrival| arrival.token.iter().chain(&arrival.more).copied());
        tokens.filter(|token| self.wanted.contains(token)).collect()
    }

    fn are_all_there(&mut self) -> bool {
        self.collect();
        self.came().len() == self.wanted.len()
    }

    fn count(&self) -> (usize, usize) {
        (self.came().len(), self.wanted.len())
    }

    fn stranger(&self) -> Option<String> {
        self.all.iter().find(|arrival| arrival.token.is_none()).map(shape)
    }

    fn shape(&self) -> String {
        self.all.iter().find(|arrival| arrival.token.is_some()).map(shape).unwrap_or_default()
    }

    fn payloads(&self) -> Result<usize, String> {
        let altered = self.all.iter().find_map(|arrival| match &arrival.payload {
            Some(Payload::Altered(why)) => Some(why.to_string()),
            _ => None,
        });
        let intact = self.all.iter().filter(|arrival| arrival.payload == Some(Payload::Intact)).count();
        altered.map_or(Ok(intact), Err)
    }

    fn signatures(&self) -> Result<String, Outcome> {
        for arrival in self.all.iter().filter(|arrival| arrival.token.is_some()) {
            match &arrival.signed.verified {
                Verified::Keys(keys) if !keys.is_empty() => {}
                Verified::Keys(_) => {
                    return Err(Outcome::Failed("no known key made the signature".to_owned()));
                }
                Verified::Unchecked(why) => return Err(Outcome::Skipped(why.to_string())),
                Verified::No(why) => {
                    let header = arrival.signed.signature.as_deref().unwrap_or("none");
                    let stamp = arrival.signed.timestamp.as_deref().unwrap_or("none");
                    let id = arrival.id.as_deref().unwrap_or("none");
                    return Err(Outcome::Failed(format!(
                        "{why}; the signature's header: {header}; timestamp: {stamp}; id: {id}"
                    )));
                }
            }
        }
        match self.came().len() {
            0 => Err(Outcome::Skipped("nothing arrived".to_owned())),
            count => Ok(format!("valid signatures: {count}")),
        }
    }
}

fn shape(arrival: &Arrival) -> String {
    let content = arrival.head.content_type.as_deref().unwrap_or("no content type");
    format!("{} {}, {content}, {} bytes", arrival.head.method, arrival.head.path, arrival.bytes)
}

#[cfg(test)]
mod tests {
    use hookproof_judge::trace::Process;

    use super::*;

    #[test]
    fn the_end_of_a_sender_is_judged_as_a_run_judges_it() {
        use ProcessEvent::{Asked, Exited, Killed, Started};

        /// Worker, event and status.
        type Event = (u32, ProcessEvent, &'static str);
        let rows: [(&[Event], &str); 6] = [
            (&[(0, Started, ""), (0, Asked, ""), (0, Exited, "exit 0")], ""),
            (&[(0, Started, ""), (0, Asked, ""), (0, Exited, "")], ""),
            (&[(0, Asked, ""), (0, Exited, "exit 3")], "ended with exit 3; expected exit 0"),
            (&[(0, Started, ""), (0, Exited, "exit 0")], "ended by itself (exit 0)"),
            (&[(0, Asked, ""), (1, Exited, "exit 0")], "ended by itself (exit 0)"),
            (&[(0, Asked, ""), (0, Killed, ""), (0, Exited, "signal 9")], "had to be killed 10 s after"),
        ];
        for (events, expected) in rows {
            let record = |(worker, event, status): &Event| {
                let status = Some(*status).filter(|status| !status.is_empty()).map(str::to_owned);
                Record::Process(Process { t: 1, worker: *worker, event: *event, status })
            };
            let records: Vec<Record> = events.iter().map(record).collect();
            let found = unclean_end(&records).unwrap_or_default();
            assert!(
                found.is_empty() == expected.is_empty() && found.contains(expected),
                "{events:?}: {found}"
            );
        }
    }

    #[test]
    fn no_line_begins_with_what_a_sender_said() {
        let said = "no\n::error ::a\r::error ::b\r\n  ::error ::c";
        let mut rehearsal = Rehearsal::new("x");
        let last = Exchange { sent: said.to_owned(), got: said.to_owned() };
        rehearsal.failed("emit", said.to_owned(), Some(last), hookproof_judge::exit::UNREACHABLE);
        let text = rehearsal.text();
        assert_eq!(text.matches("::error").count(), 9, "{text}");
        let obeyed = |line: &&str| line.trim_start().starts_with("::");
        assert_eq!(text.split(['\n', '\r']).find(obeyed), None, "{text}");
    }
}
