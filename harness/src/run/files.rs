//! The limit on open files, which a run may need more of than a process is given.

use super::RunError;
use crate::scenario::Scenario;

/// Raises the limit on open files as far as it goes without privilege, and sees whether it is enough: before the endpoints
/// are opened, of which the last would fail. The sender inherits the limit.
pub(super) fn raise_files(scenario: &Scenario) -> Result<(), RunError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// What else is open: the trace, the sender's API, libraries.
    const OTHERS: u64 = 100;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Should that fail, whoever needs more files says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let subscribers = scenario.subscribers.len();
    // A listener for each, and as many connections as requests may be under way; one, where the contract doesn't say.
    let connections =
        scenario.subscribers.iter().map(|one| one.limit.in_flight.map_or(1, |most| u64::from(most).max(1)));
    let listeners = u64::try_from(subscribers).unwrap_or(u64::MAX);
    let needed = connections.fold(listeners.saturating_add(OTHERS), u64::saturating_add);
    if needed > limit { Err(RunError::Files { subscribers, needed, limit }) } else { Ok(()) }
}
