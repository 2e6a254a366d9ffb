//! Keeps a roster up to date with the store.

use std::sync::Arc;

use super::{Roster, Row};
use crate::engine::StoreTime;
use crate::store::StoreError;
use crate::store::read::Reader;
use crate::subscriber::RegionSecrets;

/// Holds the newest roster, and what it takes to make the next.
#[derive(Clone, Debug, Default)]
pub struct RosterKeeper {
    regions: Arc<RegionSecrets>,
    present: Arc<Roster>,
}

impl RosterKeeper {
    /// Rows read at a time.
    const ROWS_MAX: u32 = 1_000;

    /// Starts from nobody.
    #[must_use]
    pub fn new(regions: RegionSecrets) -> Self {
        Self { regions: Arc::new(regions), present: Arc::default() }
    }

    /// Starts from all that a store holds now, by the real time.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn caught_up(
        regions: RegionSecrets,
        reader: &dyn Reader,
        now: StoreTime,
    ) -> Result<Self, StoreError> {
        let mut keeper = Self::new(regions);
        keeper.catch_up(reader, now)?;
        Ok(keeper)
    }

    /// The newest roster so far.
    #[must_use]
    pub const fn present(&self) -> &Arc<Roster> {
        &self.present
    }

    /// The secrets of regions, which whoever adds or changes a subscriber validates against too.
    #[must_use]
    pub const fn regions(&self) -> &Arc<RegionSecrets> {
        &self.regions
    }

    /// Reads what has changed. `now` is the real time, by which secrets retire. Each page moves the roster on, so that a failure in between loses nothing.
    ///
    /// # Errors
    /// When the store cannot be read; the roster is then as far as it got.
    pub fn catch_up(&mut self, reader: &dyn Reader, now: StoreTime) -> Result<&Arc<Roster>, StoreError> {
        loop {
            let since = self.present.version();
            let changed = reader.subscribers_since(since, Self::ROWS_MAX)?;
            let is_all = u32::try_from(changed.len()).is_ok_and(|count| count < Self::ROWS_MAX);
            let rows = changed.into_iter().map(|subscriber| {
                let secrets = reader.secrets(subscriber.lane, now)?;
                Ok(Row { subscriber, secrets })
            });
            let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
            if !rows.is_empty() {
                self.present = Arc::new(self.present.with(&rows, &self.regions));
            }
            if is_all || self.present.version() == since {
                return Ok(&self.present);
            }
        }
    }

    /// The store had come to that roster before [`Self::catch_up`] began, so that nothing of it is missing. No row may tell so any
    /// more: the subscriber that changed last may be gone.
    pub fn reach(&mut self, version: u64) -> &Arc<Roster> {
        if self.present.version() < version {
            self.present = Arc::new(self.present.at(version));
        }
        &self.present
    }
}
