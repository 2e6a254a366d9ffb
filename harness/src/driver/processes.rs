//! A sender that still answers after its process was struck is no child process ([`super::apart`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use hookproof_judge::trace::{Process as Line, ProcessEvent, Record, Recorder};
use hookproof_play::fault::Stops;
use rustix::process::Pid;
use tokio::task::JoinHandle;

use super::apart::Strike;
use super::api::Api;
use super::error::{ApiError, StartError};
use super::process::{Launch, Process, log_path, status_text};
use crate::clock::Clock;
use crate::fault::{Room, limit_files};

mod ending;
mod lasting;

pub use ending::{Blow, Undone};

const READY_PAUSE_NS: u64 = 10_000_000;

/// Dropping this kills them; a sender that runs apart ends with [`Processes::stop`] only.
#[derive(Debug)]
pub struct Processes {
    workers: Vec<Worker>,
    api: Api,
    clock: Clock,
    recorder: Recorder,
    /// The process, or none for all, by the fault's index in the scenario.
    full: BTreeMap<u32, Option<usize>>,
    /// Since the last call of [`Processes::take_undone`].
    undone: Vec<Undone>,
}

#[derive(Debug)]
struct Worker {
    launch: Launch,
    process: Option<Process>,
    /// It runs without being a child process.
    apart: bool,
    strike: Option<(Strike, Blow)>,
    /// The last blow that is to end its process.
    struck: Option<Blow>,
    waiting: Option<JoinHandle<()>>,
    /// The delay after its end, if it restarts.
    again_after: Option<u64>,
    again_at: Option<u64>,
    stops: Stops,
    is_later: bool,
}

#[derive(Clone, Debug, Default)]
pub struct ProcessConfig {
    pub program: PathBuf,
    pub logs: PathBuf,
    pub arguments: Vec<String>,
    /// One for each process, if not the driver's variable.
    pub databases: Vec<String>,
    /// Further variables by process number.
    pub env: BTreeMap<usize, Vec<(String, String)>>,
    /// They join after the start.
    pub later: BTreeSet<usize>,
}

impl Processes {
    /// Starts nothing. Without `[start]` there are none: the sender runs already.
    pub fn new(
        api: &Api,
        count: u32,
        config: &ProcessConfig,
        clock: &Clock,
        recorder: &Recorder,
    ) -> Result<Self, StartError> {
        let mut workers = Vec::new();
        if let Some(start) = &api.file().start {
            for number in 0..count {
                let at = usize::try_from(number).unwrap_or_default();
                let mut variables = api.variables(at);
                if let Some(database) = config.databases.get(at) {
                    variables.insert("database".to_owned(), database.clone());
                }
                let fill = |template: &super::template::Template| {
                    let filled = template.fill(&variables);
                    api.hiding(filled.map_err(|error| ApiError::Template { what: "start", error }))
                };
                let is_tls = variables.get("ca").is_some_and(|ca| !ca.is_empty());
                let trust = start.trust.iter().filter(|_| is_tls);
                let command = start.command.iter().chain(trust).map(fill).collect::<Result<Vec<_>, _>>()?;
                let env = start.env.iter().map(|(name, value)| Ok((name.clone(), fill(value)?)));
                let more = config.env.get(&at).into_iter().flatten().cloned().map(Ok);
                let launch = Launch {
                    holder: Some(config.program.clone()),
                    command: command.into_iter().chain(config.arguments.clone()).map(Into::into).collect(),
                    env: env.chain(more).collect::<Result<_, ApiError>>()?,
                    log: log_path(&config.logs, number),
                };
                workers.push(Worker {
                    launch,
                    process: None,
                    apart: false,
                    strike: None,
                    struck: None,
                    waiting: None,
                    again_after: None,
                    again_at: None,
                    stops: Stops::default(),
                    is_later: config.later.contains(&at),
                });
            }
        } else {
            api.set_open(0, true);
        }
        let (api, clock, recorder) = (api.clone(), clock.clone(), recorder.clone());
        Ok(Self { workers, api, clock, recorder, full: BTreeMap::new(), undone: Vec::new() })
    }

    /// One by one, each after the one before is ready: the first creates the database.
    pub async fn start(&mut self) -> Result<(), StartError> {
        let within = self.api.file().start.as_ref().map_or(0, |start| start.within.0);
        for worker in 0..self.workers.len() {
            if self.workers[worker].is_later {
                continue;
            }
            // The log must not hold an earlier run's last line.
            let begun =
                std::fs::File::create(&self.workers[worker].launch.log).and_then(|_| self.begin(worker));
            begun.map_err(|error| self.cannot_start(worker, error))?;
            let mut waited = 0;
            while !self.is_ready(worker) {
                let log = self.workers[worker].launch.log.clone();
                self.let_go(worker).map_err(|error| self.cannot_start(worker, error))?;
                let process = self.workers[worker].process.as_mut();
                if let Some(Ok(Some(status))) = process.map(Process::ended) {
                    self.clock.pass(10 * READY_PAUSE_NS).await;
                    let said = std::fs::read_to_string(&log).unwrap_or_default();
                    let (status, last) = (status_text(status), last_line(&self.api.hide(&said)));
                    return Err(StartError::Ended { worker, status, last, log });
                }
                if waited > within {
                    return Err(StartError::Late {
                        worker,
                        within: std::time::Duration::from_nanos(within),
                        log,
                    });
                }
                self.clock.pass(READY_PAUSE_NS).await;
                waited += READY_PAUSE_NS;
            }
        }
        Ok(())
    }

