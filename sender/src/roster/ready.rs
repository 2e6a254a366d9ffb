use std::fmt;

use super::Row;
use crate::engine::StoreTime;
use crate::event::{EventPatterns, PublicId, PublicIdError};
use crate::guard::{Target, TargetError};
use crate::sign::{Keys, KeysError, Retiring, Secret, SecretError, Signer};
use crate::store::read::LiveSecret;
use crate::subscriber::{Agreement, RegionSecrets, SettingsError, SettingsText};
use crate::transport::Destination;

/// The parsed data of a subscriber.
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
        // The guard is asked when a subscriber is written and for each connection. If it refuses the host
        // today, events are still recorded, and attempts fail.
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

    /// The guard has not checked it.
    #[must_use]
    pub const fn target(&self) -> &Destination {
        &self.target
    }

    /// The events that it wants.
    #[must_use]
    pub const fn patterns(&self) -> &EventPatterns {
        &self.patterns
    }

    /// Its validated settings.
    #[must_use]
    pub const fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Its signer.
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

/// Why it cannot be sent to. Holds no secret and no URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its id is invalid.
    #[error("its id cannot be read: {0}")]
    Id(#[from] PublicIdError),
    /// Its patterns are invalid.
    #[error("its event patterns cannot be read: {problem}")]
    Patterns {
        /// The cause.
        problem: Box<str>,
    },
    /// Its settings are invalid.
    #[error("its settings do not hold: {0}")]
    Settings(#[from] SettingsError),
    /// A secret is invalid.
    #[error("{0}")]
    Secret(#[from] SecretError),
    /// Its secrets do not fit together.
    #[error("{0}")]
    Keys(#[from] KeysError),
    /// It has no secret.
    #[error("it has no secret to sign with; rotate it to give it one")]
    NoSecret,
    /// Its URL is invalid.
    #[error("{0}")]
    Url(#[from] TargetError),
}
