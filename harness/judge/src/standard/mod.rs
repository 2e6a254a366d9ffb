//! Standards for webhooks, as lists of requirements, and the grades of a sender or receiver by them.
//!
//! A requirement names the checks or cases that grade it, or the reason why none does. It is met only where each of
//! them passed at least once and none failed: one that was not exercised is never met. The list of a revision is
//! frozen; a new revision is a new file. The suite's own list follows from its cases.

mod certificate;
mod signed;

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use self::certificate::{Broken, Certificate, check};
pub use self::signed::{KeyError, PublicKey, SigningKey};
use crate::catalogue::{self, Severity, Verdict};
use crate::report::Report;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standard {
    #[serde(skip)]
    pub name: &'static str,
    pub title: String,
    pub revision: String,
    pub text: String,
    /// The signing profile that it demands: runs with another one exercise nothing.
    pub profile: Option<String>,
    pub requirement: Vec<Requirement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    pub id: String,
    pub of: Side,
    pub level: Level,
    pub section: String,
    pub demand: String,
    #[serde(default)]
    pub by: Vec<String>,
    /// Why nothing grades it.
    pub ungraded: Option<String>,
    /// Whether it says nothing of a program that its case does not concern.
    #[serde(skip)]
    pub is_conditional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Sender,
    Receiver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Must,
    Should,
}

#[derive(Clone, Debug)]
pub struct Seen<'a> {
    pub id: &'a str,
    pub verdict: Verdict,
    pub told: String,
    /// The finding of a failed check or case in which the requirement was met.
    pub passes_despite: Option<&'a str>,
    pub profiles: Vec<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    Failed,
    NotExercised,
    Met,
    Ungraded,
    NotApplicable,
}

#[derive(Clone, Debug, Serialize)]
pub struct Graded {
    pub id: &'static str,
    pub level: Level,
    pub section: &'static str,
    pub demand: &'static str,
    pub by: &'static [String],
    pub grade: Grade,
    /// The failure, the open checks, the passes, or why nothing grades it.
    pub told: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Grades {
    pub standard: String,
    pub title: &'static str,
    pub text: &'static str,
    pub side: Side,
    pub verdict: Verdict,
    /// Why no grade can pass: runs that did not end, failed, or were not judged.
    pub unsound: Vec<String>,
    pub requirements: Vec<Graded>,
}

const FILES: [(&str, &str); 5] = [
    ("standard-webhooks", include_str!("standard-webhooks.toml")),
    ("cloudevents-webhook", include_str!("cloudevents-webhook.toml")),
    ("adcp-webhook-emission", include_str!("adcp-webhook-emission.toml")),
    ("a2a-push-notifications", include_str!("a2a-push-notifications.toml")),
    ("five-failures", include_str!("five-failures.toml")),
];

static ALL: LazyLock<Vec<Standard>> = LazyLock::new(|| {
    let read = |(name, text): &(&'static str, &str)| {
        let standard: Standard =
            toml::from_str(text).expect("the standards are part of this program, and tested");
        Standard { name, ..standard }
    };
    FILES.iter().map(read).chain([own()]).collect()
});

const OWN: &str = "hookproof";

/// Each case for a receiver is a requirement where it applies.
fn own() -> Standard {
    let level = |severity| match severity {
        Severity::Must => Some(Level::Must),
        Severity::Should => Some(Level::Should),
        Severity::May | Severity::Info => None,
    };
    let requirement = catalogue::receiver().iter().filter_map(|case| {
        Some(Requirement {
            id: case.id.clone(),
            of: Side::Receiver,
            level: level(case.severity)?,
            section: case.section().to_owned(),
            demand: case.requirement.clone(),
            by: vec![case.id.clone()],
            ungraded: None,
            is_conditional: true,
        })
    });
    Standard {
        name: OWN,
        title: "Hookproof's cases for receivers".to_owned(),
        revision: env!("CARGO_PKG_VERSION").to_owned(),
        text: "hookproof list".to_owned(),
        profile: None,
        requirement: requirement.collect(),
    }
}

/// None for a sender.
#[must_use]
pub fn default_of(side: Side) -> Option<&'static Standard> {
    all().iter().find(|one| one.name == OWN && one.concerns(side))
}

#[must_use]
pub fn all() -> &'static [Standard] {
    &ALL
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.revision)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no standard that Hookproof knows; expected one of {known}", known = names().join(", "))]
pub struct Unknown(String);

fn names() -> Vec<String> {
    all().iter().map(Standard::to_string).collect()
}

