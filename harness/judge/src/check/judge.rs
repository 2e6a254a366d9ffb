//! Severities and expected failures turn findings into verdicts, and verdicts into one judgement.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Lane};
use super::retry::RequestedPause;
use super::stall::Stalls;
use super::verdict::{Figure, Finding, Found, Severity, Status, Witness, moment, show};
use super::{CHECKS, Check, WallClock, epochs};
use crate::entry::Selection;
use crate::scenario::{FaultKind, Known, SECOND, Scenario};
use crate::trace::{ClockSet, Lack, Trace};

const DAY: u64 = 86_400 * SECOND;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub id: String,
    pub severity: Severity,
    pub status: Status,
    pub sentence: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    pub figures: Vec<Figure>,
    pub witness: Vec<Witness>,
    #[serde(skip)]
    pub(super) by_standard: Option<(Status, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// A `should` check that fails warns.
    #[default]
    Usual,
    /// A `should` check that fails fails the run.
    Strict,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub status: Status,
    pub sentence: String,
    /// In the catalogue's order.
    pub verdicts: Vec<Verdict>,
}

impl Judgement {
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.status == status).count()
    }

    /// The harness's own checks count unless their names are skipped, and so do expected failures of unknown checks.
    #[must_use]
    pub fn of(mut self, selection: &Selection, trace: &Trace) -> Self {
        let known: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
        let own = |id: &str| id.starts_with(OWN) && !selection.skips(id);
        if !known.iter().any(|id| selection.has(id)) {
            let sentence = "no check was selected".to_owned();
            return Self { status: Status::Inconclusive, sentence, verdicts: Vec::new() };
        }
        self.verdicts.retain(|one| {
            let id = one.id.as_str();
            selection.has(id) || own(id) || !known.contains(id)
        });
        (self.status, self.sentence) = conclude(&self.verdicts, trace);
        let saw = |one: &Verdict| !matches!(one.status, Status::Inconclusive | Status::NotApplicable);
        let asked = |one: &Verdict| selection.has(&one.id) || !one.id.starts_with(OWN);
        if !self.verdicts.iter().any(|one| saw(one) && asked(one)) {
            self.status = Status::Inconclusive;
            self.sentence = format!("no check could be judged; {}", self.sentence);
        }
        self
    }
}

/// Judges a trace by a scenario. A truncated trace passes no check, though its failures stand. A trace with
/// dropped lines fails none either.
#[must_use]
pub fn judge(scenario: &Scenario, trace: &Trace, strictness: Strictness) -> Judgement {
    let scenario = &trace.declared.applied(scenario);
    let evidence = Evidence::new(scenario, trace);
    let mut stalls = Stalls::of(&evidence);
    let today = trace.header.began_unix_ns / DAY;
    let mut sound = |check: &Check, finding: Finding| {
        let finding = excused(check, finding, &evidence);
        let mut finding = with_holes(stalls.weigh(check, finding), trace);
        if trace.trailer.is_none() && (finding.found == Found::Held || !check.stands_alone) {
            finding.found = match finding.found {
                Found::Unasked => Found::Unasked,
                _ => Found::Unseen,
            };
            finding.sentence = format!("the trace was cut short; until then: {}", finding.sentence);
        }
        finding
    };
    let weigh = |check: &Check| {
        let mut finding = (check.find)(&evidence);
        let by_standard = finding.by_standard.take().map(|other| sound(check, *other));
        let finding = sound(check, finding);
        let known = scenario.expect.known.get(check.id);
        let known = known.filter(|known| known.until.is_none_or(|until| today < until.0));
        // A truncated or incomplete trace shows nothing about expected failures.
        let is_whole = trace.trailer.is_some() && trace.dropped() == 0;
        let known = known.filter(|_| is_whole || finding.found != Found::Unasked);
        let severity = severity(check, scenario);
        let by_standard = by_standard.map(|other| weigh(check, other, None, severity, strictness));
        let by_standard = by_standard.map(|other| (other.status, other.sentence));
        Verdict { by_standard, ..weigh(check, finding, known, severity, strictness) }
    };
    let mut verdicts: Vec<Verdict> = CHECKS.iter().map(weigh).collect();
    let ids: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    let stray = scenario.expect.known.keys().filter(|id| !ids.contains(id.as_str()));
    verdicts.extend(stray.map(|id| unknown(id)));
    let (status, sentence) = conclude(&verdicts, trace);
    Judgement { status, sentence, verdicts }
}

