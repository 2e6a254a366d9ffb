use std::sync::Arc;

use super::{Roster, Row};
use crate::engine::StoreTime;
use crate::store::StoreError;
use crate::store::read::Reader;
use crate::subscriber::RegionSecrets;

/// Holds the newest version, and builds the next.
#[derive(Clone, Debug, Default)]
pub struct RosterKeeper {
    regions: Arc<RegionSecrets>,
    present: Arc<Roster>,
}

impl RosterKeeper {
    const ROWS_MAX: u32 = 1_000;

    /// Starts without subscribers.
    #[must_use]
    pub fn new(regions: RegionSecrets) -> Self {
        Self { regions: Arc::new(regions), present: Arc::default() }
    }

    /// Starts with the stored subscribers. `now` is the real time.
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

    /// The newest version.
    #[must_use]
    pub const fn present(&self) -> &Arc<Roster> {
        &self.present
    }

    /// For the validation of settings.
    #[must_use]
    pub const fn regions(&self) -> &Arc<RegionSecrets> {
        &self.regions
    }

    /// Reads the changes. `now` is the real time, by which secrets retire.
    ///
    /// # Errors
    /// When the store cannot be read. The pages read so far count.
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

    /// Sets the version that the store had before [`Self::catch_up`]. Perhaps no row carries it, because the
    /// last changed subscriber was deleted.
    pub fn reach(&mut self, version: u64) -> &Arc<Roster> {
        if self.present.version() < version {
            self.present = Arc::new(self.present.at(version));
        }
        &self.present
    }
}