impl FromStr for &'static Standard {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        all().iter().find(|one| one.to_string() == text).ok_or_else(|| Unknown(text.to_owned()))
    }
}

impl Standard {
    #[must_use]
    pub fn concerns(&self, side: Side) -> bool {
        self.requirement.iter().any(|one| one.of == side)
    }

    /// It warns if a `should` failed, or if nothing grades a `must`. With an unsound run it is inconclusive at best.
    #[must_use]
    pub fn grade(&'static self, side: Side, seen: &[Seen<'_>], unsound: Vec<String>) -> Grades {
        let seen: Vec<Seen<'_>> = seen.iter().map(|one| self.by_profile(one)).collect();
        let own = self.requirement.iter().filter(|one| one.of == side);
        let requirements: Vec<Graded> = own.map(|one| one.grade(&seen)).collect();
        let has = |grade| requirements.iter().any(|one| one.level == Level::Must && one.grade == grade);
        let verdict = match () {
            () if has(Grade::Failed) => Verdict::Fail,
            () if !unsound.is_empty() || has(Grade::NotExercised) || !has(Grade::Met) => {
                Verdict::Inconclusive
            }
            () if has(Grade::Ungraded) || requirements.iter().any(|one| one.grade == Grade::Failed) => {
                Verdict::Warn
            }
            () => Verdict::Pass,
        };
        let (title, text) = (&*self.title, &*self.text);
        Grades { standard: self.to_string(), title, text, side, verdict, unsound, requirements }
    }
}

#[must_use]
pub fn seen(reports: &[Report]) -> Vec<Seen<'_>> {
    reports.iter().flat_map(seen_in).collect()
}

/// An expected failure is one; where it did not happen, nothing was shown.
fn seen_in(report: &Report) -> impl Iterator<Item = Seen<'_>> {
    report.judgement.verdicts.iter().map(|one| {
        let other = report.course.by_standards.get(&one.id);
        let (status, sentence) = other.map_or((one.status, &one.sentence), |one| (one.status, &one.sentence));
        Seen {
            id: &one.id,
            verdict: match (status, &one.known) {
                (Verdict::Pass | Verdict::Warn, Some(_)) => Verdict::Fail,
                (Verdict::Fail, Some(_)) => Verdict::NotApplicable,
                (status, _) => status,
            },
            told: format!("{}: {sentence}", report.scenario),
            passes_despite: (other.is_some() && status == Verdict::Pass).then_some(&*one.sentence),
            profiles: report.course.profiles.iter().map(String::as_str).collect(),
        }
    })
}

impl Standard {
    /// As it was seen, or as not applicable if the run signs by another profile.
    fn by_profile<'a>(&self, seen: &Seen<'a>) -> Seen<'a> {
        let Some(profile) = &self.profile else { return seen.clone() };
        let others: Vec<&str> = seen.profiles.iter().copied().filter(|one| one != profile).collect();
        if others.is_empty() {
            return seen.clone();
        }
        let told = format!("{}; it signs by {}, not {profile}", seen.told, others.join(", "));
        Seen { verdict: Verdict::NotApplicable, told, ..seen.clone() }
    }
}

impl Requirement {
    fn grade(&'static self, seen: &[Seen<'_>]) -> Graded {
        let own = || seen.iter().filter(|one| self.by.iter().any(|id| id == one.id));
        let warns = |one: &&Seen<'_>| one.verdict == Verdict::Warn || one.passes_despite.is_some();
        let Self { id, level, section, demand, by, .. } = self;
        let graded = |level, (grade, told)| Graded { id, level, section, demand, by, grade, told };
        match own().find(warns).filter(|_| self.is_conditional) {
            // What is a warning in the run is one here, even about a `must`.
            Some(one) if own().all(|one| one.verdict != Verdict::Fail) => {
                graded(Level::Should, (Grade::Failed, format!("{}: {}", one.id, one.told)))
            }
            _ => graded(*level, self.judged(seen)),
        }
    }

    fn judged(&self, seen: &[Seen<'_>]) -> (Grade, String) {
        if let Some(why) = &self.ungraded {
            return (Grade::Ungraded, why.clone());
        }
        let own = || seen.iter().filter(|one| self.by.iter().any(|id| id == one.id));
        if let Some(failed) = own().find(|one| matches!(one.verdict, Verdict::Fail | Verdict::Warn)) {
            return (Grade::Failed, format!("{}: {}", failed.id, failed.told));
        }
        // A pass of another run does not answer what this one left open.
        if let Some(open) = own().find(|one| one.verdict == Verdict::Inconclusive) {
            return (Grade::NotExercised, format!("{}: {}", open.id, open.told));
        }
        let passes = |id: &str| own().filter(|one| one.id == id && one.verdict == Verdict::Pass).count();
        let missing = self.by.iter().filter(|id| passes(id) == 0);
        let why = |id: &str| own().find(|one| one.id == id).map_or("not judged", |one| &one.told);
        let missing: Vec<String> = missing.map(|id| format!("{id}: {}", why(id))).collect();
        if self.is_conditional && own().any(|one| one.verdict == Verdict::NotApplicable) {
            return (Grade::NotApplicable, missing.join("; "));
        }
        if !missing.is_empty() {
            return (Grade::NotExercised, missing.join("; "));
        }
        let passes = self.by.iter().map(|id| passes(id)).min().unwrap_or(0);
        let runs = if passes == 1 { String::new() } else { format!(" in {passes} runs") };
        let despite = own().filter_map(|one| Some(format!("; {}: {}", one.id, one.passes_despite?)));
        (Grade::Met, format!("{} passed{runs}{}", self.by.join(", "), despite.collect::<String>()))
    }
}

