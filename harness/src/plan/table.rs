//! The plan in a terminal: the answer in one sentence, then the table.

use std::fmt::Write;

use super::advice::{Change, Raise, Trial};
use super::headroom::Headroom;
use super::scale::times;
use super::slo::NEVER;
use super::{LanePlan, MachinePlan, Plan, machine};
use crate::check::verdict::show;
use crate::report::columns;

/// Subscribers in the table; the others are in the page and the JSON.
const LISTED_MAX: usize = 30;
/// Subscribers that the answer names; it is a sentence.
const TOLD_MAX: usize = 3;

/// The columns.
pub(super) const HEAD: [&str; 13] = [
    "subscriber",
    "owed",
    "peak rows",
    "≤ bound",
    "peak bytes",
    "at",
    "drained",
    "≤ bound",
    "p50",
    "p95",
    "p99",
    "shed",
    "expired",
];

/// The answer, in one sentence.
#[must_use]
pub fn answer(plan: &Plan) -> String {
    let Some(headroom) = &plan.headroom else { return present(plan) };
    let carries = match (headroom.carries, headroom.fails) {
        (Some(held), Some(_)) if held >= 1_000 => format!("carries {} this traffic", times(held)),
        (Some(held), Some(_)) => format!("does not carry this traffic, only {} of it", times(held)),
        (Some(held), None) if headroom.too_many => {
            format!("carries {} this traffic at least; more can't be simulated", times(held))
        }
        (Some(held), None) => format!("carries {} this traffic at least; more was not tried", times(held)),
        (None, _) if headroom.coarse => {
            "does not carry this traffic; less of a recording can't be played".to_owned()
        }
        (None, _) => "does not carry this traffic, nor any part of it that was tried".to_owned(),
    };
    let breaks = headroom.breaks.first().map_or(String::new(), |breach| {
        format!("; {} breaks first ({}: {})", breach.subscriber, breach.objective, breach.figure)
    });
    format!("{carries}{}{breaks}{}", spread(headroom), remedy(headroom))
}

/// How much of it depends on the seed.
fn spread(headroom: &Headroom) -> String {
    let seeds = headroom.seeds.len();
    let short = match headroom.short {
        0 => String::new(),
        short => format!(", and this traffic fails in {short} of {seeds}"),
    };
    match &headroom.interval {
        Some(one) => format!(
            " ({} to {} in 19 of 20 seeds, from {} tried{short})",
            times(one.low),
            times(one.high),
            one.seeds
        ),
        None if seeds > 1 => format!(" (tried with {seeds} seeds{short})"),
        None => " (by one seed)".to_owned(),
    }
}

/// What would mend what breaks first.
fn remedy(headroom: &Headroom) -> String {
    let Some(breach) = headroom.breaks.first() else { return String::new() };
    let carry = times(headroom.carry);
    if breach.subscriber == machine::NAME {
        return headroom
            .advice
            .need
            .as_ref()
            .map_or(String::new(), |need| format!(": to carry {carry}, {}", need.told()));
    }
    let Some(change) = first_change(headroom, &breach.group) else { return String::new() };
    let others = headroom.advice.changes.iter().filter(|other| other.subscriber != change.subscriber);
    let mut names: Vec<&str> = others.map(|other| other.subscriber.as_str()).collect();
    names.dedup();
    let more = match names.len() + headroom.advice.unexamined.len() {
        0 => String::new(),
        count => format!(", and change {count} more below"),
    };
    format!(": to carry {carry}, {}{more}", change.cost)
}

/// How it is with the traffic as it stands: what never gets there, before what takes too long.
fn present(plan: &Plan) -> String {
    let left = plan.lanes.iter().filter(|lane| lane.left > 0);
    let mut told: Vec<String> = left
        .map(|lane| format!("{} deliveries still wait for {} when the run ends", lane.left, lane.name))
        .take(TOLD_MAX)
        .collect();
    let slowest = plan.lanes.iter().max_by_key(|lane| lane.drain_ns);
    if let (Some(lane), true) = (slowest, told.is_empty()) {
        let gone = lane.drain_ns.map_or_else(|| "never".to_owned(), show);
        told.push(format!("the slowest backlog, that of {}, is gone {gone} after the traffic", lane.name));
    }
    let Some(worst) = plan.breaches.first() else {
        return format!("meets its objectives; {}", told.join(", "));
    };
    let others = match plan.breaches.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let worst = format!("{} ({}: {}){others}", worst.subscriber, worst.objective, worst.figure);
    format!("does not meet its objectives: {}; worst is {worst}", told.join(", "))
}

fn first_change<'a>(headroom: &'a Headroom, group: &str) -> Option<&'a Change> {
    headroom.advice.changes.iter().find(|change| change.subscriber == group)
}

/// The table, and what else there is to say.
#[must_use]
pub fn table(plan: &Plan) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    let mut lanes: Vec<&LanePlan> = plan.lanes.iter().collect();
    let worst = |lane: &&LanePlan| (lane.shed + lane.expired, lane.drain_ns.unwrap_or(NEVER), lane.peak_rows);
    lanes.sort_by_key(|lane| std::cmp::Reverse(worst(lane)));
    rows.extend(lanes.iter().take(LISTED_MAX).map(|lane| row(lane)));
    let mut text = columns(&rows);
    if lanes.len() > LISTED_MAX {
        let _ =
            writeln!(text, "{} subscribers more are in the page and in --json.", lanes.len() - LISTED_MAX);
    }
    for lane in lanes.iter().take(LISTED_MAX) {
        if let Err(why) = lane.bound {
            let _ = writeln!(text, "no bound for {}: {why}", lane.name);
        }
    }
    if plan.refused > 0 {
        let _ = writeln!(
            text,
            "{} events were refused, as a queue was full or no sender was there: they reach nobody until they are offered again",
            plan.refused
        );
    }
    let _ = writeln!(text, "machine: {}", machine_line(&plan.machine));
    let _ = writeln!(
        text,
        "model: a commit takes {} to {}, at every load",
        show(plan.commit_ns.0),
        show(plan.commit_ns.1)
    );
    if let Some(headroom) = &plan.headroom {
        text.push_str(&curve(headroom));
        text.push_str(&changes(headroom));
    }
    for error in &plan.model_errors {
        let _ = writeln!(text, "ERROR in the model: {error}");
    }
    text
}

