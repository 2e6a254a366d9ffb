//! What dead letters have in common, and what to do about it. Pure: groups in, findings out.

use std::collections::BTreeMap;

use crate::engine::{LaneId, Nanos, WallTime};
use crate::store::command::Reason;
use crate::store::read::DeadGroup;

/// So many in one hour for one endpoint are an outage.
const CLUSTER_ROWS: u64 = 50;
/// So many with one kind of status are a pattern, not an accident.
const STATUS_ROWS: u64 = 5;
/// A few a day, on so many days, are an endpoint that mostly works.
const ACCUMULATION_DAYS: usize = 3;
/// More than that on one day is no slow accumulation.
const ACCUMULATION_ROWS_A_DAY: u64 = 10;

/// A pattern among the dead letters of one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    Cluster,
    RotatedCredentials,
    OverTheLimit,
    SlowAccumulation,
    QueueFull,
    TooOld,
}

impl Pattern {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::RotatedCredentials => "rotated-credentials",
            Self::OverTheLimit => "over-the-limit",
            Self::SlowAccumulation => "slow-accumulation",
            Self::QueueFull => "queue-full",
            Self::TooOld => "too-old",
        }
    }

    pub(super) const fn meaning(self) -> &'static str {
        match self {
            Self::Cluster => "many in one hour: the endpoint was down for longer than its retries last",
            Self::RotatedCredentials => {
                "answers 401 or 403: the endpoint no longer accepts the signature or the URL"
            }
            Self::OverTheLimit => "answers 429: the endpoint allows less than it is sent",
            Self::SlowAccumulation => {
                "a few a day: the endpoint mostly works, and now and then fails until the end"
            }
            Self::QueueFull => {
                "dropped from a full queue: events come faster than the contract lets them out"
            }
            Self::TooOld => "expired before they were delivered: the backlog outlives its deliveries",
        }
    }

    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::Cluster => {
                "redrive them once the endpoint is back; more attempts or a longer retry.cap outlast more"
            }
            Self::RotatedCredentials => {
                "ask the partner which secret and URL hold, change them, then redrive"
            }
            Self::OverTheLimit => {
                "lower limit.rate to what the partner allows, or have it raised; then redrive"
            }
            Self::SlowAccumulation => {
                "raise retry.attempts, or see in the attempts whether the timeout is too short"
            }
            Self::QueueFull => "raise limit.rate or queue.rows, or coalesce events of one key",
            Self::TooOld => "raise limit.rate, or retry.ttl if late is better than never",
        }
    }
}

/// One pattern, found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) pattern: Pattern,
    pub(super) rows: u64,
    pub(super) first: WallTime,
    pub(super) last: WallTime,
}

/// All that is to be said about one subscriber's dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) rows: u64,
    pub(super) attempts: u64,
    pub(super) first: WallTime,
    pub(super) last: WallTime,
    pub(super) main_status: Option<u16>,
    pub(super) main_error: Option<Box<str>>,
    pub(super) findings: Vec<Finding>,
}

/// Looks at each subscriber apart; those with the most dead letters first.
pub(super) fn analyse(groups: &[DeadGroup]) -> Vec<(LaneId, Findings)> {
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
    findings.extend(with(Pattern::TooOld, &|group| group.reason == Reason::Expired, 1));
    Some(Findings {
        rows: all.rows,
        attempts: groups.iter().map(|group| group.attempts).sum(),
        first: all.first,
        last: all.last,
        main_status: most(groups, |group| group.status),
        main_error: most(groups, |group| group.error.clone()),
        findings,
    })
}

/// The hours with many that were tried in vain; what was shed or expired says nothing of the endpoint.
fn clusters(groups: &[&DeadGroup]) -> Vec<Finding> {
    let hours = by(groups, |group| group.hour.0);
    let crowded = hours.values().filter_map(|groups| {
        let found = sum(groups.iter().copied())?;
        (found.rows >= CLUSTER_ROWS).then_some(Finding { pattern: Pattern::Cluster, ..found })
    });
    crowded.collect()
}

/// A few on each of several days, never many.
fn slow_accumulation(groups: &[&DeadGroup]) -> Option<Finding> {
    let days = by(groups, |group| group.hour.0 / Nanos::DAY.0);
    let found = sum(days.values().flatten().copied())?;
    let few = days.values().all(|groups| rows(groups) <= ACCUMULATION_ROWS_A_DAY);
    (few && days.len() >= ACCUMULATION_DAYS)
        .then_some(Finding { pattern: Pattern::SlowAccumulation, ..found })
}

/// Those that were tried in vain, by a span of time.
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

/// All of some groups as one finding, of a pattern still to be named. Nothing of none.
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

/// What most of them have.
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
        let at = |secs| WallTime::from_secs(hour * 3_600 + secs);
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

    use Reason::{Exhausted, Expired, Overflow};

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
    fn what_was_never_tried_is_no_cluster() {
        check(&[group(Overflow, None, 5, 500)], &[(Pattern::QueueFull, 500)]);
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
    fn nothing_dead_is_nothing_to_say() {
        assert_eq!(analyse(&[]), []);
    }
}
