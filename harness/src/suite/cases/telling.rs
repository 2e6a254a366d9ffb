//! `leak.*`, `timing.*`: information in rejections.

use super::super::bench::Bench;
use super::super::course::{Case, Finding, Running};
use super::super::want::Want;
use super::signature::wrong;
use crate::wire::clock::unix_seconds;
use crate::wire::exchange::{Feed, Outcome};
use hookproof_judge::signature::encode;

pub(super) const CASES: [Case; 2] = [
    Case::course("leak.error-body", |bench| -> Running<'_> { Box::pin(leak(bench)) }),
    Case::course("timing.remote", |bench| -> Running<'_> { Box::pin(timing(bench)) }),
];

/// The number of timed signatures of each kind: nearly right and wholly wrong.
const TIMED: u8 = 100;

/// Provokes several kinds of errors. Every error answer of the run has been searched already.
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
        None if errors == 0 => Finding::unclear("there was no error answer to look through"),
        None => Finding::pass("nothing in any error answer of this run"),
    }
}

/// Compares the times of both kinds of wrong signatures by Welch's t, as information only.
async fn timing(bench: &Bench<'_>) -> Finding {
    let (mut near, mut far) = (Spread::default(), Spread::default());
    for at in 0..TIMED {
        let delivery = bench.delivery();
        let profile = bench.settings.profile;
        let mut tag = bench.tag(&delivery);
        tag[31] ^= 1;
        let signatures = [encode(profile, &tag), wrong(bench, at)];
        // Alternating, and each first in turn, so that a drift of the network affects both alike.
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
        if t.abs() > 4.5 { "they differ: see how signatures are compared" } else { "no difference seen" }
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
