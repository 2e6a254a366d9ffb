//! The processes of the sender under test: started together, watched, struck down and started again. One that is detached is no
//! process of ours ([`super::apart`]), and neither is one whose process was struck and that answers all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use rustix::process::Pid;
use tokio::task::JoinHandle;

use super::apart::Strike;
use super::api::Api;
use super::error::{ApiError, StartError};
use super::process::{Launch, Process, log_path, status_text};
use crate::clock::Clock;
use crate::fault::{Room, limit_files};
use crate::trace::{Process as Line, ProcessEvent, Record, Recorder};

mod ending;
mod lasting;

pub use ending::{Blow, Undone};

/// How long between two questions whether a process is ready.
const READY_PAUSE_NS: u64 = 10_000_000;

/// All processes of a sender. Dropped, they are killed; but a sender that runs apart ends with [`Processes::stop`] alone.
#[derive(Debug)]
pub struct Processes {
    workers: Vec<Worker>,
    api: Api,
    clock: Clock,
    recorder: Recorder,
    /// Faults by which nothing can be written to files, by their places in the scenario: by which process; none for all.
    full: BTreeMap<u32, Option<usize>>,
    /// What was to be done to one of them and was not, since that was asked last.
    undone: Vec<Undone>,
}

#[derive(Debug)]
struct Worker {
    launch: Launch,
    process: Option<Process>,
    /// Whether it runs without being a process of ours.
    apart: bool,
    /// What is being done to end it.
    strike: Option<(Strike, Blow)>,
    /// Which blow was its process's last, of those that are to end it.
    struck: Option<Blow>,
    /// Asks until it is ready.
    waiting: Option<JoinHandle<()>>,
    /// How long after its end it is started again, if it is.
    again_after: Option<u64>,
    /// When it is started again.
    again_at: Option<u64>,
    /// Faults by which it is stopped where it stands, by their places in the scenario.
    stopped_by: BTreeSet<u32>,
    /// Whether it is not there at the start.
    is_later: bool,
}

/// What processes are started with.
#[derive(Clone, Debug, Default)]
pub struct ProcessConfig {
    /// The `hookproof` program.
    pub program: PathBuf,
    /// Where their logs go.
    pub logs: PathBuf,
    /// More arguments for their command line.
    pub arguments: Vec<String>,
    /// Where each finds its database, if that is not where the driver's variables say.
    pub databases: Vec<String>,
    /// Environment variables beside the driver's, by the number of the process that has them.
    pub env: BTreeMap<usize, Vec<(String, String)>>,
    /// Those that are not there at the start, by their numbers.
    pub later: BTreeSet<usize>,
}

