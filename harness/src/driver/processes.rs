//! The processes of the sender under test: started together, watched, struck down and started again.

use std::io;
use std::path::PathBuf;

use rustix::process::Signal;
use tokio::task::JoinHandle;

use super::api::Api;
use super::error::{ApiError, StartError};
use super::file::StopSignal;
use super::process::{Launch, Process, log_path, status_text};
use crate::clock::Clock;
use crate::fault::{Room, limit_files};
use crate::trace::{Process as Line, ProcessEvent, Record, Recorder};

/// How long between two questions whether a process is ready.
const READY_PAUSE_NS: u64 = 10_000_000;

/// All processes of a sender. Dropped, they are killed.
#[derive(Debug)]
pub struct Processes {
    workers: Vec<Worker>,
    api: Api,
    clock: Clock,
    recorder: Recorder,
}

#[derive(Debug)]
struct Worker {
    launch: Launch,
    process: Option<Process>,
    /// Asks until it is ready.
    waiting: Option<JoinHandle<()>>,
    /// How long after its end it is started again, if it is.
    again_after: Option<u64>,
    /// When it is started again.
    again_at: Option<u64>,
    /// Whether it is stopped where it stands.
    frozen: bool,
    /// Whether it may write to files, and whoever comes after it.
    room: Room,
}

