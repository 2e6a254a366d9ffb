//! Compares runs with older runs of the same scenarios.
//!
//! Each side may have several runs of a scenario (`run --times 5 --json FILE`). For a check the worst verdict
//! counts. For a figure the median counts, in its better direction, against a noise band: twice the spread of
//! the older side's runs if there are at least three, otherwise `SLACK`. Another scenario, driver or seed is
//! a regression unless it is allowed by name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::run::Report;
use crate::check::verdict::show;
use crate::check::{Status, Verdict, decides};
use crate::exit;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub compared: Vec<(String, Difference)>,
    pub unknown: Vec<String>,
}

impl Comparison {
    /// The exit code: a regression, or inconclusive if nothing was compared or a check became inconclusive.
    #[must_use]
    pub fn code(&self) -> u8 {
        let any = |what: fn(&Difference) -> &Vec<String>| {
            self.compared.iter().any(|(_, difference)| !what(difference).is_empty())
        };
        if any(|difference| &difference.regressions) {
            exit::REGRESSION
        } else if self.compared.is_empty() || any(|difference| &difference.inconclusive) {
            exit::INCONCLUSIVE
        } else {
            0
        }
    }
}

#[must_use]
pub fn compare_all(base: &[Report], new: &[Report], allowed: &[Allowed]) -> Comparison {
    let mut comparison = Comparison::default();
    for scenario in scenarios(new) {
        if base.iter().any(|report| report.scenario == scenario) {
            let difference = compare(scenario, base, new, allowed);
            comparison.compared.push((scenario.to_owned(), difference));
        } else {
            comparison.unknown.push(scenario.to_owned());
        }
    }
    comparison
}

#[must_use]
pub fn missing(base: &[Report], new: &[Report], allowed: &[Allowed]) -> Difference {
    let mut difference = Difference::default();
    for scenario in scenarios(base) {
        if !new.iter().any(|report| report.scenario == scenario) {
            let what = format!("{scenario}: ran before, but is missing now");
            difference.record_regression(Allowed::MissingScenario, allowed, what);
        }
    }
    difference
}

fn scenarios(reports: &[Report]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for report in reports {
        if !names.contains(&report.scenario.as_str()) {
            names.push(&report.scenario);
        }
    }
    names
}

#[must_use]
pub fn compare(scenario: &str, base: &[Report], new: &[Report], allowed: &[Allowed]) -> Difference {
    let (base, new) = (runs_of(scenario, base), runs_of(scenario, new));
    let mut difference = Difference::default();
    same_thing(&base, &new, allowed, &mut difference);
    verdicts(&base, &new, allowed, &mut difference);
    figures(&base, &new, allowed, &mut difference);
    difference
}

pub(super) fn runs_of<'r>(scenario: &str, reports: &'r [Report]) -> Vec<&'r Report> {
    reports.iter().filter(|report| report.scenario == scenario).collect()
}

type ReportField = fn(&Report) -> String;

fn same_thing(base: &[&Report], new: &[&Report], allowed: &[Allowed], difference: &mut Difference) {
    let set = |reports: &[&Report], what: ReportField| {
        let mut values: Vec<String> =
            reports.iter().map(|report| what(report)).filter(|value| !value.is_empty()).collect();
        values.sort();
        values.dedup();
        values
    };
    let rows: [(&str, Allowed, ReportField); 3] = [
        ("the scenario's SHA-256", Allowed::Scenario, |report| report.course.scenario_sha256.clone()),
        ("the driver", Allowed::Driver, |report| report.driver.clone()),
        ("the seed", Allowed::Seed, |report| report.seed.to_string()),
    ];
    for (name, kind, what) in rows {
        let (before, now) = (set(base, what), set(new, what));
        if before != now && !before.is_empty() && !now.is_empty() {
            let what = format!("{name}: was {}, is {}", before.join(", "), now.join(", "));
            difference.record_regression(kind, allowed, what);
        }
    }
}

/// The worst verdict of a check. Not applicable is worse than a pass: a check that a newer run skips is a
/// difference.
fn worst<'a>(reports: &[&'a Report], id: &str) -> Option<&'a Verdict> {
    let found =
        reports.iter().filter_map(|one| one.judgement.verdicts.iter().find(|verdict| verdict.id == id));
    found.max_by_key(|verdict| rank(verdict.status))
}

