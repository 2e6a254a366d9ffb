//! Every case in its order: correct requests first, attacks on the process last.

mod ack;
mod handshake;
mod header;
mod limit;
mod replay;
mod signature;
mod time;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use hookproof_judge::catalogue::Verdict;

use super::bench::{Bench, Delivery, Shot};
use super::want::{Want, Wrong, words};
use crate::wire::clock::{Watch, unix_seconds};
use crate::wire::exchange::Outcome;
use crate::wire::request::Request;
pub(super) use limit::Slow;

pub(super) fn all() -> Vec<Case> {
    [
        signature::CASES.as_slice(),
        &signature::ROTATION,
        &header::RAW,
        &time::CASES,
        &header::CASES,
        &replay::CASES,
        &replay::MEMORY,
        &ack::CASES,
        &handshake::CASES,
        &limit::CASES,
        &limit::COMPRESSED,
        &ack::LEAKS,
    ]
    .concat()
}

const STORE_FIRST: &str = "commit each delivery before you answer it with 2xx, and answer 503 if you cannot; no sender repeats it after 2xx";

/// The cases whose remedy mends others too.
const UNVERIFIED: &str = "sig.wrong-secret";
const UNSIGNED: &str = "sig.missing";
const BREAKS: &str = "raw.not-json";
const REPEATS: &str = "replay.exact";
const CHUNKED: &str = "raw.chunked";
const OLD: &str = "time.old";
const AHEAD: &str = "time.future";
/// Cases beside those of times whose signature is right.
const GENUINE: [&str; 4] = ["header.missing-id", "header.not-ascii", "header.twice", "sig.dot-shift"];
const OF_AGE: [&str; 4] = [AHEAD, "time.extreme", "time.twice", "time.unsigned"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) came: String,
    /// Whether an acknowledged delivery was lost. No sender repeats it, so this fails at any severity.
    pub(super) is_loss: bool,
    /// Whether the user's command ended the receiver, so that no other case can be judged.
    pub(super) has_ended: bool,
    /// Whether a forgery was refused only as if the receiver had failed.
    pub(super) is_accident: bool,
    /// Whether the list of effects shows that such a forgery had none.
    pub(super) had_no_effect: bool,
    /// In place of the catalogue's remedy, where the finding has another cause.
    pub(super) remedy: Option<&'static str>,
    /// What it saw, in words that other cases share.
    pub(super) wrong: Option<String>,
    /// The case whose remedy mends this one too, if its exchanges exclude other causes.
    pub(super) cause: Option<&'static str>,
}

impl Finding {
    pub(super) fn new(verdict: Verdict, came: impl Into<String>) -> Self {
        Self {
            verdict,
            came: came.into(),
            is_loss: false,
            has_ended: false,
            is_accident: false,
            had_no_effect: false,
            remedy: None,
            wrong: None,
            cause: None,
        }
    }

    pub(super) fn pass(came: impl Into<String>) -> Self {
        Self::new(Verdict::Pass, came)
    }

    pub(super) fn fail(came: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, came)
    }

    pub(super) fn loss(came: impl Into<String>) -> Self {
        let wrong = Some("2xx, and never processed".to_owned());
        Self { is_loss: true, remedy: Some(STORE_FIRST), wrong, ..Self::fail(came) }
    }

    pub(super) fn warn(came: impl Into<String>) -> Self {
        Self::new(Verdict::Warn, came)
    }

    /// Of forgeries that were answered with 5xx.
    pub(super) async fn accident(
        bench: &Bench<'_>,
        forged: &[&Request],
        known: Option<&Delivery>,
        came: &str,
    ) -> Self {
        let effects = bench.have_effects(forged, known).await;
        let unknown = match &effects {
            Ok(true) => {
                let wrong = Some("5xx, and processed all the same".to_owned());
                return Self { wrong, ..Self::fail(format!("{came}, and processed all the same")) };
            }
            Ok(false) => String::new(),
            Err(why) => format!("; its effects are unknown: {why}"),
        };
        let accident = Self::warn(format!("rejected by accident: {came}{unknown}"));
        Self { is_accident: true, had_no_effect: effects.is_ok(), ..accident }
    }

    fn ended(came: &str) -> Self {
        let came = format!("the receiver ended: {came}; --break-command has to make it answer 5xx");
        Self { has_ended: true, ..Self::unclear(came) }
    }

    pub(super) fn unclear(came: impl Into<String>) -> Self {
        Self::new(Verdict::Inconclusive, came)
    }

    /// With the cause that its exchanges show, once a control has excluded the others.
    async fn traced(mut self, bench: &Bench<'_>, id: &str) -> Self {
        let wrong = bench.take_wrong();
        if self.wrong.is_some() || ![Verdict::Fail, Verdict::Warn].contains(&self.verdict) {
            return self;
        }
        let mut shown: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        shown.dedup();
        self.wrong = shown.pop().filter(|_| shown.is_empty());
        self.cause = match wrong.first() {
            // Of a receiver that has failed altogether, no input is the cause.
            Some(Wrong::Broke) if wrong.len() == 1 => bench.still_serves().await.ok().map(|()| BREAKS),
            Some(Wrong::Accepted { .. }) if self.wrong.is_some() => {
                let whose = match () {
                    () if is_genuine(id) => "stale or malformed",
                    () if wrong.contains(&Wrong::Accepted { is_signed: true }) => "forged",
                    () => "unsigned",
                };
                self.wrong = self.wrong.map(|wrong| format!("{whose} requests are accepted: {wrong}"));
                accepted(bench, &wrong, id).await
            }
            _ => self.cause,
        };
        self
    }
}

