//! The health of an endpoint, and the changes that operators are notified of.

use std::collections::BTreeSet;

use crate::engine::LaneId;
use crate::engine::breaker::Standing;
use crate::store::command::{Condition, Transition};
use crate::store::lane::LaneState;

/// The words are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Healthy,
    /// Its circuit breaker is open: it failed several times in a row, and has not succeeded since.
    Failing,
    /// New events are not recorded for it until an operator resumes it.
    Disabled,
}

impl Health {
    pub(crate) const fn of(state: LaneState, breaker: Option<Standing>) -> Self {
        match (state, breaker) {
            (LaneState::Disabled, _) => Self::Disabled,
            (_, Some(Standing::Open { .. } | Standing::Probing { .. })) => Self::Failing,
            (_, Some(Standing::Closed) | None) => Self::Healthy,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Failing => "failing",
            Self::Disabled => "disabled",
        }
    }

    const fn condition(self) -> Option<Condition> {
        match self {
            Self::Healthy => None,
            Self::Failing => Some(Condition::Failing),
            Self::Disabled => Some(Condition::Disabled),
        }
    }
}

/// The present conditions of a subscriber.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    pub(crate) health: Health,
    pub(crate) is_behind: bool,
    pub(crate) dead_letters_grow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The type of the event. `None`: the condition ends without one.
    pub(crate) event_type: Option<&'static str>,
    pub(crate) transition: Transition,
}

impl Present {
    /// The changes since the last notices.
    pub(crate) fn notices(
        self,
        lane: LaneId,
        notified: &BTreeSet<Condition>,
    ) -> impl Iterator<Item = Notice> + use<> {
        let health = [Condition::Disabled, Condition::Failing].into_iter().find(|one| notified.contains(one));
        let of = |condition| Some(condition).filter(|one| notified.contains(one));
        let behind = self.is_behind.then_some(Condition::Behind);
        let dead_letters = self.dead_letters_grow.then_some(Condition::DeadLetters);
        let pairs = [
            (health, self.health.condition()),
            (of(Condition::Behind), behind),
            (of(Condition::DeadLetters), dead_letters),
        ];
        pairs.into_iter().filter(|(ends, begins)| ends != begins).map(move |(ends, begins)| {
            let event_type = match (ends, begins) {
                (_, Some(Condition::Failing)) => Some("hookproof.endpoint.failing"),
                (_, Some(Condition::Disabled)) => Some("hookproof.endpoint.disabled"),
                (Some(Condition::Failing | Condition::Disabled), None) => {
                    Some("hookproof.endpoint.recovered")
                }
                (_, Some(Condition::Behind)) => Some("hookproof.backlog.behind"),
                (_, Some(Condition::DeadLetters)) => Some("hookproof.dead_letters.growing"),
                (_, None) => None,
            };
            Notice { event_type, transition: Transition { lane, ends, begins } }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::StoreTime;
    use crate::engine::breaker::{Cause, Opened};

    #[test]
    fn an_endpoint_is_as_healthy_as_its_state_and_its_breaker() {
        let opened = Opened { since: StoreTime(1), cause: Cause::Silent };
        let breakers = [
            None,
            Some(Standing::Closed),
            Some(Standing::Open { opened, until: StoreTime(2) }),
            Some(Standing::Probing { opened }),
        ];
        let words = |state| breakers.map(|breaker| Health::of(state, breaker).word());
        for state in [LaneState::Active, LaneState::Paused] {
            assert_eq!(words(state), ["healthy", "healthy", "failing", "failing"], "{state:?}");
        }
        assert_eq!(words(LaneState::Disabled), ["disabled"; 4]);
    }

    #[test]
    fn each_change_is_notified_by_its_event() {
        use Condition::{Behind, DeadLetters, Disabled, Failing};
        type Changes<'a> = &'a [(Option<Condition>, Option<Condition>, &'a str)];
        let rows: [(&[Condition], _, Changes<'_>); 15] = [
            (&[], (Health::Healthy, ""), &[]),
            (&[], (Health::Failing, ""), &[(None, Some(Failing), "endpoint.failing")]),
            (&[], (Health::Disabled, ""), &[(None, Some(Disabled), "endpoint.disabled")]),
            (&[Failing], (Health::Failing, ""), &[]),
            (&[Failing], (Health::Disabled, ""), &[(Some(Failing), Some(Disabled), "endpoint.disabled")]),
            (&[Failing], (Health::Healthy, ""), &[(Some(Failing), None, "endpoint.recovered")]),
            (&[Disabled], (Health::Disabled, ""), &[]),
            (&[Disabled], (Health::Failing, ""), &[(Some(Disabled), Some(Failing), "endpoint.failing")]),
            (&[Disabled], (Health::Healthy, ""), &[(Some(Disabled), None, "endpoint.recovered")]),
            (&[], (Health::Healthy, "behind"), &[(None, Some(Behind), "backlog.behind")]),
            (&[Behind], (Health::Healthy, "behind"), &[]),
            (&[Behind], (Health::Healthy, ""), &[(Some(Behind), None, "")]),
            (&[], (Health::Healthy, "dead"), &[(None, Some(DeadLetters), "dead_letters.growing")]),
            (&[DeadLetters], (Health::Healthy, ""), &[(Some(DeadLetters), None, "")]),
            (
                &[Behind],
                (Health::Failing, "dead"),
                &[
                    (None, Some(Failing), "endpoint.failing"),
                    (Some(Behind), None, ""),
                    (None, Some(DeadLetters), "dead_letters.growing"),
                ],
            ),
        ];
        for (notified, (health, more), expected) in rows {
            let (is_behind, dead_letters_grow) = (more == "behind", more == "dead");
            let present = Present { health, is_behind, dead_letters_grow };
            let notices = present.notices(LaneId(1), &notified.iter().copied().collect());
            let changes = notices.map(|Notice { event_type, transition }| {
                let event_type = event_type.unwrap_or_default().trim_start_matches("hookproof.");
                (transition.ends, transition.begins, event_type)
            });
            assert_eq!(changes.collect::<Vec<_>>(), expected, "{notified:?} {health:?} {more}");
        }
    }
}
