//! Senders with one realistic bug each, made of the right one: what the sweep must find, or it finds nothing.

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The limiter is charged when a request is sent, not when it has ended.
    ChargedOnSend,
    /// A lease that ran out, or that somebody else took, binds nobody.
    LeaseNotFenced,
    /// Settlements are acknowledged before they are durable, so that a crash loses them.
    SettleLost,
    /// What an endpoint asked for with `Retry-After` does not outlive the process.
    PauseForgotten,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::ChargedOnSend, Self::LeaseNotFenced, Self::SettleLost, Self::PauseForgotten];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChargedOnSend => "charged-on-send",
            Self::LeaseNotFenced => "lease-not-fenced",
            Self::SettleLost => "settle-lost",
            Self::PauseForgotten => "pause-forgotten",
        }
    }
}

impl std::str::FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let known = Self::ALL.into_iter().find(|mutant| mutant.name() == text);
        known.ok_or_else(|| format!("there is no mutant {text:?}; expected one of {names}"))
    }
}