/// Rightly signed, so verifying does not mend it.
fn is_genuine(id: &str) -> bool {
    id.starts_with("time.") || GENUINE.contains(&id)
}

/// A receiver that accepts a stranger's signature accepts every special one; one that accepts none, or any time, likewise.
async fn accepted(bench: &Bench<'_>, wrong: &BTreeSet<Wrong>, id: &str) -> Option<&'static str> {
    let delivery = bench.delivery();
    let stranger = bench.forged(&delivery, &bench.foreign_secret().ok()?);
    let stranger = bench.request(&delivery, &[stranger]);
    let header = bench.settings.profile.signature_header();
    let unsigned = bench.signed(&bench.delivery()).without(header);
    let is_unsigned = !wrong.contains(&Wrong::Accepted { is_signed: true });
    let age = bench.settings.tolerance_seconds + 3600;
    let at = |seconds| bench.signed(&bench.delivery().at(bench.stamp(unix_seconds() + seconds)));
    let controls = [
        ("the control: signed with another secret", stranger, UNVERIFIED, !is_genuine(id)),
        ("the control: not signed", unsigned, UNSIGNED, is_unsigned),
        ("the control: an old delivery", at(-age), OLD, OF_AGE.contains(&id)),
        ("the control: a delivery from ahead", at(age), AHEAD, id == "time.extreme"),
    ];
    for (label, request, cause, explains) in controls {
        if explains && Want::Accept.is_met(&bench.send(label, &request, Want::Report).await.outcome) {
            return Some(cause);
        }
    }
    None
}

pub(super) type Shots = Result<Vec<Shot>, String>;

pub(super) type Running<'a> = Pin<Box<dyn Future<Output = Finding> + 'a>>;

#[derive(Clone, Copy)]
pub(super) enum CaseBody {
    Shots(fn(&Bench<'_>) -> Shots),
    Course(for<'a> fn(&'a Bench<'a>) -> Running<'a>),
}

#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) id: &'static str,
    pub(super) how: CaseBody,
}

impl Case {
    pub(super) const fn shots(id: &'static str, shots: fn(&Bench<'_>) -> Shots) -> Self {
        Self { id, how: CaseBody::Shots(shots) }
    }

    pub(super) const fn course(id: &'static str, course: for<'a> fn(&'a Bench<'a>) -> Running<'a>) -> Self {
        Self { id, how: CaseBody::Course(course) }
    }

    fn made(&self, bench: &Bench<'_>) -> Option<Vec<Shot>> {
        match self.how {
            CaseBody::Shots(make) => make(bench).ok(),
            CaseBody::Course(_) => None,
        }
    }

    /// A correct delivery follows: a receiver that stopped serving fails the case.
    pub(super) async fn run<'a>(&self, bench: &'a Bench<'a>) -> Finding {
        bench.take_wrong();
        let finding = match self.how {
            CaseBody::Shots(make) => match make(bench) {
                Ok(shots) if shots.is_empty() => Finding::unclear("nothing was sent"),
                Ok(shots) => fire_each(bench, shots, Some(self), None).await,
                Err(why) => return Finding::new(Verdict::NotApplicable, why),
            },
            CaseBody::Course(course) => course(bench).await,
        };
        Self::confirmed(bench, finding).await.traced(bench, self.id).await
    }

    /// A finding without a failure, once a correct delivery was accepted.
    pub(super) async fn confirmed(bench: &Bench<'_>, finding: Finding) -> Finding {
        // Each process of a command is a new one.
        let is_new = bench.settings.target.command.is_some();
        if is_new || finding.has_ended || [Verdict::Fail, Verdict::NotApplicable].contains(&finding.verdict) {
            return finding;
        }
        match bench.still_serves().await {
            Ok(()) => finding,
            Err(outcome) => not_served(&format!("{}; a correct delivery after it", finding.came), &outcome),
        }
    }
}

/// A correct delivery was not accepted during or after an attack.
pub(super) fn not_served(what: &str, outcome: &Outcome) -> Finding {
    let came = format!("{what}: {}", words(outcome));
    if limited(outcome) { Finding::unclear(format!("{came}: {THROTTLED}")) } else { Finding::fail(came) }
}

const THROTTLED: &str = "the receiver throttles the suite, so the case is inconclusive";

pub(super) async fn fire(bench: &Bench<'_>, shots: &[Shot]) -> Finding {
    fire_each(bench, shots.to_vec(), None, None).await
}

