//! A sender that is no child process: a container, or a daemon behind its client. A command stops it.

use hookproof_judge::scenario::SECOND;
use tokio::sync::oneshot;

use super::api::Api;
use super::process::{Launch, Process, status_text};
use crate::clock::Clock;

const COMMAND_WITHIN_NS: u64 = 30 * SECOND;
/// How long a sender may still answer after its command.
const SILENT_WITHIN_NS: u64 = 5 * SECOND;
/// Shorter after the end of the struck process: the kernel closes its sockets with it.
const SILENT_AFTER_END_NS: u64 = SECOND / 2;
const LOOK_NS: u64 = 20_000_000;

/// Done, or the reason why not.
#[derive(Debug)]
pub(super) struct Strike(oneshot::Receiver<Result<(), String>>);

impl Strike {
    /// By a command; done when the sender no longer answers.
    pub(super) fn by_command(launch: Launch, api: &Api, worker: usize, clock: &Clock) -> Self {
        let (api, clock) = (api.clone(), clock.clone());
        Self::begun(async move {
            carry_out(&launch, &api, &clock).await?;
            fall_silent(&api, worker, &clock, SILENT_WITHIN_NS).await
        })
    }

    /// By a signal that ended a process; not done if the sender still answers.
    pub(super) fn by_signal(api: &Api, worker: usize, clock: &Clock) -> Self {
        let (api, clock) = (api.clone(), clock.clone());
        Self::begun(async move { fall_silent(&api, worker, &clock, SILENT_AFTER_END_NS).await })
    }

    fn begun(doing: impl Future<Output = Result<(), String>> + Send + 'static) -> Self {
        let (tell, told) = oneshot::channel();
        // The run may be over.
        tokio::spawn(async move { tell.send(doing.await) });
        Self(told)
    }

    pub(super) fn outcome(&mut self) -> Option<Result<(), String>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err("it was cut off".to_owned())),
        }
    }
}

async fn carry_out(launch: &Launch, api: &Api, clock: &Clock) -> Result<(), String> {
    let shown = launch.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let shown = api.hide(&shown);
    let mut process =
        Process::start(launch).map_err(|error| format!("`{shown}` could not be started: {error}"))?;
    tokio::select! {
        ended = process.wait() => match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{shown}` ended with {}; see {}", status_text(status), launch.log.display())),
            Err(error) => Err(format!("`{shown}` could not be waited for: {error}")),
        },
        () = clock.pass(COMMAND_WITHIN_NS) => {
            Err(format!("`{shown}` did not end within {} s", COMMAND_WITHIN_NS / SECOND))
        }
    }
}

async fn fall_silent(api: &Api, worker: usize, clock: &Clock, within: u64) -> Result<(), String> {
    let until = clock.now().saturating_add(within);
    while api.answers(worker).await {
        if clock.now() >= until {
            return Err(
                "the sender still answers: the command ended only the process that started it".to_owned()
            );
        }
        clock.pass(LOOK_NS).await;
    }
    Ok(())
}
