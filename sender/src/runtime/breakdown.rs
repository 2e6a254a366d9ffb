//! Detects that a task or thread of the sender has ended unexpectedly; none can be missing.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::Sender;

const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Sender {
    /// The part that has ended. Also `Some` once the sender has stopped.
    #[must_use]
    pub fn broken_part(&self) -> Option<&'static str> {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = &*running else { return Some("the sender has stopped") };
        let ended = [
            (running.thread.has_ended(), "the store's thread has ended: nothing is recorded"),
            (
                running.shell.as_ref().is_some_and(JoinHandle::is_finished),
                "the dispatcher has ended: nothing is delivered",
            ),
            (
                running.watcher.is_finished(),
                "the watcher has ended: changes and other processes are not noticed",
            ),
            (running.upkeep.is_finished(), "upkeep has ended: nothing expires and nothing is deleted"),
        ];
        ended.into_iter().find_map(|(has_ended, what)| has_ended.then_some(what))
    }

    /// Waits until a part has ended unexpectedly.
    pub async fn breakdown(&self) -> &'static str {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if let Some(what) = self.broken_part() {
                return what;
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn break_shell(&self) {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shell) = running.as_ref().and_then(|running| running.shell.as_ref()) {
            shell.abort();
        }
    }
}