fn ids<'a>(reports: &[&'a Report]) -> Vec<&'a str> {
    let mut ids: Vec<&str> = Vec::new();
    for verdict in reports.iter().flat_map(|report| &report.judgement.verdicts) {
        if !ids.contains(&verdict.id.as_str()) {
            ids.push(&verdict.id);
        }
    }
    ids
}

fn verdicts(base: &[&Report], new: &[&Report], allowed: &[Allowed], difference: &mut Difference) {
    for id in ids(base) {
        let Some(old) = worst(base, id) else { continue };
        let Some(now) = worst(new, id) else {
            let what = format!("{id}: was {}, but is missing now", old.status);
            difference.record_regression(Allowed::MissingCheck, allowed, what);
            continue;
        };
        let became = format!("{id}: was {}, is {}", old.status, now.status);
        match (old.status, now.status) {
            (before, after) if before == after => {}
            (_, Status::Inconclusive) if decides(now) => {
                difference.inconclusive.push(format!("{became}: {}", now.sentence));
            }
            (_, Status::Inconclusive) => {}
            (_, Status::NotApplicable) => {
                difference.record_regression(Allowed::NotApplicable, allowed, became);
            }
            (before, after) if rank(after) > rank(before) => {
                difference.regressions.push(format!("{became}: {}", now.sentence));
            }
            _ => difference.improvements.push(became),
        }
    }
    let before = ids(base);
    for id in ids(new).into_iter().filter(|id| !before.contains(id)) {
        if let Some(now) = worst(new, id).filter(|now| rank(now.status) >= rank(Status::Fail)) {
            difference.regressions.push(format!("{id}: was not judged, is {}: {}", now.status, now.sentence));
        }
    }
}

const fn rank(status: Status) -> u8 {
    match status {
        Status::Pass => 0,
        Status::NotApplicable => 1,
        Status::Warn => 2,
        Status::Inconclusive => 3,
        Status::Fail => 4,
        Status::HarnessError => 5,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    MissingScenario,
    MissingCheck,
    NotApplicable,
    Scenario,
    Driver,
    Seed,
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
    /// Checks that decide and saw too little now: neither better nor worse.
    pub inconclusive: Vec<String>,
    pub allowed: Vec<String>,
}

impl Difference {
    pub(super) fn record_regression(&mut self, kind: Allowed, allowed: &[Allowed], what: String) {
        if allowed.contains(&kind) {
            self.allowed.push(what);
        } else {
            self.regressions.push(format!("{what} (permit it with --allow {kind})"));
        }
    }
}

const RUNS_MIN: usize = 3;
/// With fewer runs, the assumed noise in hundredths: ratios and counts by a tenth, times twofold.
const SLACK: [(Unit, u64); 3] = [(Unit::Thousandths, 10), (Unit::Count, 10), (Unit::Nanos, 100)];
const NANOS_SAME: u64 = 5_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Nanos,
    Thousandths,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
}

struct Figure {
    name: String,
    value: u64,
    unit: Unit,
    better: Better,
}

fn figures_of(report: &Report) -> Vec<Figure> {
    let figure = |name: String, value: u64, unit: Unit, better: Better| Figure { name, value, unit, better };
    let mut figures = Vec::new();
    let efficiency = report.speed.efficiency.as_ref().and_then(|number| thousandths(&number.to_string()));
    figures.extend(
        efficiency.map(|value| figure("efficiency".to_owned(), value, Unit::Thousandths, Better::Higher)),
    );
    for one in &report.subscribers {
        for (what, value) in ["p50", "p95", "p99", "max"].into_iter().zip(one.latency) {
            figures.push(figure(format!("{} latency {what}", one.name), value, Unit::Nanos, Better::Lower));
        }
        figures.push(figure(format!("{} delivered", one.name), one.delivered, Unit::Count, Better::Higher));
        figures.push(figure(format!("{} dead", one.name), one.dead, Unit::Count, Better::Lower));
    }
    figures
}

/// Parses a decimal into thousandths, rounded down: `0.4816` is 481.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part.parse().ok()?)
}

