//! The state that a new owner of a lane begins with.

use super::limiter::{Limiter, Since};
use super::message::Origin;
use super::record::LaneRecord;
use super::settings::Settings;
use super::time::{Instant, Nanos};

pub(super) struct Start {
    pub(super) limiter: Limiter,
    pub(super) record: Option<LaneRecord>,
    /// A lower bound on the time since the record.
    pub(super) downtime: Nanos,
}

impl Start {
    pub(super) fn new(origin: Origin, settings: &Settings, now: Instant) -> Self {
        let contract = settings.contract().clone();
        let (record, downtime, seized) = match origin {
            Origin::Fresh => (None, Nanos::ZERO, None),
            Origin::Resumed { record, downtime } => {
                let seized = (!record.clean).then(Vec::new);
                (Some(record), downtime, seized)
            }
            Origin::Seized { record, downtime, ended } => (record, downtime, Some(ended)),
        };
        let left = record.as_ref().map(|record| &record.limiter);
        let lateness = settings.lateness();
        let limiter = match (left, &seized) {
            (left, Some(ended)) => {
                let since = Since { downtime, ended };
                Limiter::seize(contract, lateness, left, since, now)
            }
            (Some(left), None) => Limiter::resume(contract, lateness, left, downtime, now),
            (None, None) => Limiter::fresh(contract, lateness),
        };
        Self { limiter, record, downtime }
    }
}
