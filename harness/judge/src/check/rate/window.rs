//! `rate.window`: windows are half-open, `[t, t + W)`, and begin anywhere.
//!
//! A window holds more than L if and only if L + 1 consecutive arrivals lie inside W, that is `t_{i+L} − t_i < W` for
//! some i: shift the window so that it begins with its first arrival. The fullest calendar second is reported beside
//! it.

use super::envelope::arrivals;
use crate::check::epochs::Epoch;
use crate::check::evidence::{Evidence, Lane};
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::{SECOND, Window};

/// Index of its first and its last arrival.
#[must_use]
pub fn first_excess(times: &[u64], window: Window) -> Option<(usize, usize)> {
    let cap = usize::try_from(window.count).ok()?;
    let found = times.iter().zip(times.get(cap..)?).position(|(first, last)| last - first < window.length.0);
    found.map(|at| (at, at + cap))
}

#[must_use]
pub fn fullest(times: &[u64], length: u64) -> usize {
    let mut from = 0;
    let mut most = 0;
    for (to, t) in times.iter().enumerate() {
        while t - times[from] >= length {
            from += 1;
        }
        most = most.max(to - from + 1);
    }
    most
}

fn fullest_calendar_second(times: &[u64], began_unix_ns: u64) -> usize {
    let second = |t: &u64| t.saturating_add(began_unix_ns) / SECOND;
    times.chunk_by(|a, b| second(a) == second(b)).map(<[u64]>::len).max().unwrap_or(0)
}

/// Each cap, with each longest span whose contracts have it or a lower one for the same length.
pub(in crate::check) fn capped(epochs: &[Epoch]) -> Vec<((u64, u64), Window)> {
    let mut caps: Vec<Window> = Vec::new();
    for window in epochs.iter().flat_map(|epoch| &epoch.limit.windows) {
        if !caps.contains(window) {
            caps.push(*window);
        }
    }
    let spans = |cap: Window| {
        let within = move |one: &Epoch| {
            one.limit.windows.iter().any(|own| own.length == cap.length && own.count <= cap.count)
        };
        let spans = epochs.chunk_by(move |one, next| within(one) && within(next));
        let has = move |span: &&[Epoch]| span.iter().any(|one| one.limit.windows.contains(&cap));
        spans.filter(has).filter_map(move |span| Some(((span.first()?.from, span.last()?.until), cap)))
    };
    caps.into_iter().flat_map(spans).collect()
}

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.window",
    severity: Severity::Must,
    source: "the contract",
    requirement: "no sliding window holds more arrivals than its cap",
    why: "endpoints that count in windows answer the excess with 429, or ban the sender",
    remedy: "hold a permit from before the first byte until one window after the attempt's end; a counter \
        that resets each calendar second lets twice the cap through",
    stall: Stall::Crowds,
    by_contract: true,
    stands_alone: true,
    picture: Picture::Window,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let mut figures = Vec::new();
    let has_caps = |lane: &Lane<'_>| lane.epochs.iter().any(|epoch| !epoch.limit.windows.is_empty());
    for (at, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| has_caps(lane)) {
        for (span, window) in capped(&lane.epochs) {
            let (arrivals, times) = arrivals(evidence, lane, span);
            if times.is_empty() {
                continue;
            }
            tally.see();
            let most = fullest(&times, window.length.0);
            figures.push((
                format!("{} fullest window of {}", lane.subscriber.name, window.length),
                most,
                window.count,
            ));
            if let Some((from, to)) = first_excess(&times, window) {
                let length = show(times[to] - times[from]);
                let what = format!("{} arrivals in {length}; the cap is {window}", to - from + 1);
                tally.broke(|| evidence.witness(at, &arrivals[from..=to], what));
            }
        }
        let (_, times) = arrivals(evidence, lane, (0, u64::MAX));
        if !times.is_empty() {
            let most = fullest_calendar_second(&times, evidence.trace.header.began_unix_ns);
            figures.push((format!("{} fullest calendar second", lane.subscriber.name), most, 0));
        }
    }
    if !evidence.lanes.iter().any(has_caps) {
        return Finding::unasked("no subscriber has a window cap");
    }
    let finding = tally.finding("window caps", "never exceeded", "exceeded");
    figures.into_iter().take(12).fold(finding, |finding, (name, most, cap)| match cap {
        0 => finding.with(name, most),
        cap => finding.with(name, format!("{most} of {cap}")),
    })
}
