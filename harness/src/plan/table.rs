//! The plan in a terminal: the answer in one sentence, then the table.

use std::fmt::Write;

use super::headroom::{Change, Headroom};
use super::slo::NEVER;
use super::{LanePlan, Plan};
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

/// So many thousandths, as a multiple.
pub(super) fn times(thousandths: u64) -> String {
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000 / 10);
    if part == 0 {
        format!("{whole}×")
    } else {
        format!("{whole}.{}×", format!("{part:02}").trim_end_matches('0'))
    }
}

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
    let change = headroom.breaks.first().and_then(|breach| first_change(headroom, &breach.subscriber));
    let change = change.map_or(String::new(), |change| {
        let others = headroom.changes.iter().filter(|other| other.subscriber != change.subscriber);
        let mut names: Vec<&str> = others.map(|other| other.subscriber.as_str()).collect();
        names.dedup();
        let more = match names.len() + headroom.unexamined.len() {
            0 => String::new(),
            count => format!(", and change {count} more below"),
        };
        format!(
            ": to carry {}, raise its {} from {} to {}{more}",
            times(headroom.carry),
            change.knob,
            change.from,
            change.to
        )
    });
    format!("{carries}{breaks}{change}")
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

fn first_change<'a>(headroom: &'a Headroom, subscriber: &str) -> Option<&'a Change> {
    headroom.changes.iter().find(|change| change.subscriber == subscriber)
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
    let machine = &plan.machine;
    let ceiling = machine.ceiling_per_second.map_or_else(
        || "this machine's ceiling was not measured".to_owned(),
        |ceiling| {
            let percent = machine.peak_per_second * 100 / ceiling.max(1);
            format!("{percent} % of the {ceiling}/s that a bare client reaches on this machine")
        },
    );
    let _ = writeln!(
        text,
        "machine: {} requests in the busiest second, {ceiling}; database up to {} MiB; what waits in memory up to {} MiB",
        machine.peak_per_second,
        machine.database_bytes >> 20,
        machine.memory_bytes >> 20
    );
    let _ = writeln!(
        text,
        "model: a commit takes {} to {}, at every load",
        show(plan.commit_ns.0),
        show(plan.commit_ns.1)
    );
    if let Some(headroom) = &plan.headroom {
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

fn changes(headroom: &Headroom) -> String {
    let mut text = String::new();
    for change in &headroom.changes {
        let _ = writeln!(
            text,
            "to carry {}: {}: raise the {} from {} to {} ({})",
            times(headroom.carry),
            change.subscriber,
            change.knob,
            change.from,
            change.to,
            times(change.factor)
        );
    }
    for name in &headroom.hopeless {
        let _ =
            writeln!(text, "to carry {}: {name}: no change of one limit is enough", times(headroom.carry));
    }
    text.push_str(&unexamined(headroom));
    if headroom.too_many && headroom.fails.is_some_and(|fails| fails <= headroom.carry) {
        let _ = writeln!(text, "to carry {}: so many events can't be simulated", times(headroom.carry));
    }
    if headroom.coarse {
        text.push_str("recorded traffic was scaled in whole multiples\n");
    }
    text
}

/// Who else is to be changed, and wasn't looked at.
pub(super) fn unexamined(headroom: &Headroom) -> String {
    if headroom.unexamined.is_empty() {
        return String::new();
    }
    format!(
        "to carry {}: {} more fail, and no change was looked for: {}\n",
        times(headroom.carry),
        headroom.unexamined.len(),
        headroom.unexamined.join(", ")
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
