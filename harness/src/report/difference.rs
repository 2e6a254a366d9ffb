//! What differs between runs, and which differences may be allowed by name.

use std::fmt;
use std::str::FromStr;

/// A difference that need not be a regression, if somebody says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// A scenario that is no longer run.
    MissingScenario,
    /// A check that is no longer made.
    MissingCheck,
    /// A check that no longer concerns the run.
    NotApplicable,
    /// The scenario's text is another.
    Scenario,
    /// Another sender.
    Driver,
    /// Another seed.
    Seed,
    /// A figure beyond its noise.
    Figure,
}

impl Allowed {
    /// All of them, by name.
    const NAMES: [(&'static str, Self); 7] = [
        ("missing-scenario", Self::MissingScenario),
        ("missing-check", Self::MissingCheck),
        ("not-applicable", Self::NotApplicable),
        ("scenario", Self::Scenario),
        ("driver", Self::Driver),
        ("seed", Self::Seed),
        ("figure", Self::Figure),
    ];
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, kind)| kind == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        let names = Self::NAMES.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("expected one of {names}"))
    }
}

/// What differs between older runs and newer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What got worse.
    pub regressions: Vec<String>,
    /// What became better.
    pub improvements: Vec<String>,
    /// What differs, and was allowed to.
    pub allowed: Vec<String>,
}

impl Difference {
    /// Notes what is worse unless it is allowed.
    pub(super) fn note(&mut self, kind: Allowed, allowed: &[Allowed], what: String) {
        if allowed.contains(&kind) {
            self.allowed.push(what);
        } else {
            self.regressions.push(format!("{what} (--allow {kind})"));
        }
    }
}