/// What processes are started with.
#[derive(Clone, Debug)]
pub struct ProcessConfig {
    /// The `hookproof` program.
    pub program: PathBuf,
    /// Where their logs go.
    pub logs: PathBuf,
    /// More arguments for their command line.
    pub arguments: Vec<String>,
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
                let variables = api.variables(usize::try_from(number).unwrap_or_default());
                let fill = |template: &super::template::Template| {
                    let filled = template.fill(&variables);
                    api.hiding(filled.map_err(|error| ApiError::Template { what: "start", error }))
                };
                let command = start.command.iter().map(fill).collect::<Result<Vec<_>, _>>()?;
                let env = start.env.iter().map(|(name, value)| Ok((name.clone(), fill(value)?)));
                let launch = Launch {
                    holder: Some(config.program.clone()),
                    command: command.into_iter().chain(config.arguments.clone()).map(Into::into).collect(),
                    env: env.collect::<Result<_, ApiError>>()?,
                    log: log_path(&config.logs, number),
                };
                workers.push(Worker {
                    launch,
                    process: None,
                    waiting: None,
                    again_after: None,
                    again_at: None,
                    frozen: false,
                    room: Room::Free,
                });
            }
        } else {
            api.set_open(0, true);
        }
        Ok(Self { workers, api: api.clone(), clock: clock.clone(), recorder: recorder.clone() })
    }

    /// Starts all, one after another, and waits until each is ready: the first one makes the database.
    pub async fn start(&mut self) -> Result<(), StartError> {
        let within = self.api.file().start.as_ref().map_or(0, |start| start.within.0);
        for worker in 0..self.workers.len() {
            // What an earlier run's sender said last is not what this one died of.
            let begun =
                std::fs::File::create(&self.workers[worker].launch.log).and_then(|_| self.begin(worker));
            begun.map_err(|error| {
                let command = self.workers[worker].launch.command.iter();
                let command = command.map(|part| self.api.hide(&part.to_string_lossy())).collect();
                StartError::Start { worker, command, error }
            })?;
            let mut waited = 0;
            while !self.is_ready(worker) {
                let log = self.workers[worker].launch.log.clone();
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
        let worker = &mut self.workers[number];
        let process = Process::start(&worker.launch)?;
        if worker.room == Room::Full {
            limit_files(process.pid(), Room::Full)?;
        }
        worker.process = Some(process);
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
            let due = self.workers[number].again_at.is_some_and(|at| at <= self.clock.now());
            if due && self.workers[number].process.is_none() {
                self.begin(number)?;
            }
        }
        Ok(())
    }

    /// Notes the end of a process, if it has ended.
    fn bury(&mut self, number: usize) -> io::Result<()> {
        let worker = &mut self.workers[number];
        let Some(process) = &mut worker.process else { return Ok(()) };
        let Some(status) = process.ended()? else { return Ok(()) };
        let now = self.clock.now();
        (worker.process, worker.frozen) = (None, false);
        worker.again_at =
            worker.again_after.take().map(|after| now.saturating_add(after)).or(worker.again_at);
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
        let gone = |worker: &Worker| worker.process.is_none() && worker.again_at.is_none();
        !self.workers.is_empty() && self.workers.iter().all(gone)
    }

    /// Whether everybody lives and is ready, so that what is asked for now is answered.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        (0..self.workers.len()).all(|number| self.workers[number].process.is_some() && self.is_ready(number))
    }

    /// Kills a process, to be started again so long after its end.
    ///
    /// # Errors
    /// As for all that strikes a process: when there is none, or the signal can't be sent.
    pub fn kill(&mut self, number: usize, again_after: u64) -> io::Result<()> {
        self.strike(number, Signal::KILL, ProcessEvent::Killed, Some(again_after))
    }

    /// Asks a process to stop, to be started again so long after its end.
    pub fn restart(&mut self, number: usize, again_after: u64) -> io::Result<()> {
        let signal = self.stop_signal();
        self.strike(number, signal, ProcessEvent::Asked, Some(again_after))
    }

    /// Stops a process where it stands.
    pub fn freeze(&mut self, number: usize) -> io::Result<()> {
        self.strike(number, Signal::STOP, ProcessEvent::Stopped, None)?;
        self.workers[number].frozen = true;
        self.api.set_frozen(number, true);
        Ok(())
    }

    /// Lets a stopped process go on. One that isn't stopped, as it is gone, doesn't mind.
    pub fn thaw(&mut self, number: usize) -> io::Result<()> {
        self.bury(number)?;
        if !std::mem::take(&mut self.workers[number].frozen) {
            return Ok(());
        }
        self.api.set_frozen(number, false);
        self.strike(number, Signal::CONT, ProcessEvent::Continued, None)
    }

    /// Says whether a process, all that it has started, and whoever is started in its place may write to files.
    pub fn limit_files(&mut self, number: usize, room: Room) -> io::Result<()> {
        self.bury(number)?;
        let worker = &mut self.workers[number];
        worker.room = room;
        let members = worker.process.as_ref().map(Process::members).unwrap_or_default();
        if members.is_empty() && room == Room::Full {
            return Err(gone(number));
        }
        members.into_iter().try_for_each(|pid| limit_files(pid, room))
    }

    /// Ends every fault that lasts: what is stopped goes on, and what may not write may again.
    pub fn relieve(&mut self) -> io::Result<()> {
        for number in 0..self.workers.len() {
            self.thaw(number)?;
            if self.workers[number].room == Room::Full {
                self.limit_files(number, Room::Free)?;
            }
        }
        Ok(())
    }

    fn strike(
        &mut self,
        number: usize,
        signal: Signal,
        event: ProcessEvent,
        again_after: Option<u64>,
    ) -> io::Result<()> {
        // What has ended is no process that anything can be done to.
        self.bury(number)?;
        let now = self.clock.now();
        let worker = &mut self.workers[number];
        let Some(process) = &worker.process else { return Err(gone(number)) };
        // Noted before it is done: what the process did until then, it did alive.
        note(&self.recorder, now, number, event, None);
        worker.again_after = again_after.or(worker.again_after);
        process.signal(signal)
    }

    /// Resident memory of all, in bytes; nothing if nobody lives or the machine does not tell.
    #[must_use]
    pub fn resident_bytes(&self) -> Option<u64> {
        self.sum(Process::resident_bytes)
    }

    /// Processor time of all who live, in nanoseconds; nothing if nobody lives or the machine does not tell.
    #[must_use]
    pub fn processor_ns(&self) -> Option<u64> {
        self.sum(Process::processor_ns)
    }

    fn sum(&self, figure: fn(&Process) -> Option<u64>) -> Option<u64> {
        let alive = self.workers.iter().filter_map(|worker| worker.process.as_ref());
        alive.map(figure).try_fold(0_u64, |sum, one| Some(sum + one?)).filter(|sum| *sum > 0)
    }

    /// Asks all to stop, and waits for their ends. Who is not gone in time is killed.
    pub async fn stop(&mut self, within: u64) -> io::Result<()> {
        let signal = self.stop_signal();
        for number in 0..self.workers.len() {
            let worker = &mut self.workers[number];
            (worker.again_after, worker.again_at) = (None, None);
            self.strike_if_there(number, signal, ProcessEvent::Asked)?;
        }
        let until = self.clock.now().saturating_add(within);
        while self.workers.iter().any(|worker| worker.process.is_some()) {
            self.look()?;
            if self.clock.now() > until {
                for number in 0..self.workers.len() {
                    self.strike_if_there(number, Signal::KILL, ProcessEvent::Killed)?;
                }
            }
            self.clock.pass(READY_PAUSE_NS).await;
        }
        Ok(())
    }

    /// Where nobody is left, there is nobody to tell.
    fn strike_if_there(&mut self, number: usize, signal: Signal, event: ProcessEvent) -> io::Result<()> {
        self.bury(number)?;
        if self.workers[number].process.is_none() {
            return Ok(());
        }
        self.strike(number, signal, event, None)
    }

    fn stop_signal(&self) -> Signal {
        match self.api.file().stop.signal {
            StopSignal::Term => Signal::TERM,
            StopSignal::Int => Signal::INT,
            StopSignal::Quit => Signal::QUIT,
        }
    }
}

fn gone(number: usize) -> io::Error {
    io::Error::other(format!("process {number} of the sender is not there"))
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
mod tests;
