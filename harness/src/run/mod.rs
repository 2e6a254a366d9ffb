//! One run, from the scenario to the trace. However a run ends, the trailer of its trace says how.

mod ceiling;
mod conductor;
mod emitter;
mod error;
mod folder;
mod heartbeat;
mod live;
mod operator;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use ceiling::{CONNECTIONS, bare_client, ceiling};
use conductor::Conductor;
pub(crate) use conductor::scheme;
use emitter::Emission;
pub use error::RunError;
pub use folder::Home;
use folder::raise_files;
use heartbeat::EndpointThread;
use hookproof_judge::scenario::{FaultAction, FaultPlan, Scenario, Store, Subscriber};
use hookproof_judge::signature::{Profile, Scheme, sha256_hex};
use hookproof_judge::trace::ledger::Ledger;
use hookproof_judge::trace::{
    Ceiling, ClockKind, Dead, Declared, End, Ended, FORMAT, Header, OURS, Public, Record, Recorder, TraceFile,
};
use hookproof_play::payload::Offered;
use hookproof_play::traffic::{Chance, Schedule, Tokens};
use live::Following;
pub use live::{Judging, Live, PageServer};
use tokio::sync::watch;
use tokio::task::JoinSet;
use view::{View, print_message};

use crate::clock::Clock;
use crate::database::{Database, DatabaseError, Link};
use crate::driver::{Api, DriverFile, ProcessConfig, Processes, Subscription, Variables};
use crate::endpoint::{Endpoints, Identity, Reach, Spec, Stage};
use crate::fault::{WallClock, sets_clocks};
use crate::traffic::Lag;

/// True once the run is interrupted.
pub type Interrupt = watch::Receiver<bool>;

#[derive(Debug)]
pub struct Played {
    /// While this is held, no other run overwrites the sender's folder.
    pub home: Home,
    pub trace: PathBuf,
    pub ended: Ended,
    pub lag: Lag,
    /// Records that the trace lacks.
    pub dropped: u64,
    /// This error broke the run off.
    pub failure: Option<RunError>,
}

struct Course {
    ended: Ended,
    lag: Lag,
    dead_listed: bool,
    failure: Option<RunError>,
}

pub async fn play(scenario: &Scenario, options: &Options, interrupt: Interrupt) -> Result<Played, RunError> {
    let seed = options.seed.unwrap_or(scenario.seed);
    let file = options.driver.as_deref().map_or_else(DriverFile::hookproof, DriverFile::open)?;
    is_fit(scenario, &file)?;
    let options = &with_certificates(scenario, options, &file)?;
    options.reach.check(scenario.subscribers.iter().map(|one| one.name.as_str()))?;
    raise_files(scenario)?;
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, &options.folder)?;
    let home = Home::take(&options.out.join("sender"))?;
    let setup = &scenario.sender;
    let database = Database::prepare(setup.store, setup.durability, home.path(), &options.out).await?;
    let trace = options.trace();
    let clock = Clock::default();
    // Milliseconds modulo 50 days: no sender retains events that long.
    let run = clock.unix_ns(0) / 1_000_000 % (1 << 32);
    let tokens = Tokens::new(u32::try_from(run).unwrap_or_default());
    let sink = TraceFile::reserve(&trace).map_err(|error| cannot_write(&trace, error))?;
    let (recorder, writer) = Recorder::writing(sink).map_err(|error| cannot_write(&trace, error))?;
    let schedule = Arc::new(schedule);
    let offered = Offered { schedule: Arc::clone(&schedule), tokens, places: file.payload.clone() };
    let stage = Stage { clock, recorder, tokens, seed, offered: Some(Arc::new(offered)) };
    let staged = Staged {
        scenario,
        options,
        file,
        schedule,
        stage: stage.clone(),
        home: home.path(),
        database: &database,
    };
    let played = staged.play(interrupt).await;
    let closed = database.close().await;
    // A run that could not begin has no trace; one that began gets a whole one, even after an error.
    let Course { mut ended, lag, dead_listed, mut failure } = played?;
    if let Err(error) = closed {
        // A sender without its store shows nothing about itself.
        ended = Ended::Interrupted;
        failure = failure.or(Some(error.into()));
    }
    let dropped = stage.recorder.dropped();
    let end = End { t: stage.clock.now(), ended, dead_listed, late: lag.late, dropped };
    let recorder = stage.recorder.clone();
    let written = tokio::task::spawn_blocking(move || {
        recorder.end(end);
        writer.join()
    });
    let sink = written.await.ok().and_then(Result::ok).ok_or(RunError::Generator)?;
    let sink = sink.map_err(|error| cannot_write(&trace, error))?;
    sink.close().map_err(|error| cannot_write(&trace, error))?;
    Ok(Played { home, trace, ended, lag, dropped, failure })
}

