//! Requests under way, and the endpoints that they go to.

use std::collections::BTreeMap;

use hookproof_sender::engine::{AttemptId, DeliveryId, LaneId};
use hookproof_sender::store::reply::ClaimedRow;
use hookproof_sender::transport::Lease;

use hookproof_judge::scenario::{Behaviour, Reply};
use hookproof_judge::signature::{Profile, Secret};
use hookproof_judge::trace::CutKind;
use hookproof_play::endpoint::choice::{Choices, Luck};

/// A subscriber's endpoint.
pub(super) struct Endpoint {
    pub(super) choices: Choices,
    pub(super) behaviours: Vec<Behaviour>,
    pub(super) profile: Profile,
    pub(super) secrets: Vec<Secret>,
    pub(super) lane: LaneId,
}

/// The endpoints, and the requests under way to them.
#[derive(Default)]
pub(super) struct Network {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) exchanges: BTreeMap<u64, Exchange>,
    pub(super) next_exchange: u64,
    pub(super) next_arrival: u64,
    /// When the latest request came.
    pub(super) came: u64,
}

/// A request that was sent.
pub(super) struct Exchange {
    pub(super) worker: usize,
    pub(super) generation: u64,
    pub(super) attempt: AttemptId,
    pub(super) delivery: DeliveryId,
    pub(super) endpoint: usize,
    pub(super) row: ClaimedRow,
    pub(super) number: u32,
    pub(super) began: u64,
    pub(super) luck: Luck,
    /// How long its lane is its sender's.
    pub(super) lease: Lease,
    /// Its number among the arrivals, once it has arrived.
    pub(super) n: Option<u64>,
    /// The sender has heard the end of it.
    pub(super) over: bool,
    /// The endpoint is done with it.
    pub(super) closed: bool,
}

/// How an exchange ends, as the sender hears it.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    Answered {
        status: u16,
        retry_after: Option<String>,
        date: String,
    },
    Unsent(&'static str),
    Silent(&'static str),
    /// The lease of its lane is over.
    CutOff,
}

/// What the endpoint does at last.
#[derive(Clone, Debug)]
pub(super) enum Final {
    Answer { reply: Reply, begun: u64, whole: bool },
    Cut(CutKind, &'static str),
}