impl Grade {
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotExercised => "not exercised",
            Self::Met => "met",
            Self::Ungraded => "not graded",
            Self::NotApplicable => "not applicable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Must => "must",
            Self::Should => "should",
        })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        })
    }
}

impl Grades {
    #[must_use]
    pub fn summary(&self) -> String {
        let of = |level, grade| {
            self.requirements.iter().filter(|one| one.level == level && one.grade == grade).count()
        };
        let part = |level| {
            let all = self.requirements.iter().filter(|one| one.level == level).count();
            let others = [Grade::Failed, Grade::NotExercised, Grade::Ungraded, Grade::NotApplicable]
                .into_iter()
                .filter(|grade| of(level, *grade) > 0)
                .map(|grade| format!(", {} {}", of(level, grade), grade.words()));
            format!("{} of {all} {level} met{}", of(level, Grade::Met), others.collect::<String>())
        };
        [Level::Must, Level::Should]
            .into_iter()
            .filter(|level| self.requirements.iter().any(|one| one.level == *level))
            .map(part)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_requirement_is_graded_by_its_side_or_says_why_not() {
        for standard in all() {
            let mut ids = BTreeSet::new();
            for one in &standard.requirement {
                let at = format!("{standard} {}", one.id);
                assert!(ids.insert(&one.id), "{at} is there twice");
                assert_eq!(one.by.is_empty(), one.ungraded.is_some(), "{at}");
                assert!(!one.demand.is_empty() && !one.demand.ends_with('.'), "{at}");
                let entries =
                    if one.of == Side::Sender { catalogue::sender() } else { catalogue::receiver() };
                for id in &one.by {
                    assert!(entries.iter().any(|entry| entry.id == *id), "{at}: {id}");
                }
            }
        }
    }

    fn seen(id: &str, verdict: Verdict) -> Seen<'_> {
        let (told, profiles) = ("so".to_owned(), vec!["standard-webhooks"]);
        Seen { id, verdict, told, passes_despite: None, profiles }
    }