/// A subscriber's row, under [`HEAD`].
pub(super) fn row(lane: &LanePlan) -> Vec<String> {
    let bound = lane.bound.as_ref();
    let drained = lane.drain_ns.map_or_else(|| format!("no, {} left", lane.left), show_short);
    vec![
        lane.name.clone(),
        lane.owed.to_string(),
        lane.peak_rows.to_string(),
        bound.map_or_else(|_| "none".to_owned(), |bound| bound.backlog.to_string()),
        format!("{} KiB", lane.peak_bytes >> 10),
        show_short(lane.peak_at_ns),
        drained,
        bound.map_or_else(|_| "none".to_owned(), |bound| show_short(bound.drain_ns)),
        show_or_never(lane.latency_ns[0]),
        show_or_never(lane.latency_ns[1]),
        show_or_never(lane.latency_ns[2]),
        lane.shed.to_string(),
        lane.expired.to_string(),
    ]
}

/// A length of time in three digits or so.
pub(super) fn show_short(nanos: u64) -> String {
    match nanos / 1_000_000 {
        0 => "0".to_owned(),
        millis @ 1..1_000 => format!("{millis} ms"),
        millis @ 1_000..100_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis @ 100_000..10_000_000 => format!("{} min", millis.div_ceil(60_000)),
        millis => format!("{}.{} h", millis / 3_600_000, millis % 3_600_000 / 360_000),
    }
}

/// The same, of something that may never come.
fn show_or_never(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "never".to_owned(), show_short)
}

/// What the machine has to do, beside what it can do.
fn machine_line(MachinePlan { load, limits }: &MachinePlan) -> String {
    let carries = limits.capacity().map_or_else(
        || "what this machine carries was not measured".to_owned(),
        |most| {
            let percent = load.per_second() * 100 / most.max(1);
            format!("{percent} % of the {most}/s that are carried ({})", limits.source)
        },
    );
    let room = |most: Option<u64>| most.map_or(String::new(), |most| format!(" of {}", most >> 20));
    format!(
        "{} requests and {} events in the busiest second, {carries}; database up to {}{} MiB; what waits in memory up to \
         {}{} MiB",
        load.peak_per_second,
        load.peak_events,
        load.database_bytes >> 20,
        room(limits.disk_bytes),
        load.memory_bytes >> 20,
        room(limits.memory_bytes)
    )
}

/// Load against time, with the place where it breaks.
fn curve(headroom: &Headroom) -> String {
    let mut rows = vec![["load", "p95", "drained", ""].map(str::to_owned).to_vec()];
    let breaks = headroom.curve.iter().find(|point| !point.holds).map(|point| point.load);
    for point in headroom.near() {
        let mark = match point.holds {
            true => "",
            false if breaks == Some(point.load) => "breaks from here on",
            false => "broken",
        };
        let [p95, drained] = [point.p95_ns, point.drain_ns].map(show_or_never);
        rows.push(vec![times(point.load), p95, drained, mark.to_owned()]);
    }
    format!("\n{}\n", columns(&rows))
}

/// What is raised, and how far.
pub(super) fn raises(change: &Change) -> String {
    let one = |raise: &Raise| {
        format!("the {} from {} to {} ({})", raise.knob, raise.from, raise.to, times(raise.factor))
    };
    change.raises.iter().map(one).collect::<Vec<_>>().join(" and ")
}

/// What came of the patch.
pub(super) fn tried(trial: &Trial) -> String {
    format!(
        "Tried together, the first of each subscriber: these subscribers meet their objectives in {} of {} seeds. As settings, for \
         --patch:",
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
    if let Some(need) = &headroom.advice.need {
        let _ = writeln!(text, "to carry {carry}: {}: {}", machine::NAME, need.told());
    }
    if let Some(trial) = &headroom.advice.trial {
        let _ = writeln!(text, "{}\n\n{}\n", tried(trial), trial.patch);
    }
    for name in &headroom.advice.hopeless {
        let _ = writeln!(text, "to carry {carry}: {name}: no change of its limits is enough");
    }
    text.push_str(&unexamined(headroom));
    if headroom.too_many && headroom.fails.is_some_and(|fails| fails <= headroom.carry) {
        let _ = writeln!(text, "to carry {carry}: so many events can't be simulated");
    }
    if headroom.coarse {
        text.push_str("recorded traffic was scaled in whole multiples\n");
    }
    text
}

/// Who else is to be changed, and wasn't looked at.
pub(super) fn unexamined(headroom: &Headroom) -> String {
    if headroom.advice.unexamined.is_empty() {
        return String::new();
    }
    format!(
        "to carry {}: {} more fail, and no change was looked for: {}\n",
        times(headroom.carry),
        headroom.advice.unexamined.len(),
        headroom.advice.unexamined.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_and_lengths_are_short() {
        assert_eq!([1_000, 3_437, 500, 1_090].map(times), ["1×", "3.43×", "0.5×", "1.09×"]);
        let lengths = [0, 12_000_000, 3_450_000_000, 600_000_000_000, 86_400_000_000_000];
        assert_eq!(lengths.map(show_short), ["0", "12 ms", "3.4 s", "10 min", "24.0 h"]);
    }
}
