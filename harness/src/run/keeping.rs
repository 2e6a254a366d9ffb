//! Observes the deliveries that the sender retains after success, where the scenario bounds them: by its
//! list, and by the size of its database on disk.

use std::path::{Path, PathBuf};

use crate::driver::Api;
use hookproof_judge::scenario::{KeptBound, Scenario, Store};
use hookproof_judge::trace::Kept;

/// The period; a list call costs the sender work.
const EVERY_NS: u64 = 1_000_000_000;

pub(super) struct Keeping {
    bound: KeptBound,
    /// The database, if its size is bounded.
    database: Option<PathBuf>,
    next: u64,
}

impl Keeping {
    pub(super) fn of(scenario: &Scenario, api: &Api) -> Self {
        let bound = scenario.expect.holds.kept;
        let template = api.file().start.as_ref().and_then(|start| start.database.as_ref());
        // A template that can't be filled names no file; the size then stays unknown.
        let path = template.and_then(|template| template.fill(&api.variables(0)).ok());
        let measured = bound.bytes.is_some() && scenario.sender.store == Store::Sqlite;
        Self { bound, database: path.map(PathBuf::from).filter(|_| measured), next: 0 }
    }

    /// The retained deliveries, if it is time. For a silent sender only the size is known.
    pub(super) async fn look(&mut self, api: &Api, now: u64) -> Option<Kept> {
        if now < self.next || self.bound == KeptBound::default() {
            return None;
        }
        self.next = now.saturating_add(EVERY_NS);
        let oldest = if self.bound.age.is_some() { api.oldest_kept().await.ok() } else { None };
        let disk_bytes = self.database.as_deref().and_then(size);
        let listed = oldest.is_some();
        (listed || disk_bytes.is_some()).then(|| Kept {
            listed,
            oldest_unix_ns: oldest.flatten(),
            disk_bytes,
        })
    }
}

/// The bytes of a database with its logs; none if it does not exist.
fn size(database: &Path) -> Option<u64> {
    let beside = |end: &str| {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        std::fs::metadata(name).map_or(0, |file| file.len())
    };
    let own = std::fs::metadata(database).ok()?.len();
    Some(own + beside("-wal") + beside("-journal"))
}
