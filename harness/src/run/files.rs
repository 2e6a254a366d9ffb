//! The limit of open files.

use super::RunError;
use hookproof_judge::scenario::Scenario;

/// Raises the limit of open files to its maximum, and checks it before the endpoints open. The sender
/// inherits it.
pub(super) fn raise_files(scenario: &Scenario) -> Result<(), RunError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// Other open files: the trace, the sender's API, libraries.
    const OTHERS: u64 = 100;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // On an error the limit stays, and the check below decides.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let subscribers = scenario.subscribers.len();
    // A listener for each, and a connection for each concurrent request; one, where the contract has no
    // bound.
    let connections =
        scenario.subscribers.iter().map(|one| one.limit.in_flight.map_or(1, |most| u64::from(most).max(1)));
    let listeners = u64::try_from(subscribers).unwrap_or(u64::MAX);
    let needed = connections.fold(listeners.saturating_add(OTHERS), u64::saturating_add);
    if needed > limit { Err(RunError::Files { subscribers, needed, limit }) } else { Ok(()) }
}