/// A finding is void if the trace lacks lines: a missing request, answer or fault may break the check or
/// excuse it.
fn with_holes(finding: Finding, trace: &Trace) -> Finding {
    if trace.dropped() == 0 || !matches!(finding.found, Found::Held | Found::Broken) {
        return finding;
    }
    let sentence = format!("the trace lacks records; the others show: {}", finding.sentence);
    Finding { found: Found::Unseen, sentence, ..finding }
}

fn severity(check: &Check, scenario: &Scenario) -> Severity {
    let is_written = check.figure.is_some_and(|key| scenario.expect.written.contains(key));
    if is_written { Severity::Must } else { check.severity }
}

fn weigh(
    check: &Check,
    finding: Finding,
    known: Option<&Known>,
    severity: Severity,
    strictness: Strictness,
) -> Verdict {
    let Finding { found, sentence, figures, witness, .. } = finding;
    let broken = match severity {
        Severity::Must => Status::Fail,
        Severity::Should if strictness == Strictness::Strict => Status::Fail,
        Severity::Should | Severity::May | Severity::Info => Status::Warn,
    };
    let (status, sentence) = match (found, known) {
        (Found::Broken, Some(known)) => {
            (Status::Pass, format!("failed as expected ({}): {sentence}", known.why))
        }
        (Found::Held | Found::Unasked, Some(known)) => (
            Status::Fail,
            format!(
                "the expected failure ({}) did not happen; delete it from expect.known: {sentence}",
                known.why
            ),
        ),
        (Found::Broken, None) => (broken, sentence),
        (Found::Held, None) => (Status::Pass, sentence),
        (Found::Unseen, _) => (Status::Inconclusive, sentence),
        (Found::Unasked, None) => (Status::NotApplicable, sentence),
    };
    let (id, known) = (check.id.to_owned(), known.map(|known| known.why.clone()));
    Verdict { id, severity, status, sentence, known, figures, witness, by_standard: None }
}

fn unknown(id: &str) -> Verdict {
    let known = crate::scenario::nearest(id, CHECKS.iter().map(|check| check.id));
    let hint = known.map_or(String::new(), |id| format!("; did you mean {id:?}?"));
    Verdict {
        id: id.to_owned(),
        severity: Severity::Must,
        status: Status::Fail,
        sentence: format!("expect.known names an unknown check{hint}"),
        known: None,
        figures: Vec::new(),
        witness: Vec::new(),
        by_standard: None,
    }
}

/// A late generator voids the whole run; a stall of the harness only affects the findings that it touches.
const SCHEDULE: &str = "harness.schedule";

const OWN: &str = "harness.";

/// At most so many thin checks in the headline.
const QUOTED_MAX: usize = 3;

/// A failure decides first, then the verdicts that make the run inconclusive. A `should` check that saw too
/// little decides nothing, but the headline counts it.
pub fn conclude(verdicts: &[Verdict], trace: &Trace) -> (Status, String) {
    let any = |status: Status| verdicts.iter().any(|verdict| verdict.status == status);
    let counted = headline(verdicts);
    if any(Status::Fail) {
        return (Status::Fail, counted);
    }
    if trace.trailer.is_none() {
        return (Status::Inconclusive, format!("the trace was cut short; {counted}"));
    }
    let dropped = trace.dropped();
    if dropped > 0 {
        return (Status::Inconclusive, format!("records missing from the trace: {dropped}; {counted}"));
    }
    let too_thin = verdicts.iter().any(|one| one.status == Status::Inconclusive && decides(one));
    match (too_thin, any(Status::Pass) || any(Status::Warn)) {
        (true, _) => (Status::Inconclusive, counted),
        (false, false) => (
            Status::Inconclusive,
            "no check found anything to judge; add traffic or faults to the scenario".to_owned(),
        ),
        (false, true) => (Status::Pass, counted),
    }
}

