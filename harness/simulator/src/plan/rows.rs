//! Like subscribers as one row, so that the ones that differ are seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::slo::{Breach, NEVER};
use super::{LanePlan, Plan};

/// Figures of like subscribers differ from the middle one by at most this part, and always may by these.
const ALIKE: u64 = 4;
const ALIKE_ROWS: u64 = 10;
const ALIKE_NS: u64 = 1_000_000_000;

/// A subscriber, or several of one name in the file with like figures.
pub(super) struct Row<'a> {
    /// The greatest of their figures.
    pub(super) shown: LanePlan,
    /// The worst last.
    pub(super) lanes: Vec<&'a LanePlan>,
}

/// Subscribers that miss an objective come first, then those that differ from most of their name, then the worst.
pub(super) fn rows(plan: &Plan) -> Vec<Row<'_>> {
    ordered(&plan.lanes, plan.missed())
}

fn ordered<'a>(lanes: &'a [LanePlan], breaches: &[Breach]) -> Vec<Row<'a>> {
    let mut groups: BTreeMap<&str, Vec<&LanePlan>> = BTreeMap::new();
    lanes.iter().for_each(|lane| groups.entry(&lane.group).or_default().push(lane));
    let mut rows: Vec<(bool, Row<'_>)> = Vec::new();
    for mut group in groups.into_values() {
        group.sort_by_key(|lane| worst(lane));
        let middle = group[group.len() / 2];
        let (like, others): (Vec<&LanePlan>, Vec<&LanePlan>) =
            group.iter().copied().partition(|lane| is_like(lane, middle));
        rows.extend(others.into_iter().map(|lane| (true, Row { shown: lane.clone(), lanes: vec![lane] })));
        if let Some((first, rest)) = like.split_first() {
            rows.push((false, Row { shown: greatest(first, rest), lanes: like }));
        }
    }
    let missed: BTreeSet<&str> = breaches.iter().map(|breach| breach.subscriber.as_str()).collect();
    let misses = |row: &Row<'_>| row.lanes.iter().any(|lane| missed.contains(lane.name.as_str()));
    rows.sort_by_cached_key(|(differs, row)| Reverse((misses(row), *differs, worst(&row.shown))));
    rows.into_iter().map(|(_, row)| row).collect()
}

pub(super) fn worst(lane: &LanePlan) -> (u64, u64, u64, u64) {
    let [_, p95, _] = lane.latency_ns.map(|latency| latency.unwrap_or(NEVER));
    (lane.shed + lane.expired, lane.drain_ns.unwrap_or(NEVER), p95, lane.peak_rows)
}

fn is_like(lane: &LanePlan, middle: &LanePlan) -> bool {
    let close = |one: u64, other: u64, least: u64| one.abs_diff(other) <= (other / ALIKE).max(least);
    let times = |lane: &LanePlan| {
        [lane.drain_ns, lane.latency_ns[1], lane.latency_ns[2]].map(|length| length.unwrap_or(NEVER))
    };
    let counts = |lane: &LanePlan| [lane.owed, lane.peak_rows];
    let losses = |lane: &LanePlan| [lane.shed > 0, lane.expired > 0, lane.left > 0, lane.dead > 0];
    times(lane).into_iter().zip(times(middle)).all(|(one, other)| close(one, other, ALIKE_NS))
        && counts(lane).into_iter().zip(counts(middle)).all(|(one, other)| close(one, other, ALIKE_ROWS))
        && losses(lane) == losses(middle)
        && lane.bound.is_ok() == middle.bound.is_ok()
}

