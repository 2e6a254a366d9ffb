use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::Sender;
use crate::dispatch::Failure;
use crate::store::thread::{Handle, Request, Why};
use crate::store::{Command, Reply, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the database takes no more commands: {0}")]
    TurnedAway(Why),
    #[error("the sender is stopping")]
    Stopped,
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::TurnedAway(Why::Full) => Self::Full,
            Failed::TurnedAway(Why::Stopped) | Failed::Stopped | Failed::Store(StoreError::Stopped) => {
                Self::Stopped
            }
            Failed::TurnedAway(Why::DiskFull) => Self::Lasting(failed.to_string().into()),
            Failed::Store(error) => Self::Lasting(error.to_string().into()),
        }
    }
}

/// Calls `then` once, on the store's thread or on this one.
pub(super) fn submit(
    store: &Handle,
    commands: Vec<Command>,
    then: impl FnOnce(Result<Vec<Reply>, Failed>) + Send + 'static,
) {
    // If the store refuses the commands, this thread calls `then`.
    let ours = Arc::new(Mutex::new(Some(then)));
    let theirs = Arc::clone(&ours);
    let answer = move |result: Result<Vec<Reply>, StoreError>| {
        if let Some(then) = take(&theirs) {
            then(result.map_err(Failed::Store));
        }
    };
    let turned_away = store.submit(Request { commands, answer: Box::new(answer) }).err();
    if let Some(turned_away) = turned_away
        && let Some(then) = take(&ours)
    {
        then(Err(Failed::TurnedAway(turned_away.why)));
    }
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

pub(super) fn submit_one(
    store: &Handle,
    command: Command,
    then: impl FnOnce(Result<Reply, Failed>) + Send + 'static,
) {
    submit(store, vec![command], move |result| {
        then(result.and_then(|replies| replies.into_iter().next().ok_or(Failed::Stopped)));
    });
}

pub(super) async fn commit(store: &Handle, command: Command) -> Result<Reply, Failed> {
    let (tell, told) = oneshot::channel();
    submit(store, vec![command], move |result| drop(tell.send(result)));
    let replies = told.await.unwrap_or(Err(Failed::Stopped))?;
    replies.into_iter().next().ok_or(Failed::Stopped)
}

// No task or thread of the sender can be missing.

const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Sender {
    /// The part that has ended. Also `Some` once the sender has stopped.
    #[must_use]
    pub fn broken_part(&self) -> Option<&'static str> {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = &*running else { return Some("the sender has stopped") };
        let ended = [
            (running.thread.has_ended(), "the database thread has ended: no events are recorded"),
            (
                running.shell.as_ref().is_some_and(JoinHandle::is_finished),
                "the dispatcher has ended: no deliveries are made",
            ),
            (
                running.watcher.is_finished(),
                "the watcher has ended: changes by other processes are not noticed",
            ),
            (running.jobs.worker.is_finished(), "the worker at jobs has ended: jobs stand still"),
            (
                running.upkeep.is_finished(),
                "maintenance has ended: deliveries do not expire and old rows stay",
            ),
        ];
        ended.into_iter().find_map(|(has_ended, what)| has_ended.then_some(what))
    }

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
