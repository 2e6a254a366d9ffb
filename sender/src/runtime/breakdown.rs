//! Noticing that a part of the sender has ended though nobody asked it to: the rest can't do without it.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::Sender;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Sender {
    /// Which part of this has ended though nobody asked it to, if one has: the rest can't do without it.
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

    /// Waits until a part of this has ended though nobody asked it to.
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

    /// Ends a part of this as a defect would.
    #[cfg(test)]
    pub(crate) fn break_shell(&self) {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shell) = running.as_ref().and_then(|running| running.shell.as_ref()) {
            shell.abort();
        }
    }
}