pub fn decides(one: &Verdict) -> bool {
    one.severity == Severity::Must || one.id == SCHEDULE
}

/// Counts by status: `1 failed: rate.envelope; 36 passed, 1 inconclusive: retry.backoff-jitter (2 retries)`.
fn headline(verdicts: &[Verdict]) -> String {
    let with = |status: Status| verdicts.iter().filter(move |one| one.status == status).collect::<Vec<_>>();
    let named = |some: &[&Verdict], word: &str| {
        let ids = some.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(", ");
        (!some.is_empty()).then(|| format!("{} {word}: {ids}", some.len()))
    };
    let (excused, passed): (Vec<_>, Vec<_>) =
        with(Status::Pass).into_iter().partition(|one| one.known.is_some());
    let mut unseen = with(Status::Inconclusive);
    unseen.sort_by_key(|one| !decides(one));
    let quoted = unseen.iter().take(QUOTED_MAX).map(|one| format!("{} ({})", one.id, one.sentence));
    let mut quoted = quoted.collect::<Vec<_>>().join(", ");
    if unseen.len() > QUOTED_MAX {
        quoted.push_str(&format!(", and {} more", unseen.len() - QUOTED_MAX));
    }
    let unseen = (!unseen.is_empty()).then(|| format!("{} inconclusive: {quoted}", unseen.len()));
    let passed = (!passed.is_empty()).then(|| format!("{} passed", passed.len()));
    let rest = [
        passed,
        named(&excused, "failed as expected"),
        named(&with(Status::Warn), "warned"),
        named(&with(Status::HarnessError), "could not be judged"),
        unseen,
    ];
    let rest = rest.into_iter().flatten().collect::<Vec<_>>().join(", ");
    match named(&with(Status::Fail), "failed") {
        Some(failed) if rest.is_empty() => failed,
        Some(failed) => format!("{failed}; {rest}"),
        None => rest,
    }
}

// Reasons that weaken a finding. Each check declares which of them concern it.

fn excused(check: &Check, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    let finding = by_wall_clock(check, finding, evidence);
    let finding = by_lack(check, finding, evidence.trace);
    let finding = by_unknown_contract(check, finding, evidence);
    by_missing_fault(check, finding, evidence.trace)
}

/// Begins each such reason, so that reports can tell it from a scenario that arranges nothing.
pub(crate) const DRIVER: &str = "the driver file ";

pub(super) fn lacking(what: Lack) -> Finding {
    Finding::unasked(format!("{DRIVER}{}", reason(what)))
}

/// Not applicable where a check saw nothing because the driver lacks a call, or saw behaviour that nobody promised.
fn by_lack(check: &Check, finding: Finding, trace: &Trace) -> Finding {
    let breaker = check.needs.contains(&Lack::Breaker) && finding.found == Found::Unasked;
    // The order that a sender without ordering keeps is chance.
    let chance = check.needs.contains(&Lack::Order) && finding.found != Found::Unasked;
    if finding.found != Found::Unseen && !breaker && !chance {
        return finding;
    }
    match check.needs.iter().find(|lack| trace.declared.lacks(**lack)) {
        Some(lack) => lacking(*lack),
        None => finding,
    }
}

const fn reason(what: Lack) -> &'static str {
    match what {
        Lack::Start => "has no [start]: the harness has no process to stop, kill or measure",
        Lack::Process => "starts a detached sender: the harness has no process to measure",
        Lack::Database => "names no database that the harness could lock or measure",
        Lack::Depth => "has no [depth]: the harness cannot read the backlog",
        Lack::Kept => "has no [depth.kept]: the harness cannot read the kept deliveries",
        Lack::DeadLetters => "declares no dead letters, or has no [dead]",
        Lack::Breaker => "says that the sender has no breaker",
        Lack::Order => "says that the sender keeps no order",
        Lack::Change => "has no [change]: the harness cannot change a limit",
        Lack::Rotate => "has no [rotate]: the harness cannot rotate a secret",
        Lack::Redrive => "has no [redrive]: the harness cannot redrive a dead letter",
        Lack::Signature => "says that the sender signs nothing",
    }
}

