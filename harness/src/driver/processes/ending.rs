//! Ends processes of the sender, by a signal or by a command of the driver file.

use std::io;

use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{self, ProcessEvent};
use rustix::process::Signal;

use super::{Processes, READY_PAUSE_NS, record_process};
use crate::driver::apart::Strike;
use crate::driver::file::StopSignal;
use crate::driver::process::{Launch, Process};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    pub worker: usize,
    pub blow: Blow,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blow {
    /// Otherwise it asks for a stop.
    pub kills: bool,
    /// Index in the scenario; none at the end of a run.
    pub plan: Option<u32>,
}

impl Undone {
    #[must_use]
    pub fn record(self, t: u64) -> trace::Undone {
        let kind = self.blow.kind();
        let Blow { plan, .. } = self.blow;
        trace::Undone { t, kind, worker: u32::try_from(self.worker).ok(), plan, why: self.why }
    }
}

impl Blow {
    const fn at_the_end(kills: bool) -> Self {
        Self { kills, plan: None }
    }

    const fn kind(self) -> FaultKind {
        match self {
            Self { plan: None, .. } => FaultKind::Stop,
            Self { kills: true, .. } => FaultKind::Kill,
            Self { kills: false, .. } => FaultKind::Restart,
        }
    }
}

impl std::fmt::Display for Undone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} was not injected: {}", self.blow.kind(), self.why)
    }
}

impl Processes {
    /// Ends a sender by its driver's command, or else its process by a signal.
    pub(super) fn end(&mut self, number: usize, blow: Blow, again_after: Option<u64>) -> io::Result<()> {
        // A process that has ended cannot be struck.
        self.bury(number)?;
        let kills = blow.kills;
        let event = if kills { ProcessEvent::Killed } else { ProcessEvent::Asked };
        let command = self.command(number, kills)?;
        let worker = &self.workers[number];
        if !worker.lives() || command.is_none() && worker.process.is_none() {
            return Err(self.not_ours(number));
        }
        if worker.strike.is_some() {
            return Err(io::Error::other("a command that ends it is still running"));
        }
        if let Some(launch) = command {
            // Recorded first: until then the sender acts alive.
            let how = Some("by a command".to_owned());
            record_process(&self.recorder, self.clock.now(), number, event, how);
            let strike = Strike::by_command(launch, &self.api, number, &self.clock);
            self.workers[number].strike = Some((strike, blow));
        } else {
            self.signal(number, if kills { Signal::KILL } else { self.stop_signal() }, event)?;
        }
        let worker = &mut self.workers[number];
        worker.struck = worker.process.is_some().then_some(blow);
        worker.again_after = again_after.or(worker.again_after);
        Ok(())
    }

    fn command(&self, number: usize, kills: bool) -> io::Result<Option<Launch>> {
        let file = self.api.file();
        let command =
            if kills { file.kill.as_ref().map(|kill| &kill.command) } else { Some(&file.stop.command) };
        let Some(command) = command.filter(|command| !command.is_empty()) else { return Ok(None) };
        let variables = self.api.variables(number);
        let filled = command.iter().map(|word| word.fill(&variables).map(Into::into));
        let filled = filled.collect::<Result<_, _>>().map_err(|error| {
            io::Error::other(self.api.hide(&format!("its command cannot be made: {error}")))
        })?;
        Ok(Some(Launch { command: filled, ..self.workers[number].launch.clone() }))
    }

    pub(super) fn signal(&mut self, number: usize, signal: Signal, event: ProcessEvent) -> io::Result<()> {
        self.bury(number)?;
        let Some(process) = &self.workers[number].process else { return Err(self.not_ours(number)) };
        // Recorded first: until then the process acts alive.
        record_process(&self.recorder, self.clock.now(), number, event, None);
        process.signal(signal)
    }

    pub(super) fn not_ours(&self, number: usize) -> io::Error {
        if self.workers[number].apart {
            let why = "the sender is detached, and the driver file has no command for that";
            return io::Error::other(why);
        }
        io::Error::other(format!("process {number} of the sender is not running"))
    }

    fn is_detached(&self) -> bool {
        self.api.file().start.as_ref().is_some_and(|start| start.detached)
    }

    /// Releases a detached sender's start command, once that has ended.
    pub(super) fn let_go(&mut self, number: usize) -> io::Result<()> {
        let is_detached = self.is_detached();
        let worker = &mut self.workers[number];
        if let Some(process) = worker.process.as_mut().filter(|_| is_detached && worker.struck.is_none())
            && process.ended()?.is_some_and(|status| status.success())
        {
            worker.process.take().into_iter().for_each(Process::leave_children);
            worker.apart = true;
        }
        Ok(())
    }

