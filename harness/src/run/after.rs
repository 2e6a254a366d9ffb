//! What comes after a run, however it went: the dead letters are listed, and what it began at the sender is taken back; also
//! where it could not begin.

use super::RunError;
use super::emitter::Emission;
use super::view::tell;
use crate::clock::Clock;
use crate::driver::{Api, Processes};
use crate::scenario::Scenario;
use crate::trace::{Dead, Record};

/// Says what the sender was told otherwise than the scenario has it, but for the first so many; answers how many there are.
pub(super) fn tell_differences(api: &Api, said: usize) -> usize {
    let told = api.told();
    told.iter().skip(said).for_each(|told| tell(&format!("{}: {}", told.subscriber, told.what)));
    told.len()
}

/// Ends what the run began at the sender, and says what could not be ended.
pub(super) async fn tear_down(api: &Api) {
    for failed in api.tear_down().await {
        tell(&format!("after the run: {failed}"));
    }
}

/// Ends what was begun for a run that could not begin, and stops the sender, which has `within` nanoseconds for that. Says what
/// could not be undone.
pub(super) async fn take_back(api: &Api, processes: &mut Processes, clock: &Clock, within: u64) {
    tear_down(api).await;
    // Until the run begins its clock stands still, and no time would ever be up.
    clock.begin();
    let stopped = processes.stop(within).await;
    processes.take_undone().iter().for_each(|undone| tell(&undone.to_string()));
    if let Err(error) = stopped {
        tell(&format!("the sender could not be stopped: {error}"));
    }
}

/// Lists the dead letters, if the sender can be asked and comes to an end; says whether it did.
pub(super) async fn list_dead(api: &Api, emission: &Emission, scenario: &Scenario) -> bool {
    /// Of earlier runs, which a sender that isn't started for this one may still have.
    const OLD_MAX: usize = 100_000;
    /// How long all pages together may take.
    const WITHIN_NS: u64 = 120 * crate::scenario::SECOND;
    let most = emission.owed_in_all(scenario).saturating_add(OLD_MAX);
    let listed = tokio::select! {
        listed = api.dead(most) => listed,
        () = emission.clock.pass(WITHIN_NS) => return false,
    };
    let Ok(listed) = listed else { return false };
    let t = emission.clock.now();
    for letter in listed {
        // One letter may hold several events; of one that shows none, the id is all there is.
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

/// Ends the processes of the sender, and says what was done to them otherwise than it was to be: first in the run, then here.
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
