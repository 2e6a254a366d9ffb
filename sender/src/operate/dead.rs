//! Common causes of dead letters.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::json_forms::moment;
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::store::command::Reason;
use crate::store::read::DeadGroup;

/// So many in one hour for one endpoint are an outage.
const CLUSTER_ROWS: u64 = 50;
/// So many with one kind of status are a pattern.
const STATUS_ROWS: u64 = 5;
/// Covers patterns that take days to show.
pub(crate) const LOOK_BACK_DAYS: u64 = 7;
/// A few on each of so many days mean an endpoint that mostly works.
const ACCUMULATION_DAYS: usize = 3;
/// Failures over this many hours are more than one outage.
const TRICKLE_HOURS: usize = 6;
pub(crate) const GROUPS_MAX: u32 = 10_000;
/// More on one day are no slow accumulation.
const ACCUMULATION_ROWS_A_DAY: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    Cluster,
    RotatedCredentials,
    OverTheLimit,
    SlowAccumulation,
    QueueFull,
    Shed,
    TooOld,
}

impl Pattern {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::RotatedCredentials => "rotated-credentials",
            Self::OverTheLimit => "over-the-limit",
            Self::SlowAccumulation => "slow-accumulation",
            Self::QueueFull => "queue-full",
            Self::Shed => "shed",
            Self::TooOld => "too-old",
        }
    }

    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Cluster => "many in one hour: the endpoint was down for longer than the retries last",
            Self::RotatedCredentials => {
                "answers 401 or 403: the endpoint no longer accepts the signature or the URL"
            }
            Self::OverTheLimit => "answers 429: the endpoint allows a lower rate than it gets",
            Self::SlowAccumulation => {
                "a few a day: the endpoint works mostly; now and then all attempts of a delivery fail"
            }
            Self::QueueFull => "shed from a full queue: events come faster than the contract allows",
            Self::Shed => "given up by an operator",
            Self::TooOld => "expired before delivery: the backlog takes longer than their time to live",
        }
    }

    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Cluster => {
                "redrive them once the endpoint is back; raise retry.attempts or retry.cap to survive longer \
                 outages"
            }
            Self::RotatedCredentials => {
                "ask the endpoint's operator for the valid secret and URL, change them, then redrive"
            }
            Self::OverTheLimit => {
                "lower limit.rate to the endpoint's limit, or ask its operator to raise it; then redrive"
            }
            Self::SlowAccumulation => {
                "raise retry.attempts, or check in the attempts whether the timeout is too short"
            }
            Self::QueueFull => "raise limit.rate or queue.rows, or coalesce events of one key",
            Self::Shed => "redrive those that are wanted after all",
            Self::TooOld => "raise limit.rate, or retry.ttl if late deliveries are useful",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) pattern: Pattern,
    pub(crate) rows: u64,
    pub(crate) first: StoreTime,
    pub(crate) last: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: Reason,
    pub(crate) status: Option<u16>,
    pub(crate) error: Option<Box<str>>,
    pub(crate) rows: u64,
    pub(crate) attempts: u64,
    pub(crate) hours: usize,
    pub(crate) first: StoreTime,
    pub(crate) last: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) rows: u64,
    pub(crate) attempts: u64,
    pub(crate) first: StoreTime,
    pub(crate) last: StoreTime,
    pub(crate) main_status: Option<u16>,
    pub(crate) main_error: Option<Box<str>>,
    pub(crate) findings: Vec<Finding>,
    /// The commonest first.
    pub(crate) causes: Vec<Cause>,
}

/// Each subscriber separately, the most dead letters first.
pub(crate) fn analyse(groups: &[DeadGroup]) -> Vec<(LaneId, Findings)> {
    let mut lanes: BTreeMap<LaneId, Vec<&DeadGroup>> = BTreeMap::new();
    for group in groups {
        lanes.entry(group.lane).or_default().push(group);
    }
    let found = lanes.into_iter().filter_map(|(lane, groups)| Some((lane, findings(&groups)?)));
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(lane, findings)| (std::cmp::Reverse(findings.rows), *lane));
    found
}

fn findings(groups: &[&DeadGroup]) -> Option<Findings> {
    let all = sum(groups.iter().copied())?;
    let with = |pattern, wanted: &dyn Fn(&DeadGroup) -> bool, rows_min| {
        let found = sum(groups.iter().copied().filter(|group| wanted(group)))?;
        (found.rows >= rows_min).then_some(Finding { pattern, ..found })
    };
    let mut findings: Vec<_> = clusters(groups);
    findings.extend(with(
        Pattern::RotatedCredentials,
        &|group| matches!(group.status, Some(401 | 403)),
        STATUS_ROWS,
    ));
    findings.extend(with(Pattern::OverTheLimit, &|group| group.status == Some(429), STATUS_ROWS));
    findings.extend(slow_accumulation(groups));
    findings.extend(with(Pattern::QueueFull, &|group| group.reason == Reason::Overflow, 1));
    findings.extend(with(Pattern::Shed, &|group| group.reason == Reason::Shed, 1));
    findings.extend(with(Pattern::TooOld, &|group| group.reason == Reason::Expired, 1));
    Some(Findings {
        rows: all.rows,
        attempts: groups.iter().map(|group| group.attempts).sum(),
        first: all.first,
        last: all.last,
        main_status: most(groups, |group| group.status),
        main_error: most(groups, |group| group.error.clone()),
        findings,
        causes: causes(groups),
    })
}