/// Empty where the older figure is 0.
fn times(was: u64, is: u64) -> String {
    match (u128::from(is) * 100).checked_div(u128::from(was)) {
        Some(hundredths) => format!(" ({}.{:02} times)", hundredths / 100, hundredths % 100),
        None => String::new(),
    }
}

pub(super) struct Compared {
    pub(super) name: String,
    pub(super) was: String,
    pub(super) is: String,
    pub(super) least: String,
    pub(super) most: String,
    pub(super) better: Option<bool>,
    times: String,
}

pub(super) fn compared(base: &[&Report], new: &[&Report]) -> Vec<Compared> {
    let [before, now] = [base, new].map(|side| side.iter().map(|run| figures_of(run)).collect::<Vec<_>>());
    let (old, recent) = (by_name(&before), by_name(&now));
    let row = |figure: &Figure| {
        let Figure { name, unit, better, .. } = figure;
        let (old, recent) = (old.get(name.as_str())?, recent.get(name.as_str())?);
        let (was, is) = median(old, *better).zip(median(recent, *better))?;
        let (least, most) = band(old, *unit);
        let better = match (is < least, is > most) {
            (false, false) => None,
            (lower, _) => Some(lower == (*better == Better::Lower)),
        };
        let times = times(was, is);
        let [was, is, least, most] = [was, is, least, most].map(|value| with_unit(value, *unit));
        Some(Compared { name: name.clone(), was, is, least, most, better, times })
    };
    before.first().into_iter().flatten().filter_map(row).collect()
}

fn by_name(runs: &[Vec<Figure>]) -> BTreeMap<&str, Vec<u64>> {
    let mut values: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for figure in runs.iter().flatten() {
        values.entry(&figure.name).or_default().push(figure.value);
    }
    values.values_mut().for_each(|values| values.sort_unstable());
    values
}

pub(super) fn figures(base: &[&Report], new: &[&Report], allowed: &[Allowed], difference: &mut Difference) {
    for Compared { name, was, is, least, most, better, times } in compared(base, new) {
        let what = format!("{name}: was {was}, is {is}{times}; {least} to {most} is noise");
        match better {
            None => {}
            Some(true) => difference.improvements.push(what),
            Some(false) => difference.record_regression(Allowed::Figure, allowed, what),
        }
    }
}

/// The median; of two middle values the worse one, so that a good run hides no bad one. For the older side it
/// is only shown: the decision compares with the band.
fn median(sorted: &[u64], better: Better) -> Option<u64> {
    let middle = match better {
        Better::Lower => sorted.len() / 2,
        Better::Higher => sorted.len().saturating_sub(1) / 2,
    };
    sorted.get(middle).copied()
}

fn band(sorted: &[u64], unit: Unit) -> (u64, u64) {
    let (Some(least), Some(most)) = (sorted.first().copied(), sorted.last().copied()) else {
        return (0, u64::MAX);
    };
    let (least, most) = if sorted.len() >= RUNS_MIN {
        let room = (most - least).saturating_mul(2);
        (least.saturating_sub(room), most.saturating_add(room))
    } else {
        let slack = SLACK.iter().find(|(of, _)| *of == unit).map_or(0, |(_, hundredths)| *hundredths);
        let scaled = |value: u64, by: u64, of: u64| {
            u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
        };
        (scaled(least, 100, 100 + slack), scaled(most, 100 + slack, 100))
    };
    if unit != Unit::Nanos {
        return (least, most);
    }
    let (shortest, longest) = (sorted[0], sorted[sorted.len() - 1]);
    (least.min(shortest.saturating_sub(NANOS_SAME)), most.max(longest.saturating_add(NANOS_SAME)))
}

