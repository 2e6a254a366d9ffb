//! The plan on a terminal: the answer in one sentence, then the table.

use std::collections::BTreeSet;
use std::fmt::Write;

use hookproof_judge::check::verdict::show;
use hookproof_judge::report::{TimeUnit, columns};
use hookproof_judge::scenario::SECOND;

use super::advice::{Advice, Change, Raise, Trial, Why};
use super::headroom::Headroom;
use super::interval::Interval;
use super::machine::Need;
use super::rows::{Row, rows};
use super::scale::times;
use super::search::TRIED_MAX;
use super::slo::Breach;
use super::{Down, LanePlan, MachinePlan, Plan, machine};

/// The most subscribers in the table; the page and the JSON have all.
const LISTED_MAX: usize = 30;
const TOLD_MAX: usize = 3;

/// The last columns of the head.
const LOSSES: usize = 2;

#[must_use]
pub fn answer(plan: &Plan) -> String {
    let asked: Vec<&str> = plan.conditions.iter().map(|one| one.asked.as_str()).collect();
    let under = if asked.is_empty() { String::new() } else { format!("with {}: ", asked.join(", ")) };
    let told = plan.headroom.as_ref().map_or_else(|| present(plan), |headroom| stretches(plan, headroom));
    let down = plan.down.as_ref().map_or(String::new(), |down| format!("; {}", are_down(down)));
    format!("{under}{told}{down}")
}

fn are_down(down: &Down) -> String {
    match down.endpoints {
        1 => "1 endpoint is down by the plan".to_owned(),
        several => format!("{several} endpoints are down by the plan"),
    }
}

fn stretches(plan: &Plan, headroom: &Headroom) -> String {
    let breaks = headroom.breaks.first().map_or(String::new(), |breach| {
        let (word, more) = bounded(plan, breach);
        format!("; {} {word} first ({}{more}: {})", breach.subscriber, breach.objective, breach.figure)
    });
    let remedy = remedy(headroom).map_or(String::new(), |remedy| format!(": {remedy}"));
    format!("{}{breaks}{remedy}", carries(headroom))
}

/// A machine that was never the limit is at least as fast as measured.
pub(super) fn bounded(plan: &Plan, breach: &Breach) -> (&'static str, &'static str) {
    let is_bound = breach.subscriber == machine::NAME && plan.machine.limits.at_least;
    if is_bound { ("may break", " or more") } else { ("breaks", "") }
}

pub(super) fn carries(headroom: &Headroom) -> String {
    let carries = match (headroom.carries, headroom.fails) {
        (Some(held), Some(_)) if held >= 1_000 => format!("carries up to {} today's traffic", times(held)),
        (Some(held), Some(_)) => format!("does not carry today's traffic, only {} of it", times(held)),
        (Some(held), None) if headroom.too_many => {
            format!("carries at least {} today's traffic; more cannot be simulated", times(held))
        }
        (Some(held), None) => format!("carries at least {} today's traffic; more was not tried", times(held)),
        (None, _) if headroom.coarse => {
            "does not carry today's traffic; a recording cannot be scaled down".to_owned()
        }
        (None, _) => "does not carry today's traffic, nor any tried part of it".to_owned(),
    };
    format!("{carries}{}", spread(headroom))
}

fn spread(headroom: &Headroom) -> String {
    let seeds = headroom.seeds.len();
    let short = match headroom.short {
        0 => String::new(),
        short => format!("; today's traffic fails with {short} of {seeds} seeds"),
    };
    match &headroom.interval {
        Some(one) => format!(" (95 % interval {}, {} seeds{short})", within(one), one.seeds),
        None if seeds > 1 => format!(" ({seeds} seeds{short})"),
        None => " (1 seed)".to_owned(),
    }
}

/// An end beyond the search has no figure.
pub(super) fn within(interval: &Interval) -> String {
    let high =
        if interval.high > TRIED_MAX { "more than was tried".to_owned() } else { times(interval.high) };
    format!("{} to {high}", times(interval.low))
}

/// The remedy for the first breach, or the reason why there is none.
pub(super) fn remedy(headroom: &Headroom) -> Option<String> {
    let (breach, advice) = (headroom.breaks.first()?, &headroom.advice);
    let is_it = |subscriber: &str| subscriber == breach.group;
    let unchanged = advice.unchanged.iter().find(|one| is_it(&one.subscriber));
    let told = if is_it(machine::NAME) {
        advice.needs.first().map(Need::phrase)
    } else if let Some(change) = advice.changes.iter().find(|change| is_it(&change.subscriber)) {
        Some(format!("{}{}", change.cost, others(advice, &change.subscriber)))
    } else {
        unchanged.map(|one| format!("{}: {}", one.subscriber, one.why.phrase()))
    };
    let rest = if advice.failing == 0 { NOTHING } else { "other subscribers need the changes below" };
    let told = told.or_else(|| (advice.tried > 0).then(|| rest.to_owned()));
    told.map(|told| format!("to carry {}, {told}", times(headroom.carry)))
}

