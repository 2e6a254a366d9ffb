use std::collections::BTreeMap;

use hookproof_sender::engine::{AttemptId, DeliveryId, LaneId};
use hookproof_sender::store::reply::ClaimedRow;
use hookproof_sender::transport::Lease;

use hookproof_judge::scenario::{Behaviour, Reply};
use hookproof_judge::signature::{Key, Profile};
use hookproof_judge::trace::CutKind;
use hookproof_play::endpoint::{Choices, Luck};

pub(super) struct Endpoint {
    pub(super) choices: Choices,
    pub(super) behaviours: Vec<Behaviour>,
    pub(super) profile: Profile,
    pub(super) secrets: Vec<Key>,
    pub(super) lane: LaneId,
}

#[derive(Default)]
pub(super) struct Network {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) exchanges: BTreeMap<u64, Exchange>,
    pub(super) next_exchange: u64,
    pub(super) next_arrival: u64,
    pub(super) came: u64,
}

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
    pub(super) lease: Lease,
    /// The number of its arrival, once it has arrived.
    pub(super) n: Option<u64>,
    pub(super) over: bool,
    pub(super) closed: bool,
}

/// As the sender sees it.
#[derive(Clone, Debug)]
pub(super) enum ExchangeEnd {
    Answered {
        status: u16,
        retry_after: Option<String>,
        date: String,
    },
    Unsent(&'static str),
    Silent(&'static str),
    /// The lease of its lane ended.
    CutOff,
}

#[derive(Clone, Debug)]
pub(super) enum Final {
    Answer { reply: Reply, begun: u64, whole: bool },
    Cut(CutKind, &'static str),
}
