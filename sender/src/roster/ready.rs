//! A subscriber's row made ready for events and attempts.

use std::fmt;

use super::Row;
use crate::engine::StoreTime;
use crate::event::{EventPatterns, PublicId, PublicIdError};
use crate::guard::{Target, TargetError};
use crate::sign::{Keys, KeysError, Retiring, Secret, SecretError, Signer};
use crate::store::read::LiveSecret;
use crate::subscriber::{Agreement, RegionSecrets, SettingsError, SettingsText};
use crate::transport::Destination;

/// All that an event or an attempt needs of a subscriber.
pub struct Ready {
    id: PublicId,
    target: Destination,
    patterns: EventPatterns,
    agreement: Agreement,
    signer: Signer,
}

impl Ready {
    pub(super) fn new(row: &Row, regions: &RegionSecrets) -> Result<Self, Fault> {
        let Row { subscriber, secrets } = row;
        let id: PublicId = subscriber.id.parse()?;
        let patterns = serde_json::from_str(&subscriber.patterns)
            .map_err(|error| Fault::Patterns { problem: error.to_string().into() })?;
        let agreement = SettingsText::from_json(&subscriber.settings)?.validate(&id, regions)?;
        let signer = Signer::new(agreement.profile, &keys(secrets)?)?;
        // Whether it may be sent to is asked when a subscriber is written, and anew for each connection. Not here: one whose host is
        // out of bounds today has its events recorded, and its attempts fail for that reason.
        let url = Target::stored(&subscriber.url)?;
        let lateness = agreement.lane.lateness();
        let target = Destination { url, late_max: lateness.doubt().min(lateness.quarantine()) };
        Ok(Self { id, target, patterns, agreement, signer })
    }

    /// Its public id.
    #[must_use]
    pub const fn id(&self) -> &PublicId {
        &self.id
    }

    /// Where its attempts go, as far as the address that it turns out to be may be connected to.
    #[must_use]
    pub const fn target(&self) -> &Destination {
        &self.target
    }

    /// Which events it wants.
    #[must_use]
    pub const fn patterns(&self) -> &EventPatterns {
        &self.patterns
    }

    /// What was agreed with it.
    #[must_use]
    pub const fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Signs for it.
    #[must_use]
    pub const fn signer(&self) -> &Signer {
        &self.signer
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("id", &self.id).finish_non_exhaustive()
    }
}

fn keys(secrets: &[LiveSecret]) -> Result<Keys, Fault> {
    let read = |live: &LiveSecret| Secret::parse(live.secret.reveal());
    let (newest, older) = secrets.split_first().ok_or(Fault::NoSecret)?;
    let retiring = older.iter().map(|live| {
        let until = live.retires.unwrap_or(StoreTime(u64::MAX));
        Ok(Retiring::new(read(live)?, until))
    });
    Ok(Keys::from_parts(read(newest)?, retiring.collect::<Result<_, SecretError>>()?)?)
}

/// Why a subscriber that is in the store cannot be sent to. Says nothing of secrets, nor of the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its public id.
    #[error("its id cannot be read: {0}")]
    Id(#[from] PublicIdError),
    /// The events that it wants.
    #[error("its event patterns cannot be read: {problem}")]
    Patterns {
        /// What is wrong with them.
        problem: Box<str>,
    },
    /// Its settings.
    #[error("its settings do not hold: {0}")]
    Settings(#[from] SettingsError),
    /// One of its secrets.
    #[error("{0}")]
    Secret(#[from] SecretError),
    /// All of them together.
    #[error("{0}")]
    Keys(#[from] KeysError),
    /// None of them.
    #[error("it has no secret to sign with; rotate it to give it one")]
    NoSecret,
    /// Its URL.
    #[error("{0}")]
    Url(#[from] TargetError),
}