fn others(advice: &Advice, told: &str) -> String {
    let changed = advice.changes.iter().map(|change| &change.subscriber);
    let unchanged = advice.unchanged.iter().map(|one| &one.subscriber);
    let others: BTreeSet<&String> = changed.chain(unchanged).filter(|one| *one != told).collect();
    if others.is_empty() {
        String::new()
    } else {
        format!(", plus the changes below for other subscribers ({})", others.len())
    }
}

const NOTHING: &str = "no change is needed";

/// Unfinished backlogs before slow ones.
fn present(plan: &Plan) -> String {
    let well = || plan.lanes.iter().filter(|lane| !lane.never_recovers);
    let left = well().filter(|lane| lane.left > 0);
    let mut told: Vec<String> = left
        .map(|lane| format!("deliveries still waiting when the run ends: {}, for {}", lane.left, lane.name))
        .take(TOLD_MAX)
        .collect();
    let slowest = well().max_by_key(|lane| lane.drain_ns);
    if let (Some(lane), true) = (slowest, told.is_empty()) {
        let gone = lane.drain_ns.map_or_else(|| "never".to_owned(), show);
        told.push(format!("the slowest backlog, of {}, drains {gone} after the traffic", lane.name));
    }
    let Some(worst) = plan.breaches.first() else {
        return format!("meets its objectives; {}", told.join(", "));
    };
    let others = match plan.breaches.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let worst = format!("{} ({}: {}){others}", worst.subscriber, worst.objective, worst.figure);
    format!("does not meet its objectives: {worst}; {}", told.join(", "))
}

#[must_use]
pub fn table(plan: &Plan) -> String {
    let lanes = rows(plan);
    let mut text = columns(&cells(&lanes[..lanes.len().min(LISTED_MAX)]));
    if lanes.len() < plan.lanes.len() {
        let _ = writeln!(text, "{LIKE}");
    }
    if lanes.len() > LISTED_MAX {
        let _ = writeln!(text, "More rows, in the page: {}.", lanes.len() - LISTED_MAX);
    }
    for lane in lanes.iter().take(LISTED_MAX) {
        if let Err(why) = lane.shown.bound {
            let _ = writeln!(text, "no bound for {}: {why}", lane.shown.name);
        }
    }
    for sampled in &plan.sampled {
        let _ = writeln!(text, "{}", sampled.told());
    }
    if let Some(down) = &plan.down {
        let _ = writeln!(text, "{}", never_recover(down));
    }
    if let Some(retries) = &plan.retries {
        let _ = writeln!(text, "{}", retries.told());
    }
    if plan.refused > 0 {
        let _ = writeln!(
            text,
            "refused events: {}, since a queue was full or no sender was running; they are lost unless the \
             emitter sends them again",
            plan.refused
        );
    }
    for condition in &plan.conditions {
        let _ = writeln!(text, "with {}: {}", condition.asked, condition.means);
    }
    text.push_str("machine:\n");
    for (name, told) in machine_rows(&plan.machine) {
        let _ = writeln!(text, "  {name}: {told}");
    }
    let _ = writeln!(
        text,
        "model: a commit takes {} to {} at every load",
        show(plan.commit_ns.0),
        show(plan.commit_ns.1)
    );
    if let Some(headroom) = &plan.headroom {
        text.push_str(&curve(headroom));
        text.push_str(&changes(headroom));
    } else if !plan.breaches.is_empty() {
        let _ = writeln!(text, "{UNSEARCHED}");
    }
    for error in &plan.model_errors {
        let _ = writeln!(text, "ERROR in the model: {error}");
    }
    text
}

pub(super) const UNSEARCHED: &str =
    "No change was searched. Without --no-headroom the plan names the limits to raise, and what that costs.";

pub(super) const LIKE: &str = "A row of several subscribers has the greatest of their figures.";

/// The sentence lacks its end.
pub(super) fn never_recover(down: &Down) -> String {
    let (endpoints, letters) = (down.endpoints, down.dead_letters);
    let one = if endpoints == 1 {
        "1 endpoint never recovers".to_owned()
    } else {
        format!("{endpoints} endpoints never recover")
    };
    format!("{one}: {letters} dead letters at {}; objectives without a name leave them out", show(down.by_ns))
}

