//! `order.*`, `ack.*`, `method.*`, `leak.*`, `timing.*`: acknowledgements, requests that are no deliveries,
//! and information in rejections.

use std::time::Duration;

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::signature::encode;
use tokio::task::JoinSet;

use super::super::want::Want::{Accept, NotTaken, Report};
use super::signature::wrong;
use super::{Case, Finding, Running, Shots};
use crate::suite::bench::{Bench, DATA, Shot};
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

/// The count, and the total time limit.
const TIMED: (usize, Duration) = (100, Duration::from_secs(30));
const TIMED_MIN: usize = 10;
/// Beyond the first senders give up; beyond the second they complain.
const SLOWEST: Duration = Duration::from_secs(10);
const SLOW: Duration = Duration::from_secs(1);
/// Requests, far beyond any rate, and those open at once.
const OVERLOAD: (usize, usize) = (600, 100);

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
    let mut times = Vec::new();
    while times.len() < most && (watch.passed() < limit || times.len() < TIMED_MIN) {
        let request = bench.signed(&bench.delivery());
        let exchange =
            bench.exchange(&Feed::Whole(request.bytes()), bench.settings.timeout.max(SLOWEST)).await;
        if !Accept.is_met(&exchange.outcome) || exchange.took > SLOW {
            bench.record_exchange("a correct delivery", &request, Accept, &exchange);
        }
        match &exchange.outcome {
            Outcome::Silent => return Finding::fail("no acknowledgement in time"),
            Outcome::Answer(answer) if answer.status < 300 => times.push(exchange.took),
            // Another case judges the amount that it takes.
            Outcome::Answer(answer) if [429, 503].contains(&answer.status) && times.len() >= TIMED_MIN => {
                break;
            }
            other => return Finding::unclear(format!("after {}: {}", times.len(), words(other))),
        }
    }
    times.sort_unstable();
    let p99 = times[(times.len() * 99).div_ceil(100) - 1];
    let came = format!("p99 {} ms of {}", p99.as_millis(), times.len());
    match p99 {
        _ if p99 > SLOWEST => Finding::fail(came),
        _ if p99 > SLOW => Finding::warn(came),
        _ => Finding::pass(came),
    }
}

async fn overload(bench: &Bench<'_>) -> Finding {
    let (count, at_once) = OVERLOAD;
    let (mut open, mut accepted, mut later, mut broken) = (JoinSet::new(), Vec::new(), 0, Vec::new());
    let mut weigh = |(id, request, exchange): (String, Request, Exchange)| match &exchange.outcome {
        outcome if Accept.is_met(outcome) => accepted.push(id),
        Outcome::Answer(answer)
            if [429, 503].contains(&answer.status) && answer.header("retry-after").is_some() =>
        {
            later += 1;
        }
        outcome => {
            let came = words(outcome);
            if !broken.contains(&came) {
                bench.record_exchange(
                    &format!("one of {count} deliveries, {at_once} at once"),
                    &request,
                    Accept,
                    &exchange,
                );
                broken.push(came);
            }
        }
    };
    for _ in 0..count {
        let delivery = bench.delivery();
        let request = bench.signed(&delivery);
        let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
        let (feed, limit) = (Feed::Whole(request.bytes()), bench.settings.timeout);
        open.spawn(async move { (delivery.id, request, exchange(&target, &addresses, &feed, limit).await) });
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
        return Finding::fail(format!("{came}; {}", broken.join("; ")));
    }
    if bench.effects.borrow().is_err() {
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
        let exchange = bench.send(what, &request, Want::NoBreak).await;
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

/// Every error answer of the run has been searched already.
async fn leak(bench: &Bench<'_>) -> Finding {
    let delivery = bench.delivery();
    let header = bench.settings.profile.signature_header();
    let old = delivery.clone().at(unix_seconds() - bench.settings.tolerance_seconds - 3600);
    let requests = [
        ("a wrong signature", bench.request(&delivery, &[wrong(bench, 0)])),
        ("a broken signature", bench.request(&delivery, &["%00".to_owned()])),
        ("no signature", bench.signed(&delivery).without(header)),
        ("an old delivery, wrongly signed", bench.request(&old, &[wrong(bench, 1)])),
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
        let profile = bench.settings.profile;
        let mut tag = bench.tag(&delivery);
        tag[31] ^= 1;
        let signatures = [encode(profile, &tag), wrong(bench, at)];
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
