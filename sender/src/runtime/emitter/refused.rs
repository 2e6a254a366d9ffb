//! Thousands of events may each be refused for thousands of subscribers, so answers list the first ones and count the
//! rest.

use super::{Accepted, EmitError};
use crate::engine::LaneId;
use crate::store::reply::FullLane;

const LISTED_MAX: usize = 100;
/// Refusals listed in one request. Beyond it, each event lists one.
const LISTED_TOGETHER_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its queue has no room, or is too small for the body.
    Full(FullLane),
    /// Its shape makes the body too long.
    LongBody(LaneId),
}

impl Refused {
    #[must_use]
    pub const fn lane(&self) -> LaneId {
        match self {
            Self::Full(full) => full.lane,
            Self::LongBody(lane) => *lane,
        }
    }

    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Full(full) => full.bound.as_str(),
            Self::LongBody(_) => "the body is too long after shaping",
        }
    }

    /// Whether a retry can never succeed.
    #[must_use]
    pub fn never_fits(&self) -> bool {
        match self {
            Self::Full(full) => full.never_fits(),
            Self::LongBody(_) => true,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedList {
    listed: Vec<Refused>,
    count: usize,
    may_pass: bool,
}

impl RefusedList {
    pub(crate) fn new(all: Vec<Refused>) -> Self {
        let may_pass = all.iter().any(|refused| !refused.never_fits());
        Self { count: all.len(), listed: all, may_pass }
    }

    #[must_use]
    pub fn listed(&self) -> &[Refused] {
        &self.listed
    }

    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    #[must_use]
    pub fn others(&self) -> usize {
        self.count.saturating_sub(self.listed.len())
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether any, listed or not, may take the event later.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        self.may_pass
    }

    pub(crate) fn shorten(&mut self, max: usize) {
        if self.listed.len() > max {
            self.listed.truncate(max);
            self.listed.shrink_to_fit();
        }
    }
}

/// Answers in the order of events, with bounded lists of refusals.
pub(super) struct Answers {
    all: Vec<Result<Accepted, EmitError>>,
    listed: usize,
}

impl Answers {
    /// Default answer `Busy`: subscribers changed faster than events could be matched.
    pub(super) fn new(events: usize) -> Self {
        Self { all: vec![Err(EmitError::Busy); events], listed: 0 }
    }

    pub(super) fn put(&mut self, place: usize, mut answer: Result<Accepted, EmitError>) {
        let refused = match &mut answer {
            Ok(accepted) => Some(&mut accepted.refused),
            Err(EmitError::Full(refused) | EmitError::NeverFits(refused)) => Some(refused),
            Err(_) => None,
        };
        if let Some(refused) = refused {
            refused.shorten(if self.listed < LISTED_TOGETHER_MAX { LISTED_MAX } else { 1 });
            self.listed += refused.listed.len();
        }
        self.all[place] = answer;
    }

    pub(super) fn into_all(self) -> Vec<Result<Accepted, EmitError>> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::reply::Bound;

    fn refused(count: u64, bound: Bound) -> RefusedList {
        RefusedList::new(
            (0..count).map(|lane| Refused::Full(FullLane { lane: LaneId(lane), bound })).collect(),
        )
    }

    fn accepted(refused: RefusedList) -> Accepted {
        Accepted { id: "evt_1".into(), deliveries: 0, duplicates: 0, shed: 0, refused }
    }

    #[test]
    fn an_answer_lists_the_first_and_counts_all() {
        let mut answers = Answers::new(3);
        answers.put(0, Ok(accepted(refused(1_000, Bound::LaneRows))));
        answers.put(1, Err(EmitError::NeverFits(refused(3, Bound::BodyBytes))));
        let all = answers.into_all();
        let Ok(Accepted { refused: first, .. }) = &all[0] else { panic!("{all:?}") };
        assert_eq!((first.listed().len(), first.others(), first.count()), (LISTED_MAX, 900, 1_000));
        assert_eq!(
            (first.listed()[99].lane(), first.may_pass(), first.is_empty()),
            (LaneId(99), true, false)
        );
        let Err(EmitError::NeverFits(second)) = &all[1] else { panic!("{all:?}") };
        assert_eq!((second.listed().len(), second.others(), second.may_pass()), (3, 0, false));
        assert_eq!(all[2], Err(EmitError::Busy));
    }

    #[test]
    fn the_lists_in_the_answers_to_one_request_are_bounded_together() {
        const EVENTS: usize = 10_000;
        let mut answers = Answers::new(EVENTS);
        for place in 0..EVENTS {
            let refused = refused(150, Bound::LaneRows);
            answers.put(
                place,
                if place % 2 == 0 { Ok(accepted(refused)) } else { Err(EmitError::Full(refused)) },
            );
        }
        let (mut listed, mut counted) = (0, 0);
        for answer in answers.into_all() {
            let (Ok(Accepted { refused, .. }) | Err(EmitError::Full(refused))) = answer else { panic!() };
            assert!(refused.may_pass() && !refused.listed().is_empty());
            assert!(refused.listed.capacity() <= LISTED_MAX);
            listed += refused.listed().len();
            counted += refused.count();
        }
        assert_eq!(counted, EVENTS * 150);
        assert!(listed < LISTED_TOGETHER_MAX + LISTED_MAX + EVENTS, "{listed}");
    }
}
