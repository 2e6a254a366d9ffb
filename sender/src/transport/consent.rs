//! The right to send what a lane has to send. It can be withdrawn until the first byte of a request is written: a lane
//! that was paused, changed or lost must not send what only waited for its turn.

use tokio::sync::watch;

/// Whoever may withdraw what it consented to. Dropping it does.
#[derive(Debug)]
pub struct Giver(watch::Sender<()>);

impl Giver {
    /// Consents.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(()))
    }

    /// The consent, for one attempt.
    #[must_use]
    pub fn give(&self) -> Consent {
        Consent(self.0.subscribe())
    }
}

impl Default for Giver {
    fn default() -> Self {
        Self::new()
    }
}

/// The right to make one attempt, until it is withdrawn.
#[derive(Clone, Debug)]
pub struct Consent(watch::Receiver<()>);

impl Consent {
    /// Whether it is over.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Waits until it is over.
    pub async fn withdrawn(&self) {
        let mut giver = self.0.clone();
        // Nothing is ever said through it: what can happen is that the giver is gone.
        while giver.changed().await.is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn consent_lasts_until_its_giver_is_gone() {
        let giver = Giver::new();
        let consent = giver.give();
        assert!(!consent.is_withdrawn());
        drop(giver);
        assert!(consent.is_withdrawn());
        consent.withdrawn().await;
    }
}
