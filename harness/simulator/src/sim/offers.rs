use hookproof_sender::engine::LaneId;

use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Shared, Text};
use hookproof_play::traffic::{Due, Schedule, Tokens};

pub(super) struct Play {
    pub(super) schedule: Schedule,
    pub(super) next: usize,
    /// The index of each token's first event in the schedule.
    first: Vec<u32>,
    pub(super) owed: Vec<Shared<[Text]>>,
    pub(super) owed_lanes: Vec<Vec<usize>>,
    pub(super) tokens: Tokens,
    /// Events without an answer so far.
    pub(super) open: usize,
    /// The time since when nothing is left to offer, to answer or to do to the sender.
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
        let tokens = schedule.due().iter().map(|due| due.token).max().map_or(0, |most| most + 1);
        let mut first = vec![u32::MAX; usize::try_from(tokens).unwrap_or_default()];
        for (place, due) in (0_u32..).zip(schedule.due()) {
            if let Some(slot) = usize::try_from(due.token).ok().and_then(|token| first.get_mut(token)) {
                *slot = place.min(*slot);
            }
        }
        let to = |kind: &str| {
            let all = scenario.subscribers.iter().enumerate();
            all.filter(|(_, one)| one.is_owed(kind)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let owed_lanes: Vec<Vec<usize>> = schedule.types().map(to).collect();
        let name = |at: &usize| Text::from(scenario.subscribers[*at].name.as_str());
        let owed = owed_lanes.iter().map(|lanes| lanes.iter().map(name).collect()).collect();
        Self {
            schedule,
            next: 0,
            first,
            owed,
            owed_lanes,
            tokens: Tokens::new(0x51),
            open: 0,
            idle_since: None,
        }
    }

    pub(super) fn place_of(&self, token: u64) -> Option<usize> {
        let place = *self.first.get(usize::try_from(token).ok()?)?;
        usize::try_from(place).ok().filter(|place| *place < self.schedule.due().len())
    }

    pub(super) fn due_of(&self, token: u64) -> Option<&Due> {
        self.schedule.due().get(self.place_of(token)?)
    }
}