type Likeness<'a> = (Reason, Option<u16>, Option<&'a str>);

fn causes(groups: &[&DeadGroup]) -> Vec<Cause> {
    let mut alike: BTreeMap<Likeness<'_>, Vec<&DeadGroup>> = BTreeMap::new();
    for group in groups {
        alike.entry((group.reason, group.status, group.error.as_deref())).or_default().push(group);
    }
    let mut causes: Vec<_> = alike
        .into_iter()
        .filter_map(|((reason, status, error), groups)| {
            let all = sum(groups.iter().copied())?;
            Some(Cause {
                reason,
                status,
                error: error.map(Box::from),
                rows: all.rows,
                attempts: groups.iter().map(|group| group.attempts).sum(),
                hours: groups.iter().map(|group| group.hour).collect::<BTreeSet<_>>().len(),
                first: all.first,
                last: all.last,
            })
        })
        .collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.rows));
    causes
}

impl Cause {
    pub(crate) const fn points_to(&self) -> &'static str {
        match (self.reason, self.status) {
            (Reason::Gone, _) => "removed, or the endpoint answered 410",
            (Reason::Unreadable, _) => "the database lost a part of the delivery: see `doctor`",
            (Reason::Overflow, _) => "the queue was full: raise limit.rate or the queue",
            (Reason::Shed, _) => "an operator gave the deliveries up",
            (_, Some(401 | 403)) => "rotated or wrong credentials",
            (_, Some(404 | 405)) => "a wrong URL",
            (_, Some(413)) => "bodies larger than the endpoint accepts",
            (_, Some(429)) => "the endpoint's own limit is lower: lower limit.rate",
            (_, Some(400..=499)) => "the endpoint refuses these events",
            (_, Some(300..=399)) => "a redirect: set the URL to its target",
            (_, Some(500..=599)) if self.hours >= TRICKLE_HOURS => {
                "an endpoint that failed now and then, for hours"
            }
            (_, Some(500..=599)) => "an outage of the endpoint",
            (Reason::Expired, None) => "backlog older than its time to live: raise limit.rate",
            (Reason::Exhausted | Reason::Expired, _) => "unreachable: DNS, network, TLS or a timeout",
        }
    }
}

impl Findings {
    pub(crate) fn to_json(&self, subscriber: Option<&str>) -> Value {
        let findings: Vec<_> = self
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "pattern": finding.pattern.name(),
                    "dead": finding.rows,
                    "from": moment(finding.first),
                    "until": moment(finding.last),
                    "meaning": finding.pattern.meaning(),
                    "advice": finding.pattern.advice(),
                })
            })
            .collect();
        let causes: Vec<_> = self
            .causes
            .iter()
            .map(|cause| {
                json!({
                    "reason": cause.reason.name(),
                    "status": cause.status,
                    "error": cause.error.as_deref(),
                    "dead": cause.rows,
                    "attempts": cause.attempts,
                    "hours": cause.hours,
                    "first": moment(cause.first),
                    "last": moment(cause.last),
                    "points_to": cause.points_to(),
                })
            })
            .collect();
        json!({
            "subscriber": subscriber,
            "dead": self.rows,
            "attempts": self.attempts,
            "first": moment(self.first),
            "last": moment(self.last),
            "main_status": self.main_status,
            "main_error": self.main_error.as_deref(),
            "findings": findings,
            "causes": causes,
        })
    }
}

/// Shed and expired deliveries say nothing about the endpoint.
fn clusters(groups: &[&DeadGroup]) -> Vec<Finding> {
    let hours = by(groups, |group| group.hour.0);
    let crowded = hours.values().filter_map(|groups| {
        let found = sum(groups.iter().copied())?;
        (found.rows >= CLUSTER_ROWS).then_some(Finding { pattern: Pattern::Cluster, ..found })
    });
    crowded.collect()
}

fn slow_accumulation(groups: &[&DeadGroup]) -> Option<Finding> {
    let days = by(groups, |group| group.hour.0 / Nanos::DAY.0);
    let found = sum(days.values().flatten().copied())?;
    let few = days.values().all(|groups| rows(groups) <= ACCUMULATION_ROWS_A_DAY);
    (few && days.len() >= ACCUMULATION_DAYS)
        .then_some(Finding { pattern: Pattern::SlowAccumulation, ..found })
}

fn by<'a>(groups: &[&'a DeadGroup], span: impl Fn(&DeadGroup) -> u64) -> BTreeMap<u64, Vec<&'a DeadGroup>> {
    let mut spans: BTreeMap<u64, Vec<&DeadGroup>> = BTreeMap::new();
    for group in groups.iter().filter(|group| group.reason == Reason::Exhausted) {
        spans.entry(span(group)).or_default().push(group);
    }
    spans
}

