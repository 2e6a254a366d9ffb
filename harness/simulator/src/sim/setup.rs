use hookproof_judge::scenario::{
    Answer, Durability, Duration, FaultAction, FaultPlan, Partition, Scenario, Store,
};
use hookproof_judge::trace::{Asked, Declared, Lack};
use hookproof_sender::dispatch::{LEASE_DEFAULT, LEASES};
use hookproof_sender::engine::Nanos;

use super::error::SimError;

const LEASE_ARGUMENT: &str = "--lease";

#[must_use]
pub fn unmodelled(scenario: &Scenario) -> Vec<String> {
    let (_, rest) = lease_words(&scenario.sender.arguments);
    let mut all = Vec::new();
    if !rest.is_empty() {
        all.push(format!("the sender's arguments {}", rest.join(" ")));
    }
    if scenario.sender.store == Store::Postgres {
        all.push("store = \"postgres\": the simulated sender keeps its SQLite file".to_owned());
    }
    if scenario.sender.durability != Durability::PowerLoss {
        let name = scenario.sender.durability.name();
        all.push(format!(
            "durability = \"{name}\": the simulation cuts no power, and commits take equally long"
        ));
    }
    let is_half_open = |fault: &FaultPlan| fault.action == FaultAction::Partition(Partition::HalfOpen);
    if scenario.faults.iter().any(is_half_open) {
        all.push("how = \"half-open\": played as silence, nothing passes in either direction".to_owned());
    }
    if scenario.shows_wrong_certificates() {
        all.push("answer = \"wrong-certificate\": played as a refused connection".to_owned());
    }
    if permitted(scenario).next().is_some() {
        all.push("permission: played as granted before anything is sent".to_owned());
    }
    let unaccepting = scenario.subscribers.iter().flat_map(|one| &one.behaviours);
    if { unaccepting }.any(|behaviour| behaviour.answer == Answer::NoAccept) {
        all.push("answer = \"no-accept\": an unaccepted request fails and is not sent late".to_owned());
    }
    all
}

pub(super) fn lease(scenario: &Scenario) -> Result<Nanos, SimError> {
    let (words, _) = lease_words(&scenario.sender.arguments);
    let Some(word) = words.last() else { return Ok(LEASE_DEFAULT) };
    let lease: Duration =
        word.parse().map_err(|error| SimError::Argument(format!("{LEASE_ARGUMENT} {word}: {error}")))?;
    let (least, most) = (LEASES.start().0, LEASES.end().0);
    if !LEASES.contains(&Nanos(lease.0)) {
        let expected = format!("expected {} to {}", Duration(least), Duration(most));
        return Err(SimError::Argument(format!("{LEASE_ARGUMENT} is {lease}; {expected}")));
    }
    Ok(Nanos(lease.0))
}

#[must_use]
pub fn declared() -> Declared {
    Declared { lacks: vec![Lack::Kept, Lack::Order], ..Declared::default() }
}

pub(super) fn permitted(scenario: &Scenario) -> impl Iterator<Item = Asked> {
    scenario.subscribers.iter().filter_map(|subscriber| {
        let (endpoint, origin) = (subscriber.name.clone(), subscriber.permission.as_ref()?.origin.clone());
        Some(Asked { t: 0, endpoint, origin: Some(origin), granted: true })
    })
}

/// The values of `--lease`, and all other arguments.
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