/// The greatest of each figure; a time that never came is the greatest.
fn greatest(first: &LanePlan, rest: &[&LanePlan]) -> LanePlan {
    let mut all = first.clone();
    let later = |one: Option<u64>, other: Option<u64>| Some(one?.max(other?));
    for lane in rest {
        if lane.peak_rows > all.peak_rows {
            (all.peak_rows, all.peak_at_ns) = (lane.peak_rows, lane.peak_at_ns);
        }
        all.owed = all.owed.max(lane.owed);
        all.peak_bytes = all.peak_bytes.max(lane.peak_bytes);
        all.drain_ns = later(all.drain_ns, lane.drain_ns);
        all.left = all.left.max(lane.left);
        all.shed = all.shed.max(lane.shed);
        all.expired = all.expired.max(lane.expired);
        all.dead = all.dead.max(lane.dead);
        for (place, latency) in all.latency_ns.iter_mut().enumerate() {
            *latency = later(*latency, lane.latency_ns[place]);
        }
        if let (Ok(bound), Ok(other)) = (&mut all.bound, &lane.bound) {
            bound.backlog = bound.backlog.max(other.backlog);
            bound.delay_ns = bound.delay_ns.max(other.delay_ns);
            bound.drain_ns = bound.drain_ns.max(other.drain_ns);
        }
    }
    if !rest.is_empty() {
        all.name = format!("{} × {}", rest.len() + 1, all.group);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str, group: &str, p95_ms: u64) -> LanePlan {
        LanePlan {
            name: name.to_owned(),
            group: group.to_owned(),
            owed: 135,
            peak_rows: 20,
            peak_bytes: 1,
            peak_at_ns: 1,
            drain_ns: Some(0),
            left: 0,
            latency_ns: [Some(0), Some(p95_ms * 1_000_000), Some(p95_ms * 1_000_000)],
            shed: 0,
            expired: 0,
            dead: 0,
            never_recovers: false,
            bound: Err("none"),
        }
    }

    fn names(lanes: &[LanePlan]) -> Vec<String> {
        ordered(lanes, &[]).into_iter().map(|row| row.shown.name).collect()
    }

    #[test]
    fn like_subscribers_are_one_row_with_their_greatest_figures_and_others_come_first() {
        let mut lanes: Vec<LanePlan> =
            (0..292).map(|at| lane(&format!("partner-{at}"), "partner", 60_000 + at)).collect();
        lanes.push(lane("partner-slow", "partner", 200_000));
        lanes.push(LanePlan { shed: 4, ..lane("partner-shed", "partner", 60_000) });
        lanes.push(lane("ingest", "ingest", 90_000));
        assert_eq!(names(&lanes), ["partner-shed", "partner-slow", "ingest", "292 × partner"]);
        let like = &ordered(&lanes, &[])[3];
        assert_eq!(like.shown.latency_ns[1], Some(60_291_000_000));
        assert_eq!((like.lanes.len(), like.lanes[291].name.as_str()), (292, "partner-291"));
    }

    #[test]
    fn a_row_with_a_missed_objective_comes_first() {
        let lanes = [lane("a", "a", 10), lane("b", "b", 20), LanePlan { shed: 4, ..lane("c", "c", 30) }];
        let missed = Breach {
            subscriber: "b".to_owned(),
            group: "b".to_owned(),
            objective: "p95<15ms".to_owned(),
            figure: "20 ms".to_owned(),
            excess: 1_333,
        };
        let rows = ordered(&lanes, &[missed]).into_iter().map(|row| row.shown.name);
        assert_eq!(rows.collect::<Vec<_>>(), ["b", "c", "a"]);
    }

    #[test]
    fn subscribers_of_different_names_are_never_one_row() {
        let lanes = [lane("a", "a", 10), lane("b", "b", 10)];
        assert_eq!(names(&lanes), ["a", "b"]);
    }

    #[test]
    fn one_delivery_that_never_comes_makes_a_difference() {
        let mut late = lane("p-3", "p", 10);
        late.latency_ns[2] = None;
        let lanes = [lane("p-1", "p", 10), lane("p-2", "p", 10), late];
        assert_eq!(names(&lanes), ["p-3", "2 × p"]);
    }
}
