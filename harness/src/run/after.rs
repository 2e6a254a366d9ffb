//! The end of a run, however it went, and of one that could not begin: lists the dead letters and takes back
//! the subscriptions.

use super::RunError;
use super::emitter::Emission;
use super::view::tell;
use crate::clock::Clock;
use crate::driver::{Api, Processes};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Dead, Record};

/// Reports the values that the sender got in place of the scenario's, after the first `said`; returns their
/// number.
pub(super) fn tell_differences(api: &Api, said: usize) -> usize {
    let told = api.told();
    told.iter().skip(said).for_each(|told| tell(&format!("{}: {}", told.subscriber, told.what)));
    told.len()
}

/// Makes the calls of the teardown, and reports those that failed.
pub(super) async fn tear_down(api: &Api) {
    for failed in api.tear_down().await {
        tell(&format!("after the run: {failed}"));
    }
}

/// Takes back a run that could not begin, and stops the sender within `within` nanoseconds. Reports each
/// failure.
pub(super) async fn take_back(api: &Api, processes: &mut Processes, clock: &Clock, within: u64) {
    tear_down(api).await;
    // A clock that has not begun stands still, and no timeout would pass.
    clock.begin();
    let stopped = processes.stop(within).await;
    processes.take_undone().iter().for_each(|undone| tell(&undone.to_string()));
    if let Err(error) = stopped {
        tell(&format!("the sender could not be stopped: {error}"));
    }
}

/// Lists the dead letters; false if the sender cannot list them all.
pub(super) async fn list_dead(api: &Api, emission: &Emission, scenario: &Scenario) -> bool {
    /// Room for letters of earlier runs, which a sender that the harness does not start may retain.
    const OLD_MAX: usize = 100_000;
    /// The time limit of all pages together.
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
            emission.recorder.keep(Record::Dead(Dead {
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

/// Ends the processes of the sender, and reports faults that were not injected: first those of the run, then
/// those of this stop.
pub(super) async fn end(processes: &mut Processes, emission: &Emission, within: u64) -> Result<(), RunError> {
    let settled = processes.settle().await;
    tell_undone(processes, emission);
    let stopped = processes.stop(within).await;
    tell_undone(processes, emission);
    settled.and(stopped).map_err(RunError::Process)
}

fn tell_undone(processes: &mut Processes, emission: &Emission) {
    for undone in processes.take_undone() {
        tell(&undone.to_string());
        emission.recorder.keep(Record::Undone(undone.record(emission.clock.now())));
    }
}
