//! Open circuit breakers. A lane's state comes from this process if it owns the lane, or else from the
//! checkpoint that its owner writes at each change.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::shown::moment;
use crate::dispatch::handover;
use crate::engine::breaker::Standing;
use crate::engine::{LaneId, LaneView, StoreTime};
use crate::roster::Roster;
use crate::runtime::clock::wall_time;
use crate::store::read::Checkpoint;

pub(crate) const BREAKERS_MAX: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenBreaker {
    id: Arc<str>,
    name: Arc<str>,
    /// `None` once the next attempt is the probe.
    until: Option<StoreTime>,
    /// Whether this process owns the lane.
    here: bool,
}

pub(crate) fn open_breakers(
    views: &[LaneView],
    roster: &Roster,
    kept: Vec<Checkpoint>,
    now: StoreTime,
) -> Vec<OpenBreaker> {
    let ours: BTreeMap<LaneId, Standing> = views.iter().map(|view| (view.lane, view.breaker)).collect();
    let mut open = BTreeMap::new();
    for Checkpoint { lane, id, name, record } in kept {
        if let Some(until) = handover::breaker_open_until(&record).filter(|_| !ours.contains_key(&lane)) {
            open.insert(
                lane,
                OpenBreaker { id, name, until: Some(until).filter(|at| *at > now), here: false },
            );
        }
    }
    for (lane, standing) in ours.into_iter().filter(|(_, standing)| standing.is_open()) {
        let Some(known) = roster.get(lane) else { continue };
        let until = match standing {
            Standing::Open { until } => Some(wall_time(until)).filter(|at| *at > now),
            Standing::Probing | Standing::Closed => None,
        };
        let (id, name) = (Arc::clone(known.id()), Arc::clone(known.name()));
        open.insert(lane, OpenBreaker { id, name, until, here: true });
    }
    open.into_values().take(BREAKERS_MAX as usize).collect()
}

impl OpenBreaker {
    pub(crate) fn shown(&self) -> Value {
        let Self { id, name, until, here } = self;
        json!({ "subscriber": &**id, "name": &**name, "until": until.map(moment), "here": here })
    }

    pub(crate) fn told(&self) -> String {
        match self.until {
            Some(until) => format!("{} until {}", self.name, moment(until)),
            None => format!("{} until a probe succeeds", self.name),
        }
    }
}