/// The head and the rows; what no row lost has no column.
pub(super) fn cells(rows: &[Row<'_>]) -> Vec<Vec<String>> {
    let drains = rows.iter().flat_map(|row| [Some(row.shown.peak_at_ns), row.shown.drain_ns]);
    let drains = TimeUnit::of(drains.flatten().max().unwrap_or(0));
    let waits = TimeUnit::of(rows.iter().flat_map(|row| row.shown.latency_ns).flatten().max().unwrap_or(0));
    let timed = |name: &str, unit: TimeUnit| format!("{name} ({})", unit.name);
    let head = vec![
        "subscriber".to_owned(),
        "owed".to_owned(),
        "peak backlog".to_owned(),
        "≤ bound".to_owned(),
        "peak (KiB)".to_owned(),
        timed("peak at", drains),
        timed("drained", drains),
        timed("≤ bound", drains),
        timed("p50", waits),
        timed("p95", waits),
        timed("p99", waits),
        "shed".to_owned(),
        "expired".to_owned(),
    ];
    let mut cells = vec![head];
    cells.extend(rows.iter().map(|one| row(&one.shown, drains, waits)));
    for lost in (cells[0].len() - LOSSES..cells[0].len()).rev() {
        if cells[1..].iter().all(|row| row[lost] == "0") {
            cells.iter_mut().for_each(|row| drop(row.remove(lost)));
        }
    }
    cells
}

fn row(lane: &LanePlan, drains: TimeUnit, waits: TimeUnit) -> Vec<String> {
    let bound = lane.bound.as_ref();
    let drained = lane.drain_ns.map_or_else(|| format!("no, {} left", lane.left), |ns| drains.figure(ns));
    let [p50, p95, p99] = lane.latency_ns.map(|latency| in_unit(latency, waits));
    vec![
        lane.name.clone(),
        lane.owed.to_string(),
        lane.peak_rows.to_string(),
        bound.map_or_else(|_| "none".to_owned(), |bound| bound.backlog.to_string()),
        (lane.peak_bytes >> 10).to_string(),
        drains.figure(lane.peak_at_ns),
        drained,
        bound.map_or_else(|_| "none".to_owned(), |bound| drains.bound(bound.drain_ns)),
        p50,
        p95,
        p99,
        lane.shed.to_string(),
        lane.expired.to_string(),
    ]
}

/// An upper bound, never below its value.
pub(super) fn show_up(nanos: u64) -> String {
    let up = |nanos: u64| {
        let digit = match nanos {
            0..SECOND => SECOND / 1_000,
            SECOND..100_000_000_000 => SECOND / 10,
            100_000_000_000..10_000_000_000_000 => SECOND,
            _ => 360 * SECOND,
        };
        nanos.div_ceil(digit).saturating_mul(digit)
    };
    // The first step may reach the next unit.
    show_short(up(up(nanos)))
}

/// About three digits.
pub(super) fn show_short(nanos: u64) -> String {
    match nanos / 1_000_000 {
        0 => "0".to_owned(),
        millis @ 1..1_000 => format!("{millis} ms"),
        millis @ 1_000..100_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis @ 100_000..10_000_000 => {
            let seconds = (millis + 500) / 1_000;
            let rest = if seconds % 60 == 0 { String::new() } else { format!(" {} s", seconds % 60) };
            format!("{} min{rest}", seconds / 60)
        }
        millis => format!("{}.{} h", millis / 3_600_000, millis % 3_600_000 / 360_000),
    }
}

fn in_unit(nanos: Option<u64>, unit: TimeUnit) -> String {
    nanos.map_or_else(|| "never".to_owned(), |nanos| unit.figure(nanos))
}

pub(super) fn machine_rows(MachinePlan { load, limits }: &MachinePlan) -> Vec<(&'static str, String)> {
    let unknown = || "not measured".to_owned();
    let room = |bytes: u64, most: Option<u64>| {
        let most = most.map_or(String::new(), |most| format!(" of {} MiB", most >> 20));
        format!("{} MiB{most}", bytes >> 20)
    };
    let carries = limits.capacity().map_or_else(unknown, |most| {
        let more = if limits.at_least { " or more" } else { "" };
        format!("{most}/s{more}, {} % of it needed", (load.per_second() * 100).div_ceil(most.max(1)))
    });
    let rows = [
        ("requests in the peak second", load.peak_per_second.to_string()),
        ("events in the peak second", load.peak_events.to_string()),
        ("capacity of a sender here", carries),
        ("source of this figure", limits.source.clone()),
        (
            "ceiling of a bare client here",
            limits.ceiling_per_second.map_or_else(unknown, |rate| format!("{rate}/s")),
        ),
        ("database, at its largest", room(load.database_bytes, limits.disk_bytes)),
        ("deliveries in memory, by the sender's bounds", room(load.memory_bytes, limits.memory_bytes)),
    ];
    rows.into_iter().filter(|(_, told)| !told.is_empty()).collect()
}

fn curve(headroom: &Headroom) -> String {
    let times_of = headroom.near().flat_map(|point| [point.p95_ns, point.drain_ns]).flatten();
    let unit = TimeUnit::of(times_of.max().unwrap_or(0));
    let [p95, drained] = ["p95", "drained"].map(|name| format!("{name} ({})", unit.name));
    let mut rows = vec![vec!["load".to_owned(), p95, drained, String::new()]];
    let breaks = headroom.curve.iter().find(|point| !point.holds).map(|point| point.load);
    for point in headroom.near() {
        let mark = match point.holds {
            true => "",
            false if breaks == Some(point.load) => "breaks from here on",
            false => "broken",
        };
        let [p95, drained] = [point.p95_ns, point.drain_ns].map(|nanos| in_unit(nanos, unit));
        rows.push(vec![times(point.load), p95, drained, mark.to_owned()]);
    }
    format!(
        "\ntime by load, of the slowest subscriber under an objective, with the scenario's own seed; never: not in the simulated time:\n{}\n",
        columns(&rows)
    )
}

pub(super) fn raises(change: &Change) -> String {
    let one = |raise: &Raise| {
        format!("the {} from {} to {} ({})", raise.knob, raise.from, raise.told, times(raise.factor))
    };
    change.raises.iter().map(one).collect::<Vec<_>>().join(" and ")
}

pub(super) fn tried(trial: &Trial) -> String {
    format!(
        "With the first change of each subscriber together, these subscribers meet their objectives with {} of \
         {} seeds. As settings, for --patch:",
        trial.held, trial.seeds
    )
}

fn changes(headroom: &Headroom) -> String {
    let mut text = String::new();
    let carry = times(headroom.carry);
    for change in &headroom.advice.changes {
        let (whom, raises, cost) = (&change.subscriber, raises(change), &change.cost);
        let _ = writeln!(text, "to carry {carry}: {whom}: raise {raises}: {cost}");
    }
    if let Some(trial) = &headroom.advice.trial {
        let _ = writeln!(text, "{}\n\n{}\n", tried(trial), trial.patch);
    }
    for line in advised(headroom) {
        let _ = writeln!(text, "to carry {carry}: {line}");
    }
    if headroom.coarse {
        text.push_str("a recording is scaled only in whole multiples\n");
    }
    text
}

/// A line each.
pub(super) fn advised(headroom: &Headroom) -> Vec<String> {
    let advice = &headroom.advice;
    let mut lines: Vec<String> =
        advice.needs.iter().map(|need| format!("{}: {}", machine::NAME, need.phrase())).collect();
    for why in [Why::NothingHelps, Why::HoldsAlone, Why::NotExamined] {
        let of_it = advice.unchanged.iter().filter(|one| one.why == why);
        let names: Vec<&str> = of_it.map(|one| one.subscriber.as_str()).collect();
        if !names.is_empty() {
            lines.push(format!("{}: {}", names.join(", "), why.phrase()));
        }
    }
    match advice.tried {
        0 if headroom.too_many => lines.push("too many events to simulate".to_owned()),
        seeds if seeds > 0 && advice.failing == 0 => {
            lines.push(format!("{NOTHING}: it holds with every tried seed ({seeds})"));
        }
        _ => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_and_lengths_are_short() {
        assert_eq!([1_000, 3_437, 500, 1_090].map(times), ["1×", "3.43×", "0.5×", "1.09×"]);
        let lengths = [0, 12_000_000, 3_450_000_000, 101_000_000_000, 600_000_000_000, 86_400_000_000_000];
        assert_eq!(lengths.map(show_short), ["0", "12 ms", "3.4 s", "1 min 41 s", "10 min", "24.0 h"]);
        let lengths = [
            0,
            1,
            12_000_001,
            3_410_000_000,
            99_990_000_000,
            101_000_000_001,
            9_999_999_999_999,
            86_400_000_000_001,
        ];
        let bounds = ["0", "1 ms", "13 ms", "3.5 s", "1 min 40 s", "1 min 42 s", "2.8 h", "24.1 h"];
        assert_eq!(lengths.map(show_up), bounds);
    }
}