/// The sender follows the machine's wall clock, the harness a monotonic clock.
fn by_wall_clock(check: &Check, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    let Some(set) = first_set(evidence) else { return finding };
    let concerned = match check.wall_clock {
        WallClock::Ignored => false,
        WallClock::Dates => finding.found == Found::Broken && has_dates(evidence),
        WallClock::Always => true,
    };
    if !concerned {
        return finding;
    }
    let last = evidence.trace.arrivals.iter().map(|arrival| arrival.read).max();
    unless_set(finding, set, last)
}

/// The same for a finding that depends on the time of day of everything seen up to `last`.
pub(super) fn unless_clock_set(finding: Finding, evidence: &Evidence<'_>, last: Option<u64>) -> Finding {
    match first_set(evidence) {
        Some(set) => unless_set(finding, set, last),
        None => finding,
    }
}

fn first_set<'e>(evidence: &'e Evidence<'_>) -> Option<&'e ClockSet> {
    evidence.trace.host.clock_sets.iter().min_by_key(|set| set.from)
}

fn has_dates(evidence: &Evidence<'_>) -> bool {
    let mut asked = evidence.trace.answers.iter().filter_map(|answer| answer.retry_after.as_deref());
    asked.any(|text| matches!(RequestedPause::read(text), RequestedPause::Date(_)))
}

fn unless_set(finding: Finding, set: &ClockSet, last: Option<u64>) -> Finding {
    let says_nothing = match finding.found {
        // A failure from before the step stands.
        Found::Broken => finding.witness.iter().all(|one| one.until >= set.from),
        Found::Held => last.is_some_and(|last| last >= set.from),
        Found::Unseen | Found::Unasked => false,
    };
    if !says_nothing {
        return finding;
    }
    let (far, at) = (show(set.ns.unsigned_abs()), moment(set.until));
    let side = if set.ns < 0 { "back" } else { "ahead" };
    let why = format!("the machine's wall clock, which the sender reads, was set {side} by {far} at {at}");
    Finding { found: Found::Unseen, sentence: format!("{}; but {why}", finding.sentence), ..finding }
}

/// A check passes only if the contract of every request is known.
fn by_unknown_contract(check: &Check, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    if check.by_contract
        && finding.found == Found::Held
        && let Some(sentence) = evidence.lanes.iter().find_map(|lane| unheld(evidence, lane))
    {
        return Finding { sentence, found: Found::Unseen, ..finding };
    }
    finding
}

fn unheld(evidence: &Evidence<'_>, lane: &Lane<'_>) -> Option<String> {
    let unknown = epochs::unknown(evidence.scenario, evidence.trace, lane.subscriber);
    let is_inside = |t: u64| unknown.iter().any(|(from, until)| *from < t && t < *until);
    let count = lane.begun.iter().filter(|n| is_inside(evidence.exchange(**n).t)).count();
    let name = &lane.subscriber.name;
    (count > 0).then(|| {
        format!(
            "requests to {name} after a limit change that the sender did not confirm: {count}; \
            their limit is unknown"
        )
    })
}

fn by_missing_fault(check: &Check, mut finding: Finding, trace: &Trace) -> Finding {
    if finding.found == Found::Unseen && check.follows_fault {
        // No check needs the stop at the end of the run.
        let missing = trace.undone.iter().filter(|one| one.plan.is_some() || one.kind != FaultKind::Stop);
        let told = missing.map(|one| format!("; {} was not injected: {}", one.kind, one.why));
        finding.sentence.extend(told.take(1));
    }
    finding
}