fn rows(groups: &[&DeadGroup]) -> u64 {
    groups.iter().map(|group| group.rows).sum()
}

fn sum<'a>(groups: impl Iterator<Item = &'a DeadGroup>) -> Option<Finding> {
    let each = groups.map(|group| Finding {
        pattern: Pattern::Cluster,
        rows: group.rows,
        first: group.first,
        last: group.last,
    });
    each.reduce(|a, b| Finding {
        rows: a.rows + b.rows,
        first: a.first.min(b.first),
        last: a.last.max(b.last),
        ..a
    })
}

fn most<T: Ord + Clone>(groups: &[&DeadGroup], what: impl Fn(&DeadGroup) -> Option<T>) -> Option<T> {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    for group in groups {
        if let Some(found) = what(group) {
            *counts.entry(found).or_default() += group.rows;
        }
    }
    counts.into_iter().max_by_key(|(_, rows)| *rows).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(reason: Reason, status: Option<u16>, hour: u64, rows: u64) -> DeadGroup {
        let at = |secs| StoreTime::from_secs(hour * 3_600 + secs);
        let (hour, first, last) = (at(0), at(1), at(3_599));
        DeadGroup {
            lane: LaneId(1),
            reason,
            status,
            error: None,
            hour,
            rows,
            attempts: rows * 12,
            first,
            last,
        }
    }

    #[track_caller]
    fn check(groups: &[DeadGroup], expected: &[(Pattern, u64)]) {
        let found = analyse(groups);
        let all = found.iter().flat_map(|(_, found)| &found.findings);
        let all: Vec<_> = all.map(|finding| (finding.pattern, finding.rows)).collect();
        assert_eq!(all, expected);
    }

    use Reason::{Exhausted, Expired, Overflow, Shed};

    #[test]
    fn fifty_in_one_hour_are_a_cluster_however_they_failed() {
        check(
            &[group(Exhausted, None, 5, 30), group(Exhausted, Some(503), 5, 20)],
            &[(Pattern::Cluster, 50)],
        );
        check(&[group(Exhausted, None, 5, 30), group(Exhausted, Some(503), 6, 20)], &[]);
        check(&[group(Exhausted, None, 5, 49)], &[]);
    }

    #[test]
    fn untried_dead_letters_form_no_cluster() {
        check(&[group(Overflow, None, 5, 500)], &[(Pattern::QueueFull, 500)]);
        check(&[group(Shed, None, 5, 500)], &[(Pattern::Shed, 500)]);
        check(&[group(Expired, None, 5, 500)], &[(Pattern::TooOld, 500)]);
    }

    #[test]
    fn refused_credentials_and_429_are_told_apart() {
        check(
            &[
                group(Exhausted, Some(401), 1, 3),
                group(Exhausted, Some(403), 2, 2),
                group(Exhausted, Some(429), 1, 5),
            ],
            &[(Pattern::RotatedCredentials, 5), (Pattern::OverTheLimit, 5)],
        );
        check(&[group(Exhausted, Some(401), 1, 4), group(Exhausted, Some(429), 1, 4)], &[]);
    }

    #[test]
    fn a_few_on_each_of_three_days_are_a_slow_accumulation() {
        let day = |day: u64, rows| group(Exhausted, Some(500), day * 24, rows);
        check(&[day(1, 2), day(2, 3), day(4, 2)], &[(Pattern::SlowAccumulation, 7)]);
        check(&[day(1, 2), day(2, 3)], &[]);
        check(&[day(1, 2), day(2, 3), day(4, 11)], &[]);
    }

    #[test]
    fn each_subscriber_is_judged_apart_and_the_worst_comes_first() {
        let other = DeadGroup { lane: LaneId(2), ..group(Exhausted, Some(500), 5, 40) };
        let found = analyse(&[group(Exhausted, Some(500), 5, 30), other]);
        let lanes: Vec<_> =
            found.iter().map(|(lane, found)| (lane.0, found.rows, found.main_status)).collect();
        assert_eq!(lanes, [(2, 40, Some(500)), (1, 30, Some(500))]);
        assert!(found.iter().all(|(_, found)| found.findings.is_empty()));
    }

    #[test]
    fn hours_of_one_cause_make_one() {
        let groups = [
            group(Exhausted, Some(503), 5, 3),
            group(Expired, None, 5, 6),
            group(Exhausted, Some(503), 7, 4),
        ];
        let found = analyse(&groups).remove(0).1.causes;
        let figures: Vec<_> = found.iter().map(|it| (it.reason, it.rows, it.attempts, it.hours)).collect();
        assert_eq!(figures, [(Exhausted, 7, 84, 2), (Expired, 6, 72, 1)]);
        let span = (StoreTime::from_secs(18_001), StoreTime::from_secs(28_799));
        assert_eq!((found[0].first, found[0].last), span);
        assert_eq!(found[0].points_to(), "an outage of the endpoint");
    }

    #[test]
    fn nothing_dead_is_nothing_to_say() {
        assert_eq!(analyse(&[]), []);
    }
}
