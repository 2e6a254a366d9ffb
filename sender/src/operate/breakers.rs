//! Which endpoints are left alone by an open breaker, and until when. The owner of a lane knows; of lanes of others, and where
//! nobody delivers, the lane's checkpoint tells. An owner persists one when its breaker opens, and when it closes.

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

/// No more are told of at once, nor read.
pub(crate) const BREAKERS_MAX: u32 = 100;

/// A breaker that is not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenBreaker {
    id: Arc<str>,
    name: Arc<str>,
    /// Until when; nothing once the cooldown is over: the next attempt is the probe, or it is under way.
    until: Option<StoreTime>,
    /// The lane is this process's.
    here: bool,
}

/// The first open breakers, by lane: of a lane in `views` as this process knows it, of others as their checkpoints tell.
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
    /// For machines.
    pub(crate) fn shown(&self) -> Value {
        let Self { id, name, until, here } = self;
        json!({ "subscriber": &**id, "name": &**name, "until": until.map(moment), "here": here })
    }

    /// For people.
    pub(crate) fn told(&self) -> String {
        match self.until {
            Some(until) => format!("{} until {}", self.name, moment(until)),
            None => format!("{} until a probe succeeds", self.name),
        }
    }
}