    fn grade(requirement: &str, seen: &[Seen<'_>]) -> Grade {
        let standard: &Standard = "standard-webhooks@1.0".parse().unwrap();
        standard.requirement.iter().find(|one| one.id == requirement).unwrap().judged(seen).0
    }

    #[test]
    fn a_requirement_is_met_only_if_each_of_its_checks_passed_and_none_failed() {
        use Verdict::{Fail, Inconclusive, NotApplicable, Pass, Warn};
        let both = |one, other| [seen("format.http", one), seen("format.post-json", other)];
        assert_eq!(grade("S1", &both(Pass, Pass)), Grade::Met);
        assert_eq!(grade("S1", &both(Pass, Fail)), Grade::Failed);
        assert_eq!(grade("S1", &both(Inconclusive, Warn)), Grade::Failed);
        assert_eq!(grade("S1", &both(Pass, NotApplicable)), Grade::NotExercised);
        assert_eq!(grade("S1", &both(Pass, Inconclusive)), Grade::NotExercised);
        assert_eq!(grade("S1", &both(Pass, Pass)[..1]), Grade::NotExercised);
        assert_eq!(grade("S1", &[]), Grade::NotExercised);
        let two_runs = [both(Pass, NotApplicable), both(NotApplicable, Pass)].concat();
        assert_eq!(grade("S1", &two_runs), Grade::Met);
        let one_open = [both(Pass, Inconclusive), both(Pass, Pass)].concat();
        assert_eq!(grade("S1", &one_open), Grade::NotExercised);
        assert_eq!(grade("S8", &[]), Grade::Ungraded);
    }

    #[test]
    fn a_case_that_does_not_concern_a_receiver_is_counted_and_named_and_hinders_no_pass() {
        let standard = default_of(Side::Receiver).unwrap();
        assert!(default_of(Side::Sender).is_none());
        let with = |verdict| {
            let of = |one: &'static Requirement| {
                seen(&one.id, if one.id.starts_with("time.") { verdict } else { Verdict::Pass })
            };
            let all: Vec<_> = standard.requirement.iter().map(of).collect();
            standard.grade(Side::Receiver, &all, Vec::new())
        };
        let apart = with(Verdict::NotApplicable);
        assert_eq!(apart.verdict, Verdict::Pass);
        assert!(
            apart.summary().contains("must met, ") && apart.summary().contains(" not applicable"),
            "{}",
            apart.summary()
        );
        let time = apart.requirements.iter().find(|one| one.id == "time.old").unwrap();
        assert_eq!((time.grade, &*time.told), (Grade::NotApplicable, "time.old: so"));
        assert_eq!(with(Verdict::Inconclusive).verdict, Verdict::Inconclusive);
        assert_eq!(with(Verdict::Fail).verdict, Verdict::Fail);
        assert_eq!(with(Verdict::Warn).verdict, Verdict::Warn);
        assert_eq!(standard.grade(Side::Receiver, &[], Vec::new()).verdict, Verdict::Inconclusive);
    }

    fn graded(standard: &str, change: (&str, Verdict), unsound: &[String]) -> Grades {
        let verdict_of = |id: &str| if id == change.0 { change.1 } else { Verdict::Pass };
        let every: Vec<_> =
            catalogue::sender().iter().map(|entry| seen(&entry.id, verdict_of(&entry.id))).collect();
        standard.parse::<&Standard>().unwrap().grade(Side::Sender, &every, unsound.to_vec())
    }

    #[test]
    fn a_standard_is_kept_only_if_every_must_is_met_and_every_run_is_sound() {
        let verdict = |standard, id, verdict| graded(standard, (id, verdict), &[]).verdict;
        let (five, webhooks) = ("five-failures@1", "standard-webhooks@1.0");
        assert_eq!(verdict(five, "", Verdict::Pass), Verdict::Pass);
        assert_eq!(verdict(five, "rate.in-flight", Verdict::Fail), Verdict::Fail);
        assert_eq!(verdict(five, "rate.in-flight", Verdict::NotApplicable), Verdict::Inconclusive);
        let unsound = ["viral-spike: FAIL".to_owned()];
        assert_eq!(graded(five, ("", Verdict::Pass), &unsound).verdict, Verdict::Inconclusive);
        assert_eq!(graded(five, ("rate.in-flight", Verdict::Fail), &unsound).verdict, Verdict::Fail);
        // Nothing grades one `must`.
        let kept = graded(webhooks, ("", Verdict::Pass), &[]);
        assert_eq!(kept.verdict, Verdict::Warn);
        assert_eq!(kept.summary(), "8 of 9 must met, 1 not graded; 5 of 12 should met, 7 not graded");
        assert_eq!(verdict(webhooks, "retry.gone", Verdict::Warn), Verdict::Warn);
        let five: &Standard = five.parse().unwrap();
        assert_eq!(five.grade(Side::Sender, &[], Vec::new()).verdict, Verdict::Inconclusive);
        assert!(five.concerns(Side::Sender) && !five.concerns(Side::Receiver));
    }

    #[test]
    fn a_run_by_another_profile_exercises_nothing() {
        let standard: &Standard = "standard-webhooks@1.0".parse().unwrap();
        let foreign = Seen { profiles: vec!["github"], ..seen("format.signature", Verdict::Fail) };
        let grades = standard.grade(Side::Sender, &[foreign], Vec::new());
        assert_eq!(grades.verdict, Verdict::Inconclusive);
        let told = "format.signature: so; it signs by github, not standard-webhooks";
        assert_eq!(grades.requirements[3].told, told);
    }

    #[test]
    fn an_unknown_standard_is_refused_with_the_known_ones() {
        let error = <&Standard>::from_str("standard-webhooks").unwrap_err().to_string();
        let known = "standard-webhooks@1.0, cloudevents-webhook@1.0.2, adcp-webhook-emission@3.1, \
                     a2a-push-notifications@1.0.1, five-failures@1";
        assert!(error.contains(known), "{error}");
    }
}
