//! `order.*`, `ack.*`, `method.*`, `leak.*`, `timing.*`: acknowledgements, requests that are no deliveries,
//! and information in rejections.

use std::time::Duration;

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::check::Starvation;
use hookproof_judge::trace::Stall;
use tokio::task::JoinSet;

use super::super::want::Want::{Accept, NotTaken, Report};
use super::signature::wrong;
use super::{Case, Finding, Running, Shots};
use crate::clock::{Clock, nanos};
use crate::stall::Machine;
use crate::suite::bench::{Bench, DATA, Shot};
use crate::suite::record::Repeat;
use crate::suite::want::{Want, words};
use crate::wire::clock::{Watch, unix_seconds};
use crate::wire::exchange::{Exchange, Feed, Outcome, exchange};
use crate::wire::request::Request;

pub(super) const CASES: [Case; 9] = [
    Case::shots("order.swapped", swapped),
    Case::course("ack.fast", |bench| -> Running<'_> { Box::pin(fast(bench)) }),
    Case::shots("ack.unknown-type", unknown_type),
    Case::course("ack.overload", |bench| -> Running<'_> { Box::pin(overload(bench)) }),
    Case::course("ack.no-redirect", |bench| -> Running<'_> { Box::pin(no_redirect(bench)) }),
    Case::shots("method.get", |bench| method(bench, "GET", NotTaken)),
    Case::shots("method.put", |bench| method(bench, "PUT", NotTaken)),
    Case::shots("method.delete", |bench| method(bench, "DELETE", NotTaken)),
    Case::shots("method.options", |bench| method(bench, "OPTIONS", Report)),
];

const TIMED: (usize, Duration) = (100, Duration::from_secs(30));
const TIMED_MIN: usize = 10;
/// Beyond the first senders give up; beyond the second they complain.
const SLOWEST: Duration = Duration::from_secs(10);
const SLOW: Duration = Duration::from_secs(1);
const OVERLOAD: (usize, usize) = (600, 100);
const REPEAT_OVERLOAD: Repeat<'_> = Repeat::Not("it takes 600 different deliveries, 100 at once");

fn swapped(bench: &Bench<'_>) -> Shots {
    let second = bench.delivery();
    let first = bench.delivery().of_moment(unix_seconds() - 60, DATA);
    Ok(vec![
        Shot::new("the later event", bench.signed(&second), Accept),
        Shot::new("the earlier event after it", bench.signed(&first), Accept),
    ])
}

fn unknown_type(bench: &Bench<'_>) -> Shots {
    let mut delivery = bench.delivery();
    delivery.event_type = "hookproof.nobody-knows-this".to_owned();
    let delivery = delivery.with_data(DATA);
    Ok(vec![Shot::new("an unknown event type", bench.signed(&delivery), Accept)])
}

async fn fast(bench: &Bench<'_>) -> Finding {
    let (most, limit) = TIMED;
    let watch = Watch::start();
    let Ok(machine) = Machine::start() else { return unwatched() };
    let mut waits = Vec::new();
    while waits.len() < most && (watch.passed() < limit || waits.len() < TIMED_MIN) {
        let request = bench.signed(&bench.delivery());
        let exchange =
            bench.exchange(&Feed::Whole(request.bytes()), bench.settings.timeout.max(SLOWEST)).await;
        if !Accept.is_met(&exchange.outcome) || exchange.took > SLOW {
            bench.record_exchange("a correct delivery", &request, Accept, &exchange);
        }
        match &exchange.outcome {
            Outcome::Silent => {
                let wait = wait(&machine.clock, &exchange);
                return silent("no acknowledgement in time", &[wait], &machine.end());
            }
            Outcome::Answer(answer) if answer.status < 300 => waits.push(wait(&machine.clock, &exchange)),
            // Another case judges the amount that it takes.
            Outcome::Answer(answer) if [429, 503].contains(&answer.status) && waits.len() >= TIMED_MIN => {
                break;
            }
            other => return Finding::unclear(format!("after {}: {}", waits.len(), words(other))),
        }
    }
    timed(&waits, &machine.end())
}

fn unwatched() -> Finding {
    Finding::new(Verdict::HarnessError, "no thread could be started that watches the machine")
}

fn wait(clock: &Clock, exchange: &Exchange) -> (u64, u64) {
    let until = clock.now();
    (until.saturating_sub(nanos(exchange.took)), until)
}

/// Judges the times of acknowledgements. A slowness that ends without the machine's part says nothing.
fn timed(waits: &[(u64, u64)], stalls: &[Stall]) -> Finding {
    let machine = Starvation::of(stalls);
    let p99 = |took: &dyn Fn(&(u64, u64)) -> u64| {
        let mut times: Vec<u64> = waits.iter().map(took).collect();
        times.sort_unstable();
        Duration::from_nanos(times[(times.len() * 99).div_ceil(100) - 1])
    };
    let verdict = |p99: Duration| match p99 {
        _ if p99 > SLOWEST => Verdict::Fail,
        _ if p99 > SLOW => Verdict::Warn,
        _ => Verdict::Pass,
    };
    let all = p99(&|(from, until)| until - from);
    let own = p99(&|(from, until)| (until - from).saturating_sub(machine.delay(*from, *until)));
    let came = format!("p99 {} ms of {}", all.as_millis(), waits.len());
    if verdict(own) == verdict(all) {
        return Finding::new(verdict(all), came);
    }
    Finding::unclear(format!("{came}; without the machine's stalls {} ms", own.as_millis()))
}

/// A wait that the suite gave up fails the case, unless the machine stalled for a tenth of each, and none is too long
/// without the stalls.
fn silent(came: &str, waits: &[(u64, u64)], stalls: &[Stall]) -> Finding {
    let machine = Starvation::of(stalls);
    let is_held_up = |(from, until): &(u64, u64)| {
        let (wait, delay) = (until - from, machine.delay(*from, *until));
        delay >= wait / 10 && wait.saturating_sub(delay) <= nanos(SLOWEST)
    };
    if waits.is_empty() || !waits.iter().all(is_held_up) {
        return Finding::fail(came);
    }
    Finding::unclear(format!("{came}; the machine stalled meanwhile"))
}

async fn overload(bench: &Bench<'_>) -> Finding {
    let (count, at_once) = OVERLOAD;
    let Ok(machine) = Machine::start() else { return unwatched() };
    let (mut open, mut accepted, mut later, mut broken) = (JoinSet::new(), Vec::new(), 0, Vec::new());
    let (mut unanswered, mut is_answered_wrongly) = (Vec::new(), false);
    let mut weigh = |(id, request, exchange, span): (String, Request, Exchange, _)| match &exchange.outcome {
        outcome if Accept.is_met(outcome) => accepted.push(id),
        Outcome::Answer(answer)
            if [429, 503].contains(&answer.status) && answer.header("retry-after").is_some() =>
        {
            later += 1;
        }
        outcome => {
            unanswered.extend((*outcome == Outcome::Silent).then_some(span));
            is_answered_wrongly |= *outcome != Outcome::Silent;
            let came = words(outcome);
            if !broken.contains(&came) {
                let label = format!("one of {count} deliveries, {at_once} at once");
                bench.record_as(REPEAT_OVERLOAD, &label, &request, Accept, &exchange);
                broken.push(came);
            }
        }
    };
    for _ in 0..count {
        let delivery = bench.delivery();
        let request = bench.signed(&delivery);
        let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
        let (feed, limit) = (Feed::Whole(request.bytes()), bench.settings.timeout);
        let clock = machine.clock.clone();
        open.spawn(async move {
            let exchange = exchange(&target, &addresses, &feed, limit).await;
            let span = wait(&clock, &exchange);
            (delivery.id, request, exchange, span)
        });
        if open.len() >= at_once {
            let Some(Ok(done)) = open.join_next().await else { continue };
            weigh(done);
        }
    }
    while let Some(done) = open.join_next().await {
        let Ok(done) = done else {
            return Finding::new(Verdict::HarnessError, "a delivery could not be sent");
        };
        weigh(done);
    }
    let sum = accepted.len();
    let came = format!("{sum} accepted, {later} refused for now, of {count}");
    if !broken.is_empty() {
        let came = format!("{came}; {}", broken.join("; "));
        return if is_answered_wrongly {
            Finding::fail(came)
        } else {
            silent(&came, &unanswered, &machine.end())
        };
    }
    if bench.settings.hooks.effects.is_none() {
        return Finding::pass(came);
    }
    match bench.lost(accepted).await {
        Ok(0) => Finding::pass(came),
        Ok(lost) => Finding::loss(format!("{lost} of {sum} that were accepted were never processed")),
        Err(why) => Finding::unclear(format!("{came}; processing is unknown: {why}")),
    }
}

async fn no_redirect(bench: &Bench<'_>) -> Finding {
    let mut seen = Vec::new();
    for (what, accept) in [("Accept: text/html", "text/html"), ("Accept: */*", "*/*")] {
        let request = bench.signed(&bench.delivery()).with("Accept", accept);
        let exchange = bench.send(what, &request, Want::NoFailure).await;
        if let Outcome::Answer(answer) = &exchange.outcome {
            if (300..400).contains(&answer.status) {
                return Finding::fail(format!("{what}: {}", answer.status));
            }
            seen.push(answer.status.to_string());
        }
    }
    if seen.is_empty() { Finding::unclear("no answer") } else { Finding::pass(seen.join(", ")) }
}

fn method(bench: &Bench<'_>, method: &'static str, want: Want) -> Shots {
    let mut delivery = bench.delivery();
    if method == "GET" || method == "OPTIONS" {
        delivery.body.clear();
    }
    let request = Request { method, ..bench.signed(&delivery) };
    Ok(vec![Shot::new(format!("{method}, signed"), request, want)])
}

pub(super) const LEAKS: [Case; 2] = [
    Case::course("leak.error-body", |bench| -> Running<'_> { Box::pin(leak(bench)) }),
    Case::course("timing.remote", |bench| -> Running<'_> { Box::pin(timing(bench)) }),
];

const REJECTIONS: u8 = 100;

async fn leak(bench: &Bench<'_>) -> Finding {
    let delivery = bench.delivery();
    let header = bench.settings.profile.signature_header();
    let old = delivery.clone().at(bench.stamp(unix_seconds() - bench.settings.tolerance_seconds - 3600));
    let requests = [
        ("a wrong signature", bench.request(&delivery, &[wrong(bench, &delivery, 0)])),
        ("a broken signature", bench.request(&delivery, &["%00".to_owned()])),
        ("no signature", bench.signed(&delivery).without(header)),
        ("an old delivery, wrongly signed", bench.request(&old, &[wrong(bench, &old, 1)])),
        ("no JSON", bench.signed(&bench.delivery().with_body("{"))),
    ];
    let mut errors = 0;
    for (what, request) in requests {
        let exchange = bench.send(what, &request, Want::Report).await;
        errors += usize::from(matches!(exchange.outcome, Outcome::Answer(answer) if answer.status >= 400));
    }
    let leaks = bench.leaks();
    match leaks.first() {
        Some(first) if leaks.len() > 1 => {
            Finding::fail(format!("{first}, and {} more like it", leaks.len() - 1))
        }
        Some(first) => Finding::fail(first.clone()),
        None if errors == 0 => Finding::unclear("there was no error answer to examine"),
        None => Finding::pass("no error answer of this run leaks details"),
    }
}

/// Compares the times of both kinds of wrong signatures by Welch's t, as information only.
async fn timing(bench: &Bench<'_>) -> Finding {
    let (mut near, mut far) = (Spread::default(), Spread::default());
    for at in 0..REJECTIONS {
        let delivery = bench.delivery();
        let mut tag = bench.tag(&delivery);
        tag.iter_mut().last().into_iter().for_each(|byte| *byte ^= 1);
        let signatures = [bench.encoded(&delivery, &tag), wrong(bench, &delivery, at)];
        // Each kind is first in turn, so that a drift of the network affects both alike.
        for place in [at % 2, 1 - at % 2] {
            let request = bench.request(&delivery, &[signatures[usize::from(place)].clone()]);
            let exchange = bench.exchange(&Feed::Whole(request.bytes()), bench.settings.timeout).await;
            let Outcome::Answer(_) = exchange.outcome else { continue };
            let micros = exchange.took.as_secs_f64() * 1e6;
            if place == 0 { near.add(micros) } else { far.add(micros) }
        }
    }
    let t = near.t(&far);
    Finding::pass(format!(
        "last byte wrong {:.0} µs, all wrong {:.0} µs, t = {t:.1} ({})",
        near.mean,
        far.mean,
        if t.abs() > 4.5 {
            "the times differ: check that signatures are compared in constant time"
        } else {
            "no difference"
        }
    ))
}

/// The running mean and variance (Welford).
#[derive(Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, number: f64) {
        self.count += 1.0;
        let before = number - self.mean;
        self.mean += before / self.count;
        self.squares += before * (number - self.mean);
    }

    fn error(&self) -> f64 {
        if self.count < 2.0 { 0.0 } else { self.squares / (self.count - 1.0) / self.count }
    }

    fn t(&self, other: &Self) -> f64 {
        let error = (self.error() + other.error()).sqrt();
        if error > 0.0 { (self.mean - other.mean) / error } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn stalled(from: u64, until: u64) -> [Stall; 1] {
        [Stall { thread: "sleeper".to_owned(), from: from * SECOND, until: until * SECOND }]
    }

    #[test]
    fn slow_acknowledgements_fail_unless_the_machine_held_them_up() {
        let took = |seconds: u64| vec![(20 * SECOND, (20 + seconds) * SECOND); 10];
        for (seconds, stalls, expected) in [
            (11, &stalled(0, 1), Verdict::Fail),
            (11, &stalled(21, 23), Verdict::Inconclusive),
            (14, &stalled(21, 23), Verdict::Fail),
            (5, &stalled(21, 23), Verdict::Warn),
            (2, &stalled(20, 21), Verdict::Inconclusive),
            (1, &stalled(20, 21), Verdict::Pass),
        ] {
            let finding = timed(&took(seconds), stalls);
            assert_eq!(finding.verdict, expected, "{seconds}: {}", finding.came);
        }
    }

    #[test]
    fn a_silence_fails_unless_the_machine_stalled_for_a_tenth_of_it_and_the_rest_is_short() {
        let wait = |from: u64| (from * SECOND, (from + 10) * SECOND);
        let long = (20 * SECOND, 34 * SECOND);
        for (waits, stalls, expected) in [
            (vec![wait(20)], stalled(0, 1), Verdict::Fail),
            (vec![long], stalled(25, 27), Verdict::Fail),
            (vec![long], stalled(25, 30), Verdict::Inconclusive),
            (vec![wait(20)], stalled(25, 26), Verdict::Inconclusive),
            (vec![wait(20), wait(50)], stalled(25, 26), Verdict::Fail),
        ] {
            assert_eq!(silent("", &waits, &stalls).verdict, expected, "{waits:?}");
        }
    }
}
