//! How the scenario has the sender started: what of it is simulated, and what isn't.

use hookproof_sender::engine::Nanos;

use super::SimError;
use crate::scenario::{Durability, Duration, SECOND, Scenario};

/// How long a lease is, as `sender serve` has it unless told otherwise.
const LEASE: Nanos = Nanos::from_secs(30);
/// The argument that says how long, and what it takes.
const LEASE_ARGUMENT: &str = "--lease";
const LEASE_FROM_TO: (u64, u64) = (SECOND, 3_600 * SECOND);

/// What of the sender's setup a simulated one does not heed.
#[must_use]
pub fn unmodelled(scenario: &Scenario) -> Vec<String> {
    let (_, rest) = lease_words(&scenario.sender.arguments);
    let mut all = Vec::new();
    if !rest.is_empty() {
        all.push(format!("the sender's arguments {}", rest.join(" ")));
    }
    if scenario.sender.durability != Durability::PowerLoss {
        let name = scenario.sender.durability.name();
        all.push(format!("durability = \"{name}\": no power is cut, and commits take as long with either"));
    }
    all
}

/// How long the leases of a scenario's sender are.
pub(super) fn lease(scenario: &Scenario) -> Result<Nanos, SimError> {
    let (words, _) = lease_words(&scenario.sender.arguments);
    let Some(word) = words.last() else { return Ok(LEASE) };
    let lease: Duration =
        word.parse().map_err(|error| SimError::Argument(format!("{LEASE_ARGUMENT} {word}: {error}")))?;
    let (least, most) = LEASE_FROM_TO;
    if !(least..=most).contains(&lease.0) {
        let expected = format!("expected {} to {}", Duration(least), Duration(most));
        return Err(SimError::Argument(format!("{LEASE_ARGUMENT} is {lease}; {expected}")));
    }
    Ok(Nanos(lease.0))
}

/// The leases that the arguments name, and all arguments but these.
fn lease_words(arguments: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (mut leases, mut rest) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(LEASE_ARGUMENT) {
            Some("") => leases.push(arguments.next().unwrap_or_default()),
            Some(value) if value.starts_with('=') => leases.push(&value[1..]),
            _ => rest.push(argument),
        }
    }
    (leases, rest)
}