fn with_unit(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Nanos => show(value),
        Unit::Thousandths => format!("{}.{:03}", value / 1_000, value % 1_000),
        Unit::Count => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SubscriberReport;

    type Change = fn(&mut Report);

    fn run(status: &str, efficiency: &str, p99_ms: u64) -> Report {
        let ns = p99_ms * 1_000_000;
        let text = format!(
            r#"{{"format":1,"version":"0","scenario":"viral","about":"","scenario_sha256":"a","seed":7,"driver":"ours",
            "repeat":"","ended":"done","machine":null,
            "judgement":{{"status":"pass","sentence":"","verdicts":[{{"id":"rate.envelope","severity":"must",
              "status":"{status}","sentence":"seen","figures":[],"witness":[]}}]}},
            "efficiency":{efficiency},"ceiling_per_second":null,"delivered_per_second":null,
            "generator":{{"events":1,"p50":0,"p99":0,"max":0}},
            "subscribers":[{{"name":"one","contract":"","allowed":null,"bound":null,"arrivals":100,"delivered":100,
              "dead":0,"latency":[1000000,2000000,{ns},{ns}],"arriving":[],"taken":[],"held":[],"failed":[]}}],
            "waiting":[]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[track_caller]
    fn check(base: &[Report], new: &[Report], allowed: &[Allowed], worse: &[&str]) {
        let found = compare("viral", base, new, allowed).regressions;
        let fits =
            found.len() == worse.len() && found.iter().zip(worse).all(|(one, start)| one.starts_with(start));
        assert!(fits, "expected {worse:?}, got {found:#?}");
    }

    #[test]
    fn the_same_run_is_no_worse_than_itself() {
        check(&[run("pass", "0.4", 100)], &[run("pass", "0.4", 100)], &[], &[]);
    }

    #[test]
    fn a_latency_a_thousand_times_as_long_is_worse_and_a_shorter_one_better() {
        let (base, new) = ([run("pass", "0.4", 100)], [run("pass", "0.4", 100_000)]);
        check(&base, &new, &[], &["one latency p99: was 100 ms, is 100 s", "one latency max"]);
        check(&base, &new, &[Allowed::Figure], &[]);
        check(&new, &base, &[], &[]);
        assert_eq!(compare("viral", &new, &base, &[]).improvements.len(), 2);
    }

    #[test]
    fn repeated_runs_say_how_much_a_figure_varies() {
        let steady: Vec<_> = [100, 101, 103].map(|ms| run("pass", "0.4", ms)).into();
        let wild: Vec<_> = [100, 160, 300].map(|ms| run("pass", "0.4", ms)).into();
        let new = [run("pass", "0.4", 150)];
        check(&steady, &new, &[], &["one latency p99: was 101 ms, is 150 ms", "one latency max"]);
        check(&wild, &new, &[], &[]);
        check(&steady[..2], &new, &[], &[]);
        let median: Vec<_> = [101, 150, 100].map(|ms| run("pass", "0.4", ms)).into();
        check(&steady, &median, &[], &[]);
    }

    #[test]
    fn of_two_runs_the_worse_one_counts() {
        let base = [run("pass", "0.4", 100)];
        let slow = [100, 100_000].map(|ms| run("pass", "0.4", ms));
        let worse = ["one latency p99: was 100 ms, is 100 s", "one latency max: was 100 ms, is 100 s"];
        check(&base, &slow, &[], &worse);
        let idle = ["0.4", "0.2"].map(|efficiency| run("pass", efficiency, 100));
        check(&base, &idle, &[], &["efficiency: was 0.400, is 0.200"]);
        check(&slow, &slow, &[], &[]);
    }

    #[test]
    fn twenty_thousand_subscribers_are_compared() {
        let mut report = run("pass", "0.4", 100);
        let one = report.subscribers[0].clone();
        let named = |at: u32| SubscriberReport { name: format!("one-{at}"), ..one.clone() };
        report.subscribers = (0..20_000).map(named).collect();
        let reports = [report];
        check(&reports, &reports, &[], &[]);
    }

    #[test]
    fn efficiency_is_worse_when_it_is_lower() {
        let base = [run("pass", "0.481", 100)];
        check(&base, &[run("pass", "0.44", 100)], &[], &[]);
        check(&base, &[run("pass", "0.4", 100)], &[], &["efficiency: was 0.481, is 0.400"]);
        check(&base, &[run("pass", "0.9", 100)], &[], &[]);
    }

    #[test]
    fn a_pass_that_no_longer_concerns_the_run_is_worse_unless_allowed() {
        let (base, new) = ([run("pass", "0.4", 100)], [run("not-applicable", "0.4", 100)]);
        check(&base, &new, &[], &["rate.envelope: was PASS, is NOT APPLICABLE"]);
        check(&base, &new, &[Allowed::NotApplicable], &[]);
        check(&new, &base, &[], &[]);
        check(
            &base,
            &[run("fail", "0.4", 100)],
            &[Allowed::NotApplicable],
            &["rate.envelope: was PASS, is FAIL"],
        );
    }

    #[test]
    fn a_check_that_became_inconclusive_is_neither_worse_nor_better() {
        let unsure = [run("inconclusive", "0.4", 100)];
        for before in ["pass", "fail"] {
            let comparison = compare_all(&[run(before, "0.4", 100)], &unsure, &[]);
            let (_, difference) = &comparison.compared[0];
            assert!(
                difference.regressions.is_empty() && difference.improvements.is_empty(),
                "{difference:?}"
            );
            let expected = format!("rate.envelope: was {}, is INCONCLUSIVE", before.to_uppercase());
            assert!(difference.inconclusive[0].starts_with(&expected), "{difference:?}");
            assert_eq!(comparison.code(), exit::INCONCLUSIVE);
        }
        check(&unsure, &[run("fail", "0.4", 100)], &[], &["rate.envelope: was INCONCLUSIVE, is FAIL"]);
    }

    #[test]
    fn the_order_of_runs_changes_nothing() {
        let runs = |statuses: [&str; 2]| statuses.map(|status| run(status, "0.4", 100));
        let (one, other) = (runs(["pass", "not-applicable"]), runs(["not-applicable", "pass"]));
        let passed = [run("pass", "0.4", 100)];
        for some in [&one, &other] {
            check(&passed, some, &[], &["rate.envelope: was PASS, is NOT APPLICABLE"]);
            check(some, &passed, &[], &[]);
            check(some, &one, &[], &[]);
            check(some, &[run("warn", "0.4", 100)], &[], &["rate.envelope: was NOT APPLICABLE, is WARN"]);
        }
    }

    #[test]
    fn a_check_that_is_missing_is_worse_unless_allowed_and_a_new_one_that_fails_is_too() {
        let (base, mut new) = ([run("fail", "0.4", 100)], run("pass", "0.4", 100));
        new.judgement.verdicts.clear();
        check(&base, &[new.clone()], &[], &["rate.envelope: was FAIL, but is missing now"]);
        check(&base, &[new.clone()], &[Allowed::MissingCheck], &[]);
        check(&[new], &base, &[], &["rate.envelope: was not judged, is FAIL"]);
    }

    #[test]
    fn another_scenario_driver_or_seed_is_worse_unless_allowed() {
        let base = [run("pass", "0.4", 100)];
        let other = |change: fn(&mut Report)| {
            let mut report = run("pass", "0.4", 100);
            change(&mut report);
            [report]
        };
        let rows: [(Change, Allowed, &str); 3] = [
            (
                |report| report.course.scenario_sha256 = "b".to_owned(),
                Allowed::Scenario,
                "the scenario's SHA-256: was a, is b",
            ),
            (
                |report| report.driver = "theirs".to_owned(),
                Allowed::Driver,
                "the driver: was ours, is theirs",
            ),
            (|report| report.seed = 8, Allowed::Seed, "the seed: was 7, is 8"),
        ];
        for (change, kind, said) in rows {
            check(&base, &other(change), &[], &[said]);
            check(&base, &other(change), &[kind], &[]);
        }
        check(&base, &other(|report| report.course.scenario_sha256.clear()), &[], &[]);
    }

    #[test]
    fn nothing_compared_is_no_pass() {
        let base = [run("pass", "0.4", 100)];
        let mut other = run("pass", "0.4", 100);
        other.scenario = "other".to_owned();
        let rows = [
            (vec![base[0].clone()], 0),
            (vec![other.clone()], exit::INCONCLUSIVE),
            (vec![base[0].clone(), other], 0),
            (vec![run("fail", "0.4", 100)], exit::REGRESSION),
        ];
        for (new, code) in rows {
            let comparison = compare_all(&base, &new, &[]);
            assert_eq!(comparison.code(), code, "{comparison:?}");
        }
    }

    #[test]
    fn a_scenario_that_is_missing_is_worse_unless_allowed() {
        let base = [run("pass", "0.4", 100)];
        assert_eq!(missing(&base, &[], &[]).regressions.len(), 1);
        assert!(missing(&base, &[], &[Allowed::MissingScenario]).regressions.is_empty());
        assert!(missing(&[], &base, &[]).regressions.is_empty());
    }
}