struct Staged<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    file: DriverFile,
    schedule: Arc<Schedule>,
    stage: Stage,
    home: &'a Path,
    database: &'a Database,
}

impl Staged<'_> {
    async fn play(self, interrupt: Interrupt) -> Result<Course, RunError> {
        let (clock, recorder) = (self.stage.clock.clone(), self.stage.recorder.clone());
        if self.scenario.expect.efficiency_min.is_some() {
            self.measure_ceiling().await?;
        }
        let thread = EndpointThread::start(&clock, &recorder).map_err(RunError::Thread)?;
        let identity = self.identity()?;
        let api = self.api(identity.as_ref())?;
        let opening = thread.open(self.specs(), &self.stage, &self.options.reach, identity);
        let endpoints = opening.await.map_err(RunError::Endpoints)?;
        let links = self.links()?;
        let mut clocks = WallClock::of(self.scenario, &self.options.out).map_err(RunError::Process)?;
        let config = self.config(&links, &clocks);
        let mut processes = Processes::new(&api, self.scenario.sender.workers, &config, &clock, &recorder)?;
        let told = self.make_ready(&api, &mut processes, &endpoints, &interrupt).await?;
        let tokens = self.stage.tokens;
        let schedule = Arc::clone(&self.schedule);
        let emission = Emission { api: api.clone(), clock: clock.clone(), recorder, schedule, tokens };
        let lasts = emission.schedule.lasts();
        clock.begin();
        self.begin(&emission.recorder, &api)?;
        let stop = Arc::new(AtomicBool::new(false));
        let emitting =
            emission.start(self.scenario, clock.now(), Arc::clone(&stop)).map_err(|_| RunError::Generator)?;
        let mut conductor = Conductor {
            scenario: self.scenario,
            api: &api,
            processes: &mut processes,
            keys: endpoints.keys(),
            server: self.database.server().cloned(),
            links: &links,
            clocks: &mut clocks,
            schemes: self.schemes(),
            clock: clock.clone(),
            recorder: emission.recorder.clone(),
            traffic_end: lasts,
            view: View::new(&self.scenario.name, lasts, self.options.show, self.follow()),
            errands: JoinSet::new(),
        };
        // From here on the trace must be ended, even after an error.
        let conducted = conductor.conduct(emitting, &stop, interrupt.clone()).await;
        drop(conductor);
        let (ended, lag, mut failure) = match conducted {
            Ok((ended, lag)) => (ended, lag, None),
            Err(error) => (Ended::Interrupted, Lag::new(0), Some(error)),
        };
        // Also after an interruption the dead letters are listed; a second interruption breaks that off.
        let listing = list_dead(&api, &emission, self.scenario);
        let dead_listed = if ended == Ended::Interrupted {
            listing.await
        } else {
            unless(&interrupt, listing).await.unwrap_or(false)
        };
        print_substitutions(&api, told);
        tear_down(&api).await;
        let stopped = end(&mut processes, &emission, self.scenario.sender.stop_within.0).await;
        failure = failure.or(stopped.err());
        endpoints.close().await;
        drop(thread);
        if let Some(offset) = api.offset(clock.now()) {
            emission.recorder.record(Record::Offset(offset));
        }
        Ok(Course { ended, lag, dead_listed, failure })
    }

    /// Takes all back on an error. Returns the number of reported differences.
    async fn make_ready(
        &self,
        api: &Api,
        processes: &mut Processes,
        endpoints: &Endpoints,
        interrupt: &Interrupt,
    ) -> Result<usize, RunError> {
        let ready = async {
            processes.start().await?;
            api.set_up().await?;
            self.subscribe(api, endpoints).await
        };
        let ready = unless(interrupt, ready).await.unwrap_or(Err(RunError::Interrupted));
        if ready.is_err() {
            take_back(api, processes, &self.stage.clock, self.scenario.sender.stop_within.0).await;
        }
        ready.map(|()| print_substitutions(api, 0))
    }

    /// Begins the trace, and a ledger for a sender without a depth call. The previous run's trace exists until here.
    fn begin(&self, recorder: &Recorder, api: &Api) -> Result<(), RunError> {
        let trace = self.options.trace();
        TraceFile::empty(&trace).map_err(|error| cannot_write(&trace, error))?;
        recorder.begin(self.header());
        let declared = Declared { told: api.substitutions(), ..self.file.declared() };
        if self.file.depth.is_none() {
            recorder.account(Ledger::new(&declared.applied(self.scenario)));
        }
        recorder.record(Record::Declared(declared));
        if let Some(public) = &self.options.reach.public {
            let (url, path) = (public.to_string(), public.path().to_owned());
            recorder.record(Record::Public(Public { url, path }));
        }
        Ok(())
    }

    /// Prints how the endpoints are reached, unless on loopback only.
    fn identity(&self) -> Result<Option<Identity>, RunError> {
        let reach = &self.options.reach;
        let names: Vec<&str> = self.scenario.subscribers.iter().map(|one| one.name.as_str()).collect();
        let identity = Identity::of(reach, &names, &self.options.out, &self.stage.clock)?;
        if self.options.show {
            if let Some(public) = &reach.public {
                print_message(&format!(
                    "endpoints listen on {} with the public URL {public}",
                    reach.address()
                ));
            }
            if let Some(identity) = &identity {
                print_message(&format!(
                    "endpoints use TLS; let the sender trust {}",
                    identity.trust().display()
                ));
            }
        }
        Ok(identity)
    }

    fn specs(&self) -> Vec<Spec> {
        let spec = |subscriber: &Subscriber| Spec {
            name: subscriber.name.clone(),
            path: subscriber.path(),
            behaviours: subscriber.behaviours.clone(),
            answers: subscriber.answers,
            permission: subscriber.permission.clone(),
            scheme: scheme(&self.file, subscriber.sign),
        };
        self.scenario.subscribers.iter().map(spec).collect()
    }

    fn follow(&self) -> Option<Following> {
        let live = self.options.live.as_ref()?;
        Some(live.follow(self.scenario, &self.options.trace(), &self.stage.recorder))
    }

    fn header(&self) -> Header {
        let (scenario, clock) = (self.scenario, &self.stage.clock);
        Header {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.name.clone(),
            scenario_sha256: sha256_hex(scenario.text.as_bytes()),
            schedule_sha256: self.schedule.sha256(),
            seed: self.stage.seed,
            driver: self.file.name.clone(),
            clock: ClockKind::Real,
            clock_resolution_ns: clock.resolution_ns(),
            began_unix_ns: clock.unix_ns(0),
            scenario_toml: scenario.text.clone(),
        }
    }

    async fn measure_ceiling(&self) -> Result<(), RunError> {
        let first = self.schedule.due().first();
        let body = first.map(|due| self.schedule.data(due, self.stage.tokens)).unwrap_or_default();
        let measuring = ceiling(self.specs(), body.as_bytes(), self.header());
        let per_second = measuring.await.map_err(RunError::Ceiling)?;
        self.stage.recorder.record(Record::Ceiling(Ceiling { t: 0, per_second }));
        Ok(())
    }

    fn api(&self, identity: Option<&Identity>) -> Result<Api, RunError> {
        let count = if self.file.start.is_some() { self.scenario.sender.workers } else { 1 };
        let ports = (0..count).map(|_| crate::driver::free_port()).collect::<Result<Vec<_>, _>>();
        let ports = ports.map_err(RunError::Port)?;
        let variables = [
            ("hookproof", self.options.program.display().to_string()),
            ("here", here(self.options.driver.as_deref())),
            ("dir", self.home.display().to_string()),
            ("database", self.database.address().to_owned()),
            ("durability", self.scenario.sender.durability.name().to_owned()),
            ("run", self.stage.tokens.run()),
            ("ca", identity.map_or(String::new(), |identity| identity.trust().display().to_string())),
        ];
        let variables = Variables::from(variables.map(|(name, value)| (name.to_owned(), value)));
        Ok(Api::new(self.file.clone(), &ports, variables)?)
    }

    fn config(&self, links: &[Link], clocks: &BTreeMap<usize, WallClock>) -> ProcessConfig {
        ProcessConfig {
            program: self.options.program.clone(),
            logs: self.options.out.clone(),
            arguments: self.scenario.sender.arguments.clone(),
            databases: links.iter().map(Link::address).collect(),
            env: clocks.iter().map(|(worker, clock)| (*worker, clock.env())).collect(),
            later: self.scenario.joining(),
        }
    }

    /// None unless a fault may cut them.
    fn links(&self) -> Result<Vec<Link>, RunError> {
        let cuts = |fault: &FaultPlan| matches!(fault.action, FaultAction::Partition(_));
        let Some(server) = self.database.server().filter(|_| self.scenario.faults.iter().any(cuts)) else {
            return Ok(Vec::new());
        };
        let workers = usize::try_from(self.scenario.sender.workers).unwrap_or_default();
        let links = (0..workers).map(|number| server.link(number)).collect::<Result<_, _>>();
        Ok(links.map_err(DatabaseError::Io)?)
    }

    fn schemes(&self) -> Vec<Scheme> {
        self.scenario.subscribers.iter().map(|subscriber| scheme(&self.file, subscriber.sign)).collect()
    }

    async fn subscribe(&self, api: &Api, endpoints: &Endpoints) -> Result<(), RunError> {
        const SECRETS: u64 = 3;
        let mut chance = Chance::new(self.stage.seed, SECRETS);
        for (at, subscriber) in self.scenario.subscribers.iter().enumerate() {
            let url = endpoints.url(at).unwrap_or_default();
            let bytes: Vec<u8> = (0..4).flat_map(|_| chance.bits().to_le_bytes()).collect();
            let scheme = scheme(&self.file, subscriber.sign);
            let secret = scheme.secret_of(&bytes);
            let owed = self.schedule.types().filter(|kind| subscriber.is_owed(kind));
            let types: Vec<String> = owed.map(str::to_owned).collect();
            let one = Subscription { subscriber, types: &types, url: &url, secret: &secret };
            let key = api.subscribe(&one).await?;
            if scheme.is_signed() {
                let key = scheme
                    .key(&key)
                    .map_err(|error| RunError::Secret { name: subscriber.name.clone(), error })?;
                endpoints.learn(at, vec![key]);
            }
        }
        Ok(())
    }
}