/// `known` was delivered before.
pub(super) async fn fire_after(bench: &Bench<'_>, shots: &[Shot], known: Option<&Delivery>) -> Finding {
    fire_each(bench, shots.to_vec(), None, known).await
}

/// Shots whose timestamp has become old are made anew, if they can be.
async fn fire_each(
    bench: &Bench<'_>,
    mut shots: Vec<Shot>,
    case: Option<&Case>,
    known: Option<&Delivery>,
) -> Finding {
    let mut sum = Sum::default();
    let mut watch = Watch::start();
    let fresh = Duration::from_secs(bench.settings.tolerance_seconds.unsigned_abs()) / 2;
    for place in 0..shots.len() {
        if watch.passed() > fresh && bench.settings.profile.has_timestamp() && sum.broken.is_empty() {
            let made = case.and_then(|case| case.made(bench)).filter(|made| made.len() == shots.len());
            let Some(made) = made else { return too_old(&shots[place]) };
            (shots, watch) = (made, Watch::start());
        }
        let Shot { label, request, want, control, withheld } = &shots[place];
        let exchange = bench.send(label, request, *want).await;
        let came = words(&exchange.outcome);
        if limited(&exchange.outcome) && *want != Want::Report {
            return Finding::unclear(format!("{label}: {came}: {THROTTLED}"));
        }
        if withheld.as_ref().is_some_and(|greeting| greeting.is_given_by(&exchange.outcome)) {
            bench.refute_last();
            sum.broken.push(format!("{label}: {came} with the answer to a handshake"));
            continue;
        }
        if want.is_accident(&exchange.outcome) {
            sum.accidents.push(format!("{label}: {came}"));
            sum.forged.push(request.clone());
            continue;
        }
        if !want.is_met(&exchange.outcome) {
            if let Some(control) = control
                && let outcome = bench.send(&format!("{label}: the control"), control, *want).await.outcome
                && !want.is_met(&outcome)
            {
                sum.unproven.push(format!("{label}: {came}; without that: {}", words(&outcome)));
                continue;
            }
            if let Some(Case { id, .. }) = case
                && is_by_library(bench, id, label, &exchange.outcome)
            {
                sum.by_library.push(format!("{label}: {came}"));
                continue;
            }
            sum.broken.push(format!("{label}: {came}"));
            if exchange.outcome == Outcome::Silent {
                // Further silent requests would take as long.
                break;
            }
        }
        if *want == Want::Report {
            sum.seen.push(format!("{label}: {came}"));
        } else if !sum.seen.contains(&came) {
            sum.seen.push(came);
        }
    }
    sum.finding(bench, known).await
}

/// What came of the shots of a case, in words.
#[derive(Default)]
struct Sum {
    seen: Vec<String>,
    broken: Vec<String>,
    by_library: Vec<String>,
    unproven: Vec<String>,
    accidents: Vec<String>,
    forged: Vec<Request>,
}

impl Sum {
    async fn finding(self, bench: &Bench<'_>, known: Option<&Delivery>) -> Finding {
        let library = bench.settings.known.library.filter(|_| !self.by_library.is_empty());
        if !self.broken.is_empty() {
            Finding::fail(self.broken.join("; "))
        } else if !self.unproven.is_empty() {
            Finding::unclear(format!("{}: another cause comes before it", self.unproven.join("; ")))
        } else if !self.accidents.is_empty() {
            let forged: Vec<_> = self.forged.iter().collect();
            Finding::accident(bench, &forged, known, &self.accidents.join("; ")).await
        } else if let Some(library) = library {
            let fault = format!("a fault of {}, to be caught before its call", library.name);
            let came = format!("{fault}: {}", self.by_library.join("; "));
            Finding { wrong: Some(fault), ..Finding::warn(came) }
        } else {
            Finding::pass(self.seen.join(", "))
        }
    }
}

/// A library accepts or refuses. Any other outcome is the receiver's own.
fn is_by_library(bench: &Bench<'_>, case: &str, label: &str, outcome: &Outcome) -> bool {
    let is_decision = matches!(outcome, Outcome::Answer(answer) if [2, 4].contains(&(answer.status / 100)));
    is_decision && bench.settings.known.library.is_some_and(|library| library.fails(case, label))
}

fn too_old(shot: &Shot) -> Finding {
    Finding::unclear(format!("{}: its timestamp is older than half of the tolerance", shot.label))
}

/// Whether the receiver limited the rate, and did not judge the request.
pub(super) fn limited(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answer(answer) if answer.status == 429)
}

#[cfg(test)]
mod tests {
    use hookproof_judge::catalogue;

    use super::*;

    #[test]
    fn there_is_a_case_for_every_entry_of_the_catalogue_and_no_other() {
        let cases: Vec<_> = all().iter().map(|case| case.id).collect();
        let entries: Vec<_> = catalogue::receiver().iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(cases, entries);
        for cause in
            [UNVERIFIED, UNSIGNED, BREAKS, REPEATS, CHUNKED, OLD].into_iter().chain(OF_AGE).chain(GENUINE)
        {
            assert!(entries.contains(&cause), "{cause}");
        }
    }
}
