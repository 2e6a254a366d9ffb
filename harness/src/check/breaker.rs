//! `breaker.opens`, `breaker.one-probe`, `breaker.cooldown`: an endpoint that fails is left alone, asked with one request
//! at a time whether it is back, and left alone for longer each time it isn't.
//!
//! The declared breaker is followed beside the exchanges, by what an endpoint sees:
//!
//! ```text
//!  closed ──(the nth failure in a row)──► open ──(its cooldown)──► probing ──(success)──► closed
//!                                          ▲  cooldown doubles          │
//!                                          └──────────(failure)─────────┘
//! ```
//!
//! While it is open, an arrival within `retry_after_late` of its opening had left before; any other before the cooldown
//! is over breaks `opens` the first time and `cooldown` after a failed probe; a second arrival while a probe is open
//! breaks `one-probe`. A whole answer with a usable `Retry-After` is neither success nor failure. A killed process closes
//! the model, for what it had counted may be lost. A sender that opens sooner than it declares breaks nothing here.

use super::evidence::{Evidence, Lane};
use super::retry::asked::Asked;
use super::verdict::{Finding, Tally, show};
use crate::scenario::Breaker;

#[derive(Clone, Copy)]
enum State {
    Closed { failures: u32 },
    Open { since: u64, cooldown: u64, probed: bool },
    Probing { probe: u32, cooldown: u64 },
}

#[derive(Default)]
struct Found {
    opens: Tally,
    one_probe: Tally,
    cooldown: Tally,
}

/// `breaker.opens`
pub(super) fn opens(evidence: &Evidence<'_>) -> Finding {
    judge(
        evidence,
        |found| found.opens,
        "openings",
        "the endpoint was left alone",
        "the endpoint was hammered",
    )
}

/// `breaker.one-probe`
pub(super) fn one_probe(evidence: &Evidence<'_>) -> Finding {
    judge(evidence, |found| found.one_probe, "probes", "one at a time", "others beside them")
}

/// `breaker.cooldown`
pub(super) fn cooldown(evidence: &Evidence<'_>) -> Finding {
    judge(
        evidence,
        |found| found.cooldown,
        "failed probes",
        "the cooldown doubled up to its cap",
        "asked again too soon",
    )
}

fn judge(evidence: &Evidence<'_>, choose: fn(Found) -> Tally, noun: &str, good: &str, bad: &str) -> Finding {
    let asked = |lane: &Lane<'_>| lane.subscriber.breaker.is_some() && !lane.subscriber.behaviours.is_empty();
    if !evidence.lanes.iter().any(asked) {
        return Finding::unasked("no subscriber that fails declares a breaker");
    }
    let mut found = Found::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        if let Some(breaker) = &lane.subscriber.breaker {
            follow(evidence, at, lane, breaker, &mut found);
        }
    }
    choose(found).finding(noun, good, bad)
}

fn follow(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>, breaker: &Breaker, found: &mut Found) {
    // Beginnings and ends by time; at one moment ends come first.
    let mut steps: Vec<(u64, bool, u32)> = Vec::with_capacity(lane.arrivals.len() * 2);
    for n in &lane.arrivals {
        let exchange = evidence.exchange(*n);
        steps.push((exchange.t, true, *n));
        steps.push((exchange.end, false, *n));
    }
    steps.sort_unstable();
    let grace = evidence.scenario.expect.retry_after_late.0;
    let mut state = State::Closed { failures: 0 };
    let mut earlier = 0;
    for (t, begins, n) in steps {
        if evidence.was_killed(earlier, t) {
            state = State::Closed { failures: 0 };
        }
        earlier = t;
        state = if begins {
            begin(state, (evidence, at, n, t), grace, found)
        } else {
            end(state, evidence, n, breaker, found)
        };
    }
}

fn begin(
    state: State,
    (evidence, at, n, t): (&Evidence<'_>, u32, u32, u64),
    grace: u64,
    found: &mut Found,
) -> State {
    match state {
        State::Open { since, cooldown, probed } => {
            // The end is noted a little after the sender knows of it.
            if t.saturating_add(grace) >= since.saturating_add(cooldown) {
                found.one_probe.see();
                return State::Probing { probe: n, cooldown };
            }
            if t > since.saturating_add(grace) {
                let what = format!("{} after it opened; its cooldown is {}", show(t - since), show(cooldown));
                let tally = if probed { &mut found.cooldown } else { &mut found.opens };
                tally.broke(|| evidence.witness(at, &[n], what));
            }
            state
        }
        State::Probing { probe, .. } => {
            found
                .one_probe
                .broke(|| evidence.witness(at, &[probe, n], "a request beside the probe".to_owned()));
            state
        }
        State::Closed { .. } => state,
    }
}

fn end(state: State, evidence: &Evidence<'_>, n: u32, breaker: &Breaker, found: &mut Found) -> State {
    let exchange = evidence.exchange(n);
    let told = exchange.status().is_some()
        && evidence
            .asked(n)
            .is_some_and(|text| !matches!(Asked::read(text), Asked::Nonsense | Asked::Seconds(0)));
    let well = exchange.is_delivered();
    match state {
        State::Closed { .. } if well => State::Closed { failures: 0 },
        State::Closed { failures } if !told => {
            let failures = failures + 1;
            if failures < breaker.failures {
                return State::Closed { failures };
            }
            found.opens.see();
            State::Open { since: exchange.end, cooldown: breaker.cooldown.0, probed: false }
        }
        State::Probing { probe, cooldown } if probe == n => {
            if well || told {
                return State::Closed { failures: 0 };
            }
            found.cooldown.see();
            let cooldown = cooldown.saturating_mul(2).min(breaker.cooldown_max.0);
            State::Open { since: exchange.end, cooldown, probed: true }
        }
        // A late success of an older request may have closed it.
        State::Open { .. } | State::Probing { .. } if well => State::Closed { failures: 0 },
        other => other,
    }
}
