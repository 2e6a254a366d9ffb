//! A partner's view of a launch, as a Markdown page to hand over; it reveals nothing of the sender's own concerns.

use std::cmp::Reverse;
use std::fmt::Write;

use hookproof_judge::scenario::{Pattern, Scenario, Subscriber};

use super::rows::worst;
use super::slo::Measure;
use super::table::show_short;
use super::{Plan, slo};
use crate::sim::figures::{Figures, LaneFigures};

/// File name and text, the worst first.
pub fn sheets<'a>(scenario: &'a Scenario, plan: &'a Plan) -> impl Iterator<Item = (String, String)> + 'a {
    plan.figures.iter().flat_map(move |figures| {
        let mut all: Vec<_> = scenario.subscribers.iter().zip(&figures.lanes).zip(&plan.lanes).collect();
        all.sort_by_key(|(_, lane)| Reverse(worst(lane)));
        all.into_iter().map(move |((one, lane), _)| {
            (format!("{}.md", one.name), sheet(scenario, one, lane, figures, plan))
        })
    })
}

#[must_use]
pub fn is_sheet(scenario: &Scenario, text: &str) -> bool {
    text.starts_with(&title(scenario, "")) && text.lines().next().is_some_and(|line| line.ends_with(SEES))
}

const SEES: &str = " (forecast)";

fn title(scenario: &Scenario, partner: &str) -> String {
    format!("# {}: requests to {partner}", scenario.name)
}

fn sheet(
    scenario: &Scenario,
    subscriber: &Subscriber,
    lane: &LaneFigures,
    figures: &Figures,
    plan: &Plan,
) -> String {
    let mut text = format!("{}{SEES}\n\n", title(scenario, &subscriber.name));
    let kinds: Vec<&str> = subscriber.events.iter().map(Pattern::as_str).collect();
    let busiest = lane.busiest;
    let late = |thousandths: u32| match Measure::Latency(thousandths).of(lane, figures) {
        slo::NEVER => "some are never accepted".to_owned(),
        length => show_short(length),
    };
    let drained = match Measure::Drain.of(lane, figures) {
        slo::NEVER => "not within the planned time".to_owned(),
        0 => "with the end of the traffic".to_owned(),
        length => format!("{} after the traffic", show_short(length)),
    };
    let sizes = &scenario.events.data_bytes;
    let rows = [
        ("events", kinds.join(", ")),
        ("deliveries in all", lane.owed.to_string()),
        ("requests in all, with retries", lane.arrivals.to_string()),
        (
            "requests in the peak second",
            format!("{}, {} after the traffic begins", busiest.count, show_short(busiest.at)),
        ),
        ("upper limit", contract(subscriber)),
        ("data of an event", format!("{} to {} bytes, plus the envelope", sizes.least, sizes.most)),
        ("time from event to delivery: median, 95th percentile", format!("{}, {}", late(500), late(950))),
        ("the last delivery comes", drained),
        ("timeout of a request", subscriber.timeout.to_string()),
    ];
    text.push_str("| | |\n|---|---|\n");
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {} |", value.replace('|', "\\|"));
    }
    for condition in &plan.conditions {
        let _ = writeln!(text, "\nThis assumes a condition: {}.", condition.meaning_for(subscriber));
    }
    text.push_str(
        "\nThese figures are from a simulation of the planned launch. Answer with a status from 200 to 299 as \
         soon as the request is stored. After 429 or 503 with `Retry-After`, no request comes before that \
         time.\n",
    );
    if let Some(headroom) = &plan.headroom
        && let Some(change) =
            headroom.advice.changes.iter().find(|change| change.subscriber == subscriber.group)
    {
        let carry = super::scale::times(headroom.carry);
        let _ = writeln!(text, "\nFor {carry} of this traffic: {}.", change.cost);
    }
    text
}

fn contract(subscriber: &Subscriber) -> String {
    let limit = &subscriber.limit;
    let bucket = limit.bucket.map(|one| format!("{} at once, {} in the long run", one.burst, one.rate));
    let in_flight = limit.in_flight.map(|most| format!("{most} requests in flight"));
    let windows = limit.windows.iter().map(ToString::to_string);
    let all: Vec<String> = bucket.into_iter().chain(windows).chain(in_flight).collect();
    if all.is_empty() { "nothing is agreed yet".to_owned() } else { all.join("; ") }
}
