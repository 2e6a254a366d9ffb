//! Checks that a driver supports a scenario.

use super::RunError;
use crate::driver::DriverFile;
use crate::fault::{WallClock, sets_clocks};
use hookproof_judge::scenario::{Scenario, Slack, Store};
use hookproof_judge::trace::OURS;

pub(super) fn is_fit(scenario: &Scenario, file: &DriverFile) -> Result<(), RunError> {
    let slack = |one: &&hookproof_judge::scenario::Subscriber| one.limit.slack != Slack::default();
    if let Some(one) = scenario.subscribers.iter().find(slack).filter(|_| file.name == OURS) {
        return Err(RunError::Slack { name: one.name.clone() });
    }
    if scenario.sender.store == Store::Postgres && !file.names_database() {
        return Err(RunError::Store { driver: file.name.clone() });
    }
    if sets_clocks(scenario) {
        if file.start.is_none() {
            return Err(RunError::NoProcess { driver: file.name.clone() });
        }
        WallClock::library().ok_or(RunError::Faketime)?;
    }
    let owners = scenario.faults.iter().filter_map(|fault| fault.worker.clone());
    if let Some(target) =
        owners.into_iter().find(|target| target.owner_of().is_some() && file.owner().is_none())
    {
        return Err(RunError::Owner { target, driver: file.name.clone() });
    }
    Ok(())
}
