//! Why a commit does not go on.

use std::collections::BTreeSet;

use crate::engine::LaneId;

/// Why a commit does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// The database says so.
    Database(tokio_postgres::Error),
    /// Something has to be locked first.
    Unlocked(Wanted),
    /// What is there makes no sense.
    Broken(&'static str),
}

/// What a part of a commit gives, or why the commit does not go on.
pub(super) type Result<T> = std::result::Result<T, Stop>;

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl Stop {
    /// These lanes have to be locked first.
    pub(super) fn lanes(lanes: impl IntoIterator<Item = LaneId>) -> Self {
        Self::Unlocked(Wanted { lanes: lanes.into_iter().collect(), ..Wanted::default() })
    }
}

/// Why a commit does not go on, and what was being done.
pub(super) struct Failed {
    pub(super) stop: Stop,
    pub(super) doing: &'static str,
}

impl Stop {
    /// What was being done then.
    pub(super) const fn doing(self, doing: &'static str) -> Failed {
        Failed { stop: self, doing }
    }
}

/// What a commit wants locked.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) lanes: BTreeSet<LaneId>,
    pub(super) owners: bool,
    pub(super) state: bool,
    /// The writer's row, which was not there.
    pub(super) writer: bool,
}

impl Wanted {
    /// Wants more beside.
    pub(super) fn add(&mut self, more: Self) {
        self.lanes.extend(more.lanes);
        self.owners |= more.owners;
        self.state |= more.state;
        self.writer |= more.writer;
    }
}