impl Processes {
    /// So many processes, not started. A driver without `[start]` has none: its sender runs already.
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
                    stopped_by: BTreeSet::new(),
                    is_later: config.later.contains(&at),
                });
            }
        } else {
            api.set_open(0, true);
        }
        let (api, clock, recorder) = (api.clone(), clock.clone(), recorder.clone());
        Ok(Self { workers, api, clock, recorder, full: BTreeMap::new(), undone: Vec::new() })
    }

    /// Starts all that are there at the start, one after another, and waits until each is ready: the first one makes the database.
    pub async fn start(&mut self) -> Result<(), StartError> {
        let within = self.api.file().start.as_ref().map_or(0, |start| start.within.0);
        for worker in 0..self.workers.len() {
            if self.workers[worker].is_later {
                continue;
            }
            // What an earlier run's sender said last is not what this one died of.
            let begun =
                std::fs::File::create(&self.workers[worker].launch.log).and_then(|_| self.begin(worker));
            begun.map_err(|error| self.cannot_start(worker, error))?;
            let mut waited = 0;
            while !self.is_ready(worker) {
                let log = self.workers[worker].launch.log.clone();
                self.let_go(worker).map_err(|error| self.cannot_start(worker, error))?;
                let process = self.workers[worker].process.as_mut();
                if let Some(Ok(Some(status))) = process.map(Process::ended) {
                    // What it printed is copied by another task, which gets its turn here.
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

    /// How many processes it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether it has none, as its sender is somebody else's to start.
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
        note(&self.recorder, self.clock.now(), number, ProcessEvent::Started, None);
        let (api, clock, recorder) = (self.api.clone(), self.clock.clone(), self.recorder.clone());
        let waiting = tokio::spawn(async move {
            while !api.is_ready(number).await {
                clock.pass(READY_PAUSE_NS).await;
            }
            api.set_open(number, true);
            note(&recorder, clock.now(), number, ProcessEvent::Ready, None);
        });
        if let Some(before) = worker.waiting.replace(waiting) {
            before.abort();
        }
        Ok(())
    }

    /// Looks after everybody: notes who is gone, and starts again who is to be. To be called often.
    pub fn look(&mut self) -> io::Result<()> {
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

    /// What was to be done and was not, since this was asked last.
    pub fn take_undone(&mut self) -> Vec<Undone> {
        std::mem::take(&mut self.undone)
    }

    /// Notes the end of a process, if it has ended.
    fn bury(&mut self, number: usize) -> io::Result<()> {
        self.let_go(number)?;
        let worker = &mut self.workers[number];
        let Some(process) = &mut worker.process else { return Ok(()) };
        let Some(status) = process.ended()? else { return Ok(()) };
        let now = self.clock.now();
        worker.process = None;
        worker.stopped_by.clear();
        if let Some(blow) = worker.struck.take() {
            // It is started again when its silence has shown that it was the sender.
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
        note(&self.recorder, now, number, ProcessEvent::Exited, Some(status_text(status)));
        Ok(())
    }

    /// Whether nobody lives and nobody will.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        // Of one that was struck nobody knows yet.
        let gone = |worker: &Worker| !worker.lives() && worker.again_at.is_none() && worker.strike.is_none();
        !self.workers.is_empty() && self.workers.iter().all(gone)
    }

    /// Whether everybody lives and is ready, so that what is asked for now is answered.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let whole = |worker: &Worker| worker.strike.is_none() && worker.lives();
        (0..self.workers.len()).all(|number| whole(&self.workers[number]) && self.is_ready(number))
    }

    /// Ends a process, to be started again so long after its end.
    ///
    /// # Errors
    /// As for all that is done to a process: when there is none, or the signal can't be sent.
    pub fn strike(&mut self, number: usize, blow: Blow, again_after: u64) -> io::Result<()> {
        self.end(number, blow, Some(again_after))
    }

    /// Starts a process that was not there at the start.
    ///
    /// # Errors
    /// When it is there already, or can't be started.
    pub fn join(&mut self, number: usize) -> io::Result<()> {
        if !std::mem::take(&mut self.workers[number].is_later) {
            return Err(io::Error::other(format!("process {number} of the sender is there already")));
        }
        std::fs::File::create(&self.workers[number].launch.log)?;
        self.begin(number)
    }

    /// The groups of all who live as processes of ours.
    #[must_use]
    pub fn groups(&self) -> Vec<Pid> {
        self.workers.iter().filter_map(|worker| worker.process.as_ref()).map(Process::pid).collect()
    }
}

impl Worker {
    /// Whether the sender runs, as our process or apart.
    const fn lives(&self) -> bool {
        self.process.is_some() || self.apart
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.workers.iter().filter_map(|worker| worker.waiting.as_ref()).for_each(JoinHandle::abort);
    }
}

/// The last line of a log, which mostly says why.
fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

fn note(recorder: &Recorder, t: u64, number: usize, event: ProcessEvent, status: Option<String>) {
    let worker = u32::try_from(number).unwrap_or(u32::MAX);
    recorder.keep(Record::Process(Line { t, worker, event, status }));
}

#[cfg(target_os = "linux")]
#[cfg(test)]
pub(crate) mod tests;
