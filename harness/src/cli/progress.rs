//! Long simulations: their length in advance, the confirmation that they need, and their progress on stderr.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use hookproof_judge::scenario::SECOND;
use hookproof_simulator::sim::Progress;

use super::out::print_stderr;
use crate::clock::Clock;

/// The cost of a step in a release build, on the machine of `BENCHMARKS.md`. A constant, so that a busy machine does not
/// change the decision.
const STEP_NS: u64 = 10_000;
/// The longest simulation without confirmation.
const UNASKED_NS: u64 = 300 * SECOND;
/// The time between two lines in a pipe, and between two updates of a terminal.
const LINES: Duration = Duration::from_secs(10);
const UPDATES: Duration = Duration::from_secs(1);

#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Simulate even if it takes more than about 5 minutes of one core
    #[arg(long)]
    yes_it_takes: bool,
}

impl Patience {
    /// # Errors The remedies, if these steps take long and nobody confirmed it.
    pub(super) fn allows(self, steps: u64, remedies: &str) -> Result<(), String> {
        if self.yes_it_takes || steps.saturating_mul(STEP_NS) <= UNASKED_NS {
            return Ok(());
        }
        Err(format!("this takes {}; {remedies}; or add --yes-it-takes", about(steps)))
    }
}

/// `about 40 min of one quiet core`.
pub(super) fn about(steps: u64) -> String {
    format!("about {} of one quiet core", length(steps.saturating_mul(STEP_NS)))
}

/// Reports the progress until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    thread: Option<JoinHandle<()>>,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Watch {
    /// `steps` is the expected number.
    pub(super) fn begin(command: &'static str, steps: u64, progress: Arc<Progress>) -> Self {
        let ended = Arc::<(Mutex<bool>, Condvar)>::default();
        let watcher = Watcher { command, steps, progress, ended: Arc::clone(&ended) };
        Self { thread: Some(std::thread::spawn(move || watcher.run())), ended }
    }

    /// A line that stays, in place of the progress.
    pub(super) fn say(&self, line: impl std::fmt::Display) {
        if io::stderr().is_terminal() {
            overwrite("");
        }
        print_stderr(line);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.1.notify_all();
        // A panic of the reports must not hide the result.
        let _reported = self.thread.take().map(JoinHandle::join);
    }
}

struct Watcher {
    command: &'static str,
    steps: u64,
    progress: Arc<Progress>,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Watcher {
    fn run(self) {
        let (clock, is_terminal) = (Clock::begun(), io::stderr().is_terminal());
        let mut is_shown = false;
        while !self.ends_within(if is_terminal { UPDATES } else { LINES }) {
            let line = self.line(clock.now(), self.progress.steps());
            if is_terminal {
                is_shown = true;
                overwrite(&line);
            } else {
                print_stderr(line);
            }
        }
        if is_shown {
            overwrite("");
        }
    }

    fn ends_within(&self, wait: Duration) -> bool {
        let ended = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.1.wait_timeout_while(ended, wait, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The part that is done and the time that is left, in proportion to the steps so far.
    fn line(&self, elapsed: u64, done: u64) -> String {
        let percent = u128::from(done) * 100 / u128::from(self.steps.max(1));
        let told = match self.steps.saturating_sub(done) {
            _ if done == 0 => "0 %, no estimate yet".to_owned(),
            // Retries may make more steps than were expected.
            0 => format!("{percent} % of the expected steps"),
            left => {
                let nanos = u128::from(elapsed) * u128::from(left) / u128::from(done);
                format!("{percent} %, about {} left", length(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
        };
        format!("hookproof {}: {told}", self.command)
    }
}

/// Seconds, minutes, hours or days, rounded.
fn length(nanos: u64) -> String {
    let seconds = nanos.div_ceil(SECOND).max(1);
    let (unit, name) = match seconds {
        ..120 => (1, "s"),
        120..7_200 => (60, "min"),
        7_200..172_800 => (3_600, "h"),
        _ => (86_400, "days"),
    };
    format!("{} {name}", (seconds + unit / 2) / unit)
}

/// Replaces the present line of the terminal.
fn overwrite(line: &str) {
    let mut terminal = io::stderr().lock();
    let _unread = write!(terminal, "\r\x1b[K{line}").and_then(|()| terminal.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minutes_of_work_need_a_confirmation() {
        let limit = UNASKED_NS / STEP_NS;
        let asked = |yes_it_takes, steps| Patience { yes_it_takes }.allows(steps, "wait");
        assert_eq!(asked(false, limit), Ok(()));
        assert_eq!(asked(true, u64::MAX), Ok(()));
        let refusal = "this takes about 5 min of one quiet core; wait; or add --yes-it-takes";
        assert_eq!(asked(false, limit + 1), Err(refusal.to_owned()));
    }

    #[test]
    fn a_line_has_the_part_that_is_done_and_the_time_that_is_left() {
        let watcher =
            Watcher { command: "sim", steps: 1_000, progress: Arc::default(), ended: Arc::default() };
        let rows = [
            (0, "0 %, no estimate yet"),
            (30, "3 %, about 97 s left"),
            (1, "0 %, about 50 min left"),
            (1_200, "120 % of the expected steps"),
        ];
        for (done, expected) in rows {
            assert_eq!(watcher.line(3 * SECOND, done), format!("hookproof sim: {expected}"));
        }
    }
}