async fn unless<T>(interrupt: &Interrupt, doing: impl Future<Output = T>) -> Option<T> {
    let mut interrupt = interrupt.clone();
    tokio::select! {
        done = doing => Some(done),
        Ok(_) = interrupt.wait_for(|wanted| *wanted) => None,
    }
}

pub(crate) fn here(driver: Option<&Path>) -> String {
    let folder = driver.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or_else(|| ".".to_owned(), |folder| folder.display().to_string())
}

fn cannot_write(path: &Path, error: std::io::Error) -> RunError {
    RunError::File { path: path.to_owned(), error }
}

/// A scenario with wrong certificates is played over TLS.
fn with_certificates(scenario: &Scenario, options: &Options, file: &DriverFile) -> Result<Options, RunError> {
    if !scenario.shows_wrong_certificates() {
        return Ok(options.clone());
    }
    let trusts = options.reach.is_tls() || file.start.as_ref().is_some_and(|start| !start.trust.is_empty());
    if !trusts {
        return Err(RunError::Trust { driver: file.name.clone() });
    }
    Ok(Options { reach: options.reach.with_certificates()?, ..options.clone() })
}

fn is_fit(scenario: &Scenario, file: &DriverFile) -> Result<(), RunError> {
    // A retry of our sender repeats the body, and so a time or a signature in it.
    let is_lacking = |sign: &Profile| {
        sign.timestamp_field().is_some() || sign.has_own_bodies() || sign.key_url().is_some()
    };
    let lacking = scenario.subscribers.iter().find(|one| is_lacking(&one.sign));
    if let Some(Subscriber { name, sign, .. }) = lacking.filter(|_| file.name == OURS) {
        return Err(RunError::Sign { subscriber: name.clone(), profile: sign.to_string() });
    }
    if scenario.sender.store == Store::Postgres && !file.names_database() {
        return Err(RunError::Store { driver: file.name.clone() });
    }
    if sets_clocks(scenario) {
        if file.start.is_none() {
            return Err(RunError::NoProcess { driver: file.name.clone() });
        }
        WallClock::library().ok_or(RunError::Faketime)?;
    }
    let owners = scenario.faults.iter().filter_map(|fault| fault.worker.clone());
    if let Some(target) =
        owners.into_iter().find(|target| target.owner_of().is_some() && file.owner().is_none())
    {
        return Err(RunError::Owner { target, driver: file.name.clone() });
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub struct Options {
    pub seed: Option<u64>,
    /// None for our own sender.
    pub driver: Option<PathBuf>,
    /// Holds the trace, the sender's files and its logs.
    pub out: PathBuf,
    /// Starts the sender and wraps processes.
    pub program: PathBuf,
    pub folder: PathBuf,
    pub show: bool,
    pub reach: Reach,
    pub live: Option<Live>,
}

impl Options {
    fn trace(&self) -> PathBuf {
        self.out.join("trace.jsonl")
    }
}

/// Skips the first `said`; returns the number of differences.
fn print_substitutions(api: &Api, said: usize) -> usize {
    let told = api.substitutions();
    told.iter().skip(said).for_each(|told| print_message(&format!("{}: {}", told.subscriber, told.what)));
    told.len()
}

async fn tear_down(api: &Api) {
    for failed in api.tear_down().await {
        print_message(&format!("after the run: {failed}"));
    }
}

/// Within `within` nanoseconds; reports each failure.
async fn take_back(api: &Api, processes: &mut Processes, clock: &Clock, within: u64) {
    tear_down(api).await;
    // A clock that has not begun stands still, and no timeout would pass.
    clock.begin();
    let stopped = processes.stop(within).await;
    processes.take_undone().iter().for_each(|undone| print_message(&undone.to_string()));
    if let Err(error) = stopped {
        print_message(&format!("the sender could not be stopped: {error}"));
    }
}

/// False if the sender cannot list them all.
async fn list_dead(api: &Api, emission: &Emission, scenario: &Scenario) -> bool {
    /// A sender that the harness does not start may retain letters of earlier runs.
    const OLD_MAX: usize = 100_000;
    /// Limits all pages together.
    const WITHIN_NS: u64 = 120 * hookproof_judge::scenario::SECOND;
    let most = emission.owed_in_all(scenario).saturating_add(OLD_MAX);
    let listed = tokio::select! {
        listed = api.dead(most) => listed,
        () = emission.clock.pass(WITHIN_NS) => return false,
    };
    let Ok(listed) = listed else { return false };
    let t = emission.clock.now();
    for letter in listed {
        // One letter may hold several events. Without a token the id identifies it.
        let tokens = emission.tokens.find_all(letter.text.as_bytes());
        let tokens = if tokens.is_empty() { vec![None] } else { tokens.into_iter().map(Some).collect() };
        let reason = api.file().declares.reason(&letter.reason);
        for token in tokens {
            emission.recorder.record(Record::Dead(Dead {
                t,
                subscriber: letter.subscriber.clone(),
                token,
                id: letter.id.clone(),
                reason: reason.to_owned(),
                attempts: letter.attempts,
            }));
        }
    }
    true
}

/// Reports faults that were not injected: first those of the run, then those of this stop.
async fn end(processes: &mut Processes, emission: &Emission, within: u64) -> Result<(), RunError> {
    let settled = processes.settle().await;
    print_undone(processes, emission);
    let stopped = processes.stop(within).await;
    print_undone(processes, emission);
    settled.and(stopped).map_err(RunError::Process)
}

fn print_undone(processes: &mut Processes, emission: &Emission) {
    for undone in processes.take_undone() {
        print_message(&undone.to_string());
        emission.recorder.record(Record::Undone(undone.record(emission.clock.now())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_our_sender_lacks_is_refused_before_it_starts_and_left_to_others() {
        let text = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n\
                    [[subscriber]]\nname = \"a\"\nsign = \"linear\"\n";
        let scenario = Scenario::from_text(text, "x.toml").unwrap();
        let ours = DriverFile::hookproof().unwrap();
        let error = is_fit(&scenario, &ours).unwrap_err();
        let said = error.to_string();
        assert!(
            error.is_askers() && said.starts_with("subscriber.sign: a has linear, which our sender lacks"),
            "{said}"
        );
        let mut theirs = ours;
        theirs.name = "theirs".to_owned();
        assert!(is_fit(&scenario, &theirs).is_ok());
    }

    #[tokio::test]
    async fn an_interrupt_ends_a_hanging_step_and_keeps_a_finished_one() {
        let (tell, interrupt) = watch::channel(false);
        assert_eq!(unless(&interrupt, async { 7 }).await, Some(7));
        let hanging = tokio::spawn(async move { unless(&interrupt, std::future::pending::<()>()).await });
        tell.send_replace(true);
        assert_eq!(hanging.await.unwrap(), None);
    }
}
