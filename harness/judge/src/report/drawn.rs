//! The chart data of a run's page, bounded: [`STEPS_MAX`] steps of each series, [`LANES_MAX`] lanes, and lines thinned
//! by `chart`.

use serde::{Deserialize, Serialize};

use super::chart::thinned;
use crate::check::evidence::Evidence;
use crate::check::figures::{percentile, timed_latencies};
use crate::check::witness_context::{Closeup, Silence, closeups, silences, waiting};
use crate::check::{Status, Verdict};
use crate::scenario::{Answer, Behaviour, RetryAfter, SECOND};
use crate::trace::{Depth, Process, ProcessEvent};

const STEPS_MAX: u64 = 240;
/// Other lanes have figures only.
pub(super) const LANES_MAX: usize = 12;
const SILENCES_MAX: usize = 12;
const BREAKS_MAX: usize = 24;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Series(pub Vec<u64>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// In nanoseconds.
    pub step: u64,
    /// In each step: events offered, events accepted, requests arrived, requests answered with 2xx.
    pub flow: [Series; 4],
    /// By the intended moment: p50, p95 and maximum of each step that has any, in nanoseconds.
    pub latency: [Vec<(u64, u64)>; 3],
    pub attempts: Series,
    pub waiting: Vec<(u64, u64)>,
    pub told: Vec<(u64, u64)>,
    /// In bytes.
    pub resident: Vec<(u64, u64)>,
    /// Busy processors between samples, in thousandths.
    #[serde(default)]
    pub busy: Vec<(u64, u64)>,
    pub lanes: Vec<LaneDrawn>,
    /// Indices in the report, the worst first.
    pub order: Vec<usize>,
    pub silences: Vec<Silence>,
    pub breaks: Vec<Break>,
    pub closeups: Vec<Closeup>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneDrawn {
    pub subscriber: usize,
    /// Requests in each step that were answered with 2xx, with 429, and otherwise or not.
    pub came: [Series; 3],
    pub waiting: Vec<(u64, u64)>,
    pub behaviours: Vec<(u64, u64, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    pub from: u64,
    /// When the process was ready again; none if it was not.
    pub until: Option<u64>,
    pub what: String,
    pub heard: Option<u64>,
}

impl Drawn {
    pub(super) fn new(evidence: &Evidence<'_>, verdicts: &[Verdict]) -> Self {
        let step = step(evidence.end);
        let silences = silences(evidence);
        let order = order(evidence, verdicts, &silences);
        let trace = evidence.trace;
        let whole = trace.depths.iter().filter(|depth| depth.subscriber.is_none());
        let samples = |figure: fn(&Depth) -> Option<u64>| {
            thinned(&whole.clone().filter_map(|one| Some((one.t, figure(one)?))).collect::<Vec<_>>())
        };
        let whiles: Vec<(u64, u64)> =
            (0..evidence.lanes.len()).flat_map(|at| waiting(evidence, at)).collect();
        let arrived = |taken: bool| {
            let exchanges = evidence.exchanges.iter().filter(move |one| !taken || one.is_delivered());
            exchanges.map(|one| one.t)
        };
        let counted = |times: &mut dyn Iterator<Item = u64>| counted(times, step, evidence.end);
        let mut closeups = closeups(evidence, verdicts);
        closeups.iter_mut().for_each(|one| one.level = thinned(&one.level));
        Self {
            step,
            flow: [
                counted(&mut trace.offers.iter().map(|one| one.t)),
                counted(&mut trace.accepted.iter().map(|one| one.t)),
                counted(&mut arrived(false)),
                counted(&mut arrived(true)),
            ],
            latency: latency(evidence, step),
            attempts: attempts(evidence),
            waiting: level(&whiles, step, evidence.end),
            told: samples(|one| one.waiting),
            resident: samples(|one| one.resident_bytes),
            busy: thinned(&busy(&samples(|one| one.processor_ns))),
            lanes: order.iter().take(LANES_MAX).map(|at| lane(evidence, *at, step)).collect(),
            order,
            silences: silences.into_iter().take(SILENCES_MAX).collect(),
            breaks: breaks(evidence),
            closeups,
        }
    }
}

fn step(end: u64) -> u64 {
    let mut power = SECOND / 1_000;
    loop {
        let steps = [1, 2, 5].map(|one| power.saturating_mul(one));
        if let Some(step) = steps.into_iter().find(|step| end / step < STEPS_MAX) {
            return step;
        }
        power = power.saturating_mul(10);
    }
}

fn place(t: u64, step: u64) -> usize {
    usize::try_from(t / step).unwrap_or(usize::MAX)
}

fn counted(times: &mut dyn Iterator<Item = u64>, step: u64, end: u64) -> Series {
    let mut counts = vec![0; place(end, step) + 1];
    for t in times {
        if let Some(count) = counts.get_mut(place(t, step)) {
            *count += 1;
        }
    }
    Series(counts)
}

/// The highest count of overlaps in each step; a point at each change.
fn level(whiles: &[(u64, u64)], step: u64, end: u64) -> Vec<(u64, u64)> {
    let mut changes: Vec<(u64, i64)> =
        whiles.iter().flat_map(|(from, until)| [(*from, 1), (*until, -1)]).collect();
    changes.sort_unstable();
    let (mut height, mut changes) = (0_i64, changes.into_iter().peekable());
    let steps = place(end, step) as u64 + 1;
    let mut points: Vec<(u64, u64)> = Vec::new();
    for at in 0..steps {
        let mut most = height;
        while let Some((_, change)) = changes.next_if(|(t, _)| *t < (at + 1).saturating_mul(step)) {
            height += change;
            most = most.max(height);
        }
        let most = u64::try_from(most).unwrap_or(0);
        if points.last().is_none_or(|(_, last)| *last != most) || at + 1 == steps {
            points.push((at * step, most));
        }
    }
    points
}

fn latency(evidence: &Evidence<'_>, step: u64) -> [Vec<(u64, u64)>; 3] {
    let lanes = (0..).zip(&evidence.lanes);
    let mut timed: Vec<(u64, u64)> = lanes.flat_map(|(at, _)| timed_latencies(evidence, at)).collect();
    timed.sort_unstable();
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for some in timed.chunk_by(|one, next| place(one.0, step) == place(next.0, step)) {
        let mut sorted: Vec<u64> = some.iter().map(|(_, latency)| *latency).collect();
        sorted.sort_unstable();
        let middle = (place(some[0].0, step) as u64 * step).saturating_add(step / 2);
        for (line, thousandths) in lines.iter_mut().zip([500, 950, 1_000]) {
            line.push((middle, percentile(&sorted, thousandths)));
        }
    }
    lines
}

fn attempts(evidence: &Evidence<'_>) -> Series {
    /// Higher numbers count with the last.
    const MOST: usize = 20;
    let mut counts = Vec::new();
    for delivery in evidence.deliveries.iter().filter(|one| one.owed && evidence.accepted(one).is_some()) {
        let at = evidence.attempts(delivery).len().min(MOST);
        counts.resize(counts.len().max(at + 1), 0);
        counts[at] += 1;
    }
    Series(counts)
}

/// Busy processors in thousandths, between samples of the used time. None where a process ended in between,
/// since the sum of the living ones fell.
fn busy(samples: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let share = |pair: &[(u64, u64)]| {
        let used = pair[1].1.checked_sub(pair[0].1)?;
        let passed = pair[1].0.checked_sub(pair[0].0).filter(|passed| *passed > 0)?;
        let thousandths = u128::from(used) * 1_000 / u128::from(passed);
        Some((pair[0].0, u64::try_from(thousandths).ok()?))
    };
    samples.windows(2).filter_map(share).collect()
}

/// Lanes with a failure, then with a warning, the most silent, those with the most dead letters, the slowest.
fn order(evidence: &Evidence<'_>, verdicts: &[Verdict], silences: &[Silence]) -> Vec<usize> {
    let rank = |at: &usize| {
        let lane = &evidence.lanes[*at];
        let name = lane.subscriber.name.as_str();
        let named = |status: Status| {
            let told = verdicts.iter().filter(|one| one.status == status).flat_map(|one| &one.witness);
            told.filter(|witness| witness.subscriber.as_deref() == Some(name)).count()
        };
        let silent =
            silences.iter().filter(|one| one.subscriber == name).map(|one| one.until - one.from).max();
        let own = evidence.deliveries_of(u32::try_from(*at).unwrap_or(u32::MAX));
        let dead = own.iter().filter(|one| one.dead.is_some()).count();
        let mut latencies: Vec<u64> = timed_latencies(evidence, u32::try_from(*at).unwrap_or(u32::MAX))
            .into_iter()
            .map(|(_, latency)| latency)
            .collect();
        latencies.sort_unstable();
        let slow = percentile(&latencies, 990);
        std::cmp::Reverse((named(Status::Fail) > 0, named(Status::Warn) > 0, silent, dead, slow))
    };
    let mut order: Vec<usize> = (0..evidence.lanes.len()).collect();
    order.sort_by_cached_key(rank);
    order
}

fn lane(evidence: &Evidence<'_>, at: usize, step: u64) -> LaneDrawn {
    let lane = &evidence.lanes[at];
    let own = |wanted: fn(Option<u16>) -> bool| {
        let exchanges = lane.begun.iter().map(|n| evidence.exchange(*n));
        let mut times = exchanges.filter(|one| wanted(one.status())).map(|one| one.t);
        counted(&mut times, step, evidence.end)
    };
    let behaviours = lane.subscriber.behaviours.iter().take(LANES_MAX);
    LaneDrawn {
        subscriber: at,
        came: [
            own(|status| matches!(status, Some(200..=299))),
            own(|status| status == Some(429)),
            own(|status| !matches!(status, Some(200..=299 | 429))),
        ],
        waiting: level(&waiting(evidence, at), step, evidence.end),
        behaviours: behaviours
            .map(|one| (one.at.0, one.until().unwrap_or(evidence.end), describe_behaviour(one)))
            .collect(),
    }
}

fn describe_behaviour(behaviour: &Behaviour) -> String {
    let answer = match &behaviour.answer {
        Answer::Status(reply) => match &reply.retry_after {
            Some(RetryAfter::Seconds(seconds)) => format!("answers {}, Retry-After: {seconds}", reply.status),
            Some(RetryAfter::Date(ahead)) => {
                format!("answers {}, Retry-After: a date {ahead} ahead", reply.status)
            }
            Some(RetryAfter::Text(text)) => format!("answers {}, Retry-After: {text}", reply.status),
            None => format!("answers {}", reply.status),
        },
        Answer::Refuse => "refuses connections".to_owned(),
        Answer::NoAccept => "accepts no connection".to_owned(),
        Answer::Reset => "resets before it reads".to_owned(),
        Answer::ResetAfterRead => "reads, then resets".to_owned(),
        Answer::Close => "reads, then closes".to_owned(),
        Answer::HalfAnswer => "sends half an answer".to_owned(),
        Answer::Stall => "stalls, then reads everything at once".to_owned(),
        Answer::Blackhole => "reads, but never answers".to_owned(),
        Answer::Drip { pace } => format!("answers a byte every {pace}"),
        Answer::HugeAnswer { body } => format!("answers with a body of {body}"),
        Answer::WrongCertificate(certificate) => {
            format!("shows a wrong certificate ({})", certificate.name())
        }
        Answer::Enforce { limit, burst } => format!("answers 429 beyond {limit} with burst {burst}"),
    };
    let share = if behaviour.share == crate::scenario::quantity::Millionths::ONE {
        String::new()
    } else {
        format!(" to {} of its requests", behaviour.share)
    };
    let attempts = if behaviour.attempts.is_some() { ", only for some attempts" } else { "" };
    let slow =
        behaviour.latency.map_or(String::new(), |takes| format!(" after {} to {}", takes.least, takes.most));
    let works = behaviour.serves.map_or(String::new(), |each| format!(", working {each} on each"));
    format!("{answer}{slow}{share}{attempts}{works}")
}

fn breaks(evidence: &Evidence<'_>) -> Vec<Break> {
    use ProcessEvent::{Asked, Continued, Exited, Killed, Ready, Started, Stopped};
    let mut events: Vec<&Process> = evidence.trace.processes.iter().collect();
    events.sort_by_key(|one| one.t);
    let mut breaks: Vec<Break> = Vec::new();
    let mut away: Vec<(u32, usize)> = Vec::new();
    for one in events {
        let place = away.iter().position(|(worker, _)| *worker == one.worker);
        match (one.event, place) {
            (Killed | Asked | Stopped | Exited, None) => {
                let word = match one.event {
                    Killed => "killed",
                    Asked => "asked to stop",
                    Stopped => "stopped",
                    _ => "ended by itself",
                };
                away.push((one.worker, breaks.len()));
                let what = format!("worker {} {word}", one.worker);
                breaks.push(Break { from: one.t, until: None, what, heard: None });
            }
            (Ready | Continued, Some(place)) => {
                let (_, at) = away.remove(place);
                breaks[at].until = Some(one.t);
            }
            (Started | Ready | Continued | Killed | Asked | Stopped | Exited, _) => {}
        }
    }
    // A process that is asked to stop without a fault is stopped at the run's end.
    let is_fault = |t: u64| evidence.trace.faults.iter().any(|fault| fault.t.abs_diff(t) < SECOND / 10);
    breaks.retain(|one| one.until.is_some() || is_fault(one.from) || !one.what.ends_with("asked to stop"));
    breaks.truncate(BREAKS_MAX);
    for one in &mut breaks {
        let from = one.until.unwrap_or(one.from);
        one.heard = evidence.exchanges.iter().map(|exchange| exchange.t).filter(|t| *t > from).min();
    }
    breaks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_bounded() {
        for (end, expected) in [(0, 1), (4, 20), (10, 50), (3_600, 20_000), (86_400, 500_000)] {
            assert_eq!(step(end * SECOND), expected * SECOND / 1_000, "{end} s");
        }
        assert!(u64::MAX / step(u64::MAX) < STEPS_MAX);
    }

    #[test]
    fn processors_are_busy_by_what_was_used_and_an_end_in_between_tells_nothing() {
        let samples = [(0, 0), (10, 5), (20, 25), (30, 3), (40, 3)];
        assert_eq!(busy(&samples), [(0, 500), (10, 2_000), (30, 0)]);
    }

    #[test]
    fn a_level_keeps_the_peak_inside_of_a_step_and_ends_where_the_run_ends() {
        let whiles = [(1, 3), (2, 4), (25, 40)];
        assert_eq!(level(&whiles, 10, 49), [(0, 2), (10, 0), (20, 1), (40, 1)]);
    }
}
