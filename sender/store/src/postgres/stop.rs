use std::collections::BTreeSet;

use crate::engine::LaneId;

/// Why a commit stops before its end.
#[derive(Debug)]
pub(super) enum Stop {
    Database(tokio_postgres::Error),
    /// More must be locked first.
    Unlocked(Wanted),
    Broken(&'static str),
}

pub(super) type Result<T> = std::result::Result<T, Stop>;

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl Stop {
    pub(super) fn lanes(lanes: impl IntoIterator<Item = LaneId>) -> Self {
        Self::Unlocked(Wanted { lanes: lanes.into_iter().collect(), ..Wanted::default() })
    }
}

pub(super) struct Failed {
    pub(super) stop: Stop,
    pub(super) doing: &'static str,
}

impl Stop {
    pub(super) const fn doing(self, doing: &'static str) -> Failed {
        Failed { stop: self, doing }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) lanes: BTreeSet<LaneId>,
    pub(super) owners: bool,
    pub(super) state: bool,
    /// The writer's row, which was missing.
    pub(super) writer: bool,
}

impl Wanted {
    pub(super) fn add(&mut self, more: Self) {
        self.lanes.extend(more.lanes);
        self.owners |= more.owners;
        self.state |= more.state;
        self.writer |= more.writer;
    }
}
