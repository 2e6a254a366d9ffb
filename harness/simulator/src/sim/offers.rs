use std::sync::Arc;

use hookproof_sender::engine::LaneId;

use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Shared, Text};
use hookproof_play::payload::{Offered, Places};
use hookproof_play::traffic::{Schedule, Tokens};

pub(super) struct Play {
    pub(super) schedule: Arc<Schedule>,
    pub(super) offered: Offered,
    pub(super) next: usize,
    pub(super) owed: Vec<Shared<[Text]>>,
    pub(super) owed_lanes: Vec<Vec<usize>>,
    pub(super) tokens: Tokens,
    pub(super) open: usize,
    /// Nothing is left to offer, to answer or to do to the sender.
    pub(super) idle_since: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Recorded.
    Accepted { matched: u32, shed: u64 },
    /// Refused because these lanes are full.
    Full(Vec<LaneId>),
    /// The subscribers changed; the event must be matched again.
    Stale,
}

impl Play {
    pub(super) fn new(schedule: Schedule, scenario: &Scenario) -> Self {
        let to = |kind: &str| {
            let all = scenario.subscribers.iter().enumerate();
            all.filter(|(_, one)| one.is_owed(kind)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let owed_lanes: Vec<Vec<usize>> = schedule.types().map(to).collect();
        let name = |at: &usize| Text::from(scenario.subscribers[*at].name.as_str());
        let owed = owed_lanes.iter().map(|lanes| lanes.iter().map(name).collect()).collect();
        let (schedule, tokens) = (Arc::new(schedule), Tokens::new(0x51));
        Self {
            offered: Offered { schedule: Arc::clone(&schedule), tokens, places: Places::default() },
            schedule,
            next: 0,
            owed,
            owed_lanes,
            tokens,
            open: 0,
            idle_since: None,
        }
    }
}