    /// Once the outcome is known: the sender is gone, or runs on apart.
    pub(super) fn conclude(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        let Some((strike, blow)) = &mut worker.strike else { return };
        let Some(outcome) = strike.outcome() else { return };
        let (blow, now) = (*blow, self.clock.now());
        worker.strike = None;
        let again_after = worker.again_after.take();
        match outcome {
            Ok(()) => {
                worker.again_at = again_after.map(|after| now.saturating_add(after)).or(worker.again_at);
                if std::mem::take(&mut worker.apart) {
                    if let Some(waiting) = worker.waiting.take() {
                        waiting.abort();
                    }
                    self.api.set_open(number, false);
                    record_process(&self.recorder, now, number, ProcessEvent::Exited, None);
                }
            }
            Err(why) => {
                worker.apart = worker.process.is_none();
                self.api.set_open(number, true);
                self.undone.push(Undone { worker: number, blow, why });
            }
        }
    }

    /// Waits for the outcomes of all strikes. No process restarts from here on.
    pub async fn settle(&mut self) -> io::Result<()> {
        for worker in &mut self.workers {
            (worker.again_after, worker.again_at) = (None, None);
        }
        while self.workers.iter().any(|worker| worker.strike.is_some()) {
            self.poll()?;
            self.clock.pass(READY_PAUSE_NS).await;
        }
        Ok(())
    }

    /// Waits up to a limit in nanoseconds: a detached sender that is stopped before it is there would run on.
    async fn finish_starts(&mut self, within: u64) -> io::Result<()> {
        let until = self.clock.now().saturating_add(within);
        while self.is_starting() && self.clock.now() <= until {
            self.poll()?;
            self.clock.pass(READY_PAUSE_NS).await;
        }
        Ok(())
    }

    fn is_starting(&self) -> bool {
        let starting = |number: usize| {
            let worker = &self.workers[number];
            worker.process.is_some() && worker.struck.is_none() && !self.is_ready(number)
        };
        self.is_detached() && (0..self.workers.len()).any(starting)
    }

    /// Kills the rest after `within` nanoseconds.
    pub async fn stop(&mut self, within: u64) -> io::Result<()> {
        /// How long kill commands may take after that.
        const LONGER_NS: u64 = 60_000_000_000;

        self.settle().await?;
        self.finish_starts(within).await?;
        for number in 0..self.workers.len() {
            self.end_if_there(number, false)?;
        }
        let until = self.clock.now().saturating_add(within);
        let mut killed = vec![0; self.workers.len()];
        while self.workers.iter().any(|worker| worker.lives() || worker.strike.is_some()) {
            self.poll()?;
            if self.clock.now() > until {
                for (number, killed) in killed.iter_mut().enumerate() {
                    let worker = &mut self.workers[number];
                    match *killed {
                        _ if worker.strike.is_some() => continue,
                        0 => self.end_if_there(number, true)?,
                        // A kill command that failed was reported, and is not repeated.
                        1 => {
                            worker.apart = false;
                            if let Some(process) = &worker.process {
                                process.signal(Signal::KILL)?;
                            }
                        }
                        _ => continue,
                    }
                    *killed += 1;
                }
            }
            if self.clock.now() > until.saturating_add(LONGER_NS) {
                self.workers.iter_mut().for_each(|worker| (worker.apart, worker.strike) = (false, None));
            }
            self.clock.pass(READY_PAUSE_NS).await;
        }
        Ok(())
    }

    /// Reports a failure as not done.
    fn end_if_there(&mut self, number: usize, kills: bool) -> io::Result<()> {
        self.bury(number)?;
        let worker = &self.workers[number];
        if !worker.lives() || worker.strike.is_some() {
            return Ok(());
        }
        let blow = Blow::at_the_end(kills);
        if worker.process.is_some() {
            return self.end(number, blow, None);
        }
        if let Err(error) = self.end(number, blow, None) {
            let why = format!("{error}: it keeps running");
            self.undone.push(Undone { worker: number, blow, why });
            self.workers[number].apart = false;
        }
        Ok(())
    }

    fn stop_signal(&self) -> Signal {
        match self.api.file().stop.signal {
            StopSignal::Term => Signal::TERM,
            StopSignal::Int => Signal::INT,
            StopSignal::Quit => Signal::QUIT,
        }
    }
}
