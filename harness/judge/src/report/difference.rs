//! The differences between runs, and those that may be allowed by name.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// A scenario is no longer run.
    MissingScenario,
    /// A check is no longer judged.
    MissingCheck,
    /// A check no longer applies.
    NotApplicable,
    /// The scenario's text differs.
    Scenario,
    /// The driver differs.
    Driver,
    /// The seed differs.
    Seed,
    /// A figure is beyond its noise.
    Figure,
}

impl Allowed {
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub regressions: Vec<String>,
    pub improvements: Vec<String>,
    pub allowed: Vec<String>,
}

impl Difference {
    /// Records a regression, unless it is allowed.
    pub(super) fn note(&mut self, kind: Allowed, allowed: &[Allowed], what: String) {
        if allowed.contains(&kind) {
            self.allowed.push(what);
        } else {
            self.regressions.push(format!("{what} (--allow {kind})"));
        }
    }
}
