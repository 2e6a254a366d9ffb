//! `breaker.opens`, `breaker.one-probe`, `breaker.cooldown` replay the declared breaker over the exchanges that the
//! endpoint saw:
//!
//! ```text
//!  closed ──(the nth failure in a row)──► open ──(its cooldown)──► probing ──(success)──► closed
//!                                          ▲  cooldown doubles          │
//!                                          └──────────(failure)─────────┘
//! ```
//!
//! - An arrival within `retry_after_late` of an opening had left before. Any other arrival before the end of the
//!   cooldown breaks `opens`, or `cooldown` after a failed probe.
//! - A second arrival during a probe breaks `one-probe`.
//! - A whole answer with a usable `Retry-After` is neither success nor failure.
//! - A failure that ends within [`BESIDE`] of a success counts as before it, as the sender may have noticed it earlier.
//! - A kill resets the model to closed, as the sender may have lost its count.
//! - A sender that opens sooner than declared breaks nothing.

use super::evidence::{Evidence, Lane};
use super::retry::RequestedPause;
use super::verdict::{Finding, Tally, show, show_beside};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::Breaker;
use crate::trace::Lack;

pub(super) const BESIDE: u64 = 50_000_000;

#[derive(Clone, Copy)]
enum State {
    Closed { failures: u32, well: Option<u64> },
    Open { since: u64, cooldown: u64, probed: bool },
    Probing { probe: u32, cooldown: u64 },
}

impl State {
    const CLOSED: Self = Self::Closed { failures: 0, well: None };

    const fn well(t: u64) -> Self {
        Self::Closed { failures: 0, well: Some(t) }
    }
}

#[derive(Default)]
struct Found {
    opens: Tally,
    one_probe: Tally,
    cooldown: Tally,
}

pub(super) const OPENS: Check = Check {
    id: "breaker.opens",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "after the declared number of consecutive failures the sender pauses the endpoint",
    why: "requests to a dead endpoint take connections from other endpoints and use up the deliveries' \
        attempts",
    remedy: "count consecutive failures per endpoint, and stop sending to it at the threshold",
    needs: &[Lack::Breaker],
    stall: Stall::Delays,
    picture: Picture::Backlog,
    find: opens,
    ..Check::PLAIN
};

pub(super) fn opens(evidence: &Evidence<'_>) -> Finding {
    judge(
        evidence,
        |found| found.opens,
        "breaker openings",
        "no request during the cooldown",
        "requests during the cooldown",
    )
}

pub(super) const ONE_PROBE: Check = Check {
    id: "breaker.one-probe",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "a half-open breaker lets one probe through at a time",
    why: "a probe should cost one request; many at once are the storm that a breaker prevents",
    remedy: "make the probe a state of the breaker, and enter that state before the probe's request starts",
    needs: &[Lack::Breaker],
    stall: Stall::Delays,
    picture: Picture::Backlog,
    find: one_probe,
    ..Check::PLAIN
};

fn one_probe(evidence: &Evidence<'_>) -> Finding {
    judge(
        evidence,
        |found| found.one_probe,
        "probes",
        "one request at a time",
        "a second request during the probe",
    )
}

pub(super) const COOLDOWN: Check = Check {
    id: "breaker.cooldown",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "the cooldown doubles with every failed probe, up to its cap",
    why: "with doubling, an endpoint that is down for a day gets a few dozen probes instead of thousands",
    remedy: "keep the cooldown with the breaker, double it on a failed probe and reset it on success",
    needs: &[Lack::Breaker],
    stall: Stall::Delays,
    picture: Picture::Backlog,
    find: cooldown,
    ..Check::PLAIN
};

pub(super) fn cooldown(evidence: &Evidence<'_>) -> Finding {
    judge(
        evidence,
        |found| found.cooldown,
        "failed probes",
        "the cooldown doubled up to its cap",
        "probed again too soon",
    )
}

fn judge(evidence: &Evidence<'_>, choose: fn(Found) -> Tally, noun: &str, good: &str, bad: &str) -> Finding {
    let asked = |lane: &Lane<'_>| lane.subscriber.breaker.is_some() && !lane.subscriber.behaviours.is_empty();
    if !evidence.lanes.iter().any(asked) {
        return Finding::unasked("no subscriber with a `breaker` has a failing endpoint");
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
    // By time. At one moment, ends of earlier exchanges come first: in virtual time an exchange may begin and end at
    // one moment.
    let mut steps: Vec<(u64, bool, u32, bool)> = Vec::with_capacity(lane.arrivals.len() * 2);
    for n in &lane.arrivals {
        let exchange = evidence.exchange(*n);
        steps.push((exchange.t, true, *n, false));
        steps.push((exchange.end, exchange.end == exchange.t, *n, true));
    }
    steps.sort_unstable();
    let grace = evidence.scenario.expect.retry_after_late.0;
    let mut state = State::CLOSED;
    let mut earlier = 0;
    for (t, _, n, ends) in steps {
        if evidence.was_killed(earlier, t) {
            state = State::CLOSED;
        }
        earlier = t;
        state = if ends {
            end(state, evidence, n, breaker, found)
        } else {
            begin(state, (evidence, at, n, t), grace, found)
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
            // The endpoint notes the end a little after the sender knows of it.
            if t.saturating_add(grace) >= since.saturating_add(cooldown) {
                found.one_probe.see();
                return State::Probing { probe: n, cooldown };
            }
            // No other request was under way that the machine could have held up.
            let late = if probed { t.saturating_sub(since) } else { evidence.late(since, t) };
            if late > grace {
                let what = format!(
                    "a request {} after the breaker opened; its cooldown is {}",
                    show_beside(t - since, cooldown),
                    show(cooldown)
                );
                let tally = if probed { &mut found.cooldown } else { &mut found.opens };
                tally.broke(|| evidence.witness(at, &[n], what));
            }
            state
        }
        State::Probing { probe, .. } => {
            found
                .one_probe
                .broke(|| evidence.witness(at, &[probe, n], "a second request during the probe".to_owned()));
            state
        }
        State::Closed { .. } => state,
    }
}

fn end(state: State, evidence: &Evidence<'_>, n: u32, breaker: &Breaker, found: &mut Found) -> State {
    let exchange = evidence.exchange(n);
    let told = evidence.requested_pause(n).is_some_and(|asked| asked != RequestedPause::Seconds(0));
    let well = exchange.is_delivered();
    // The endpoint may have noticed late that the sender gave up.
    let noticed = if exchange.ended_by_peer() { evidence.forgiven.behind(exchange.end) } else { 0 };
    let since = exchange.end.saturating_sub(noticed);
    match state {
        State::Closed { .. } if well => State::well(exchange.end),
        State::Closed { well: Some(success), .. } if exchange.end <= success.saturating_add(BESIDE) => state,
        State::Closed { failures, well } if !told => {
            let failures = failures + 1;
            if failures < breaker.failures {
                return State::Closed { failures, well };
            }
            found.opens.see();
            State::Open { since, cooldown: breaker.cooldown.0, probed: false }
        }
        State::Probing { probe, cooldown } if probe == n => {
            if well || told {
                return if well { State::well(exchange.end) } else { State::CLOSED };
            }
            found.cooldown.see();
            let cooldown = cooldown.saturating_mul(2).min(breaker.cooldown_max.0);
            State::Open { since, cooldown, probed: true }
        }
        // A late success of an older request may have closed the breaker.
        State::Open { .. } | State::Probing { .. } if well => State::well(exchange.end),
        other => other,
    }
}