    fn cannot_start(&self, worker: usize, error: io::Error) -> StartError {
        let command = self.workers[worker].launch.command.iter();
        let command = command.map(|part| self.api.hide(&part.to_string_lossy())).collect();
        StartError::Start { worker, command, error }
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.workers.len()
    }

    /// The harness then does not start this sender.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    fn is_ready(&self, worker: usize) -> bool {
        self.workers[worker].waiting.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn begin(&mut self, number: usize) -> io::Result<()> {
        let is_full = self.is_full(number);
        let worker = &mut self.workers[number];
        let process = Process::start(&worker.launch)?;
        if is_full {
            limit_files(process.pid(), Room::Full)?;
        }
        (worker.process, worker.apart, worker.struck) = (Some(process), false, None);
        (worker.again_after, worker.again_at) = (None, None);
        record_process(&self.recorder, self.clock.now(), number, ProcessEvent::Started, None);
        let (api, clock, recorder) = (self.api.clone(), self.clock.clone(), self.recorder.clone());
        let waiting = tokio::spawn(async move {
            while !api.is_ready(number).await {
                clock.pass(READY_PAUSE_NS).await;
            }
            api.set_open(number, true);
            record_process(&recorder, clock.now(), number, ProcessEvent::Ready, None);
        });
        if let Some(before) = worker.waiting.replace(waiting) {
            before.abort();
        }
        Ok(())
    }

    /// Records the processes that ended, and restarts those that are due.
    pub fn poll(&mut self) -> io::Result<()> {
        for number in 0..self.workers.len() {
            self.bury(number)?;
            self.conclude(number);
            let due = self.workers[number].again_at.is_some_and(|at| at <= self.clock.now());
            if due && self.workers[number].process.is_none() {
                self.begin(number)?;
            }
        }
        Ok(())
    }

    /// Those since the last call.
    pub fn take_undone(&mut self) -> Vec<Undone> {
        std::mem::take(&mut self.undone)
    }

    fn bury(&mut self, number: usize) -> io::Result<()> {
        self.let_go(number)?;
        let worker = &mut self.workers[number];
        let Some(process) = &mut worker.process else { return Ok(()) };
        let Some(status) = process.ended()? else { return Ok(()) };
        let now = self.clock.now();
        worker.process = None;
        worker.stops.clear();
        if let Some(blow) = worker.struck.take() {
            // The restart waits until the sender's silence shows that this process was the sender.
            if worker.strike.is_none() && self.api.tells_processes_apart() {
                worker.strike = Some((Strike::by_signal(&self.api, number, &self.clock), blow));
            } else if worker.strike.is_none() {
                let again_after = worker.again_after.take();
                worker.again_at = again_after.map(|after| now.saturating_add(after)).or(worker.again_at);
            }
        }
        if let Some(waiting) = worker.waiting.take() {
            waiting.abort();
        }
        self.api.set_open(number, false);
        self.api.set_frozen(number, false);
        record_process(&self.recorder, now, number, ProcessEvent::Exited, Some(status_text(status)));
        Ok(())
    }

    #[must_use]
    pub fn is_gone(&self) -> bool {
        // The outcome of a strike under way is still unknown.
        let gone = |worker: &Worker| !worker.lives() && worker.again_at.is_none() && worker.strike.is_none();
        !self.workers.is_empty() && self.workers.iter().all(gone)
    }

    #[must_use]
    pub fn is_whole(&self) -> bool {
        let whole = |worker: &Worker| worker.strike.is_none() && worker.lives();
        (0..self.workers.len()).all(|number| whole(&self.workers[number]) && self.is_ready(number))
    }

    /// It restarts this long after its end. Fails when there is no process, or the signal can't be sent.
    pub fn strike(&mut self, number: usize, blow: Blow, again_after: u64) -> io::Result<()> {
        self.end(number, blow, Some(again_after))
    }

    /// Fails when the process is there already, or can't be started.
    pub fn join(&mut self, number: usize) -> io::Result<()> {
        if !std::mem::take(&mut self.workers[number].is_later) {
            return Err(io::Error::other(format!("process {number} of the sender is already running")));
        }
        std::fs::File::create(&self.workers[number].launch.log)?;
        self.begin(number)
    }

    /// Only child processes have one.
    #[must_use]
    pub fn groups(&self) -> Vec<Pid> {
        self.workers.iter().filter_map(|worker| worker.process.as_ref()).map(Process::pid).collect()
    }
}

impl Worker {
    /// A child process, or apart.
    const fn lives(&self) -> bool {
        self.process.is_some() || self.apart
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.workers.iter().filter_map(|worker| worker.waiting.as_ref()).for_each(JoinHandle::abort);
    }
}

/// Usually gives the reason.
fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("its log is empty").to_owned()
}

fn record_process(recorder: &Recorder, t: u64, number: usize, event: ProcessEvent, status: Option<String>) {
    let worker = u32::try_from(number).unwrap_or(u32::MAX);
    recorder.record(Record::Process(Line { t, worker, event, status }));
}

#[cfg(target_os = "linux")]
#[cfg(test)]
pub(crate) mod tests;
