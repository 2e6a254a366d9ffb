//! `replay.cached`, `replay.distinct`: a receiver's memory of deliveries.

use super::super::bench::{Bench, Delivery, Shot};
use super::super::course::{Case, Finding, Running, fire, limited};
use super::super::want::Want::{Accept, Reject};
use super::super::want::words;
use super::replay::step;
use super::signature::wrong;
use crate::wire::exchange::Outcome;
use hookproof_judge::catalogue::Verdict;

pub(super) const CASES: [Case; 2] = [
    Case::course("replay.cached", |bench| -> Running<'_> { Box::pin(cached(bench)) }),
    Case::course("replay.distinct", |bench| -> Running<'_> { Box::pin(distinct(bench)) }),
];

/// The length of ids that differ in their last character: longer than columns that truncate silently, shorter
/// than receivers' limits.
const LONG_ID: usize = 100;

async fn cached(bench: &Bench<'_>) -> Finding {
    let known = bench.delivery();
    if let Err(finding) = step(bench, "a delivery", &known, Accept).await {
        return finding;
    }
    let finding = fire(bench, &forgeries(bench, &known)).await;
    if finding.verdict != Verdict::Pass {
        return finding;
    }
    let after = on_one_connection(bench).await;
    Finding { came: format!("{}; {}", finding.came, after.came), ..after }
}

/// Forgeries that each share something with a verified delivery.
fn forgeries(bench: &Bench<'_>, known: &Delivery) -> Vec<Shot> {
    let profile = bench.settings.profile;
    let shot = |what: &str, delivery: &Delivery, signature: String| {
        Shot::new(what, bench.request(delivery, &[signature]), Reject)
    };
    let forged = r#"{"video":"forged"}"#;
    let at_that_time = || bench.delivery().at(&known.timestamp).with_data(forged);
    let mut shots = vec![
        shot("its id, wrongly signed", &known.clone().with_data(forged), wrong(bench, 0)),
        shot("the same again, wrongly signed", known, wrong(bench, 1)),
        shot("its signature on another delivery", &at_that_time(), bench.signature(known)),
    ];
    if profile.id_header().is_some() {
        let body = bench.delivery().at(&known.timestamp).with_body(known.body.clone());
        shots.push(shot("its body under another id, wrongly signed", &body, wrong(bench, 2)));
    }
    if profile.signs_timestamp() {
        shots.push(shot("its timestamp, wrongly signed", &at_that_time(), wrong(bench, 3)));
    }
    shots
}

/// A forgery on a connection after an accepted delivery.
async fn on_one_connection(bench: &Bench<'_>) -> Finding {
    let forged = bench.delivery();
    let rows = [
        ("a delivery on a connection", bench.signed(&bench.delivery()), Accept),
        ("a forgery after it", bench.request(&forged, &[wrong(bench, 4)]), Reject),
    ];
    let bytes: Vec<Vec<u8>> = rows.iter().map(|(_, request, _)| request.bytes()).collect();
    let exchanges = bench.succession(&bytes).await;
    for ((label, request, want), exchange) in rows.iter().zip(&exchanges) {
        bench.keep(label, request, *want, exchange);
        let (outcome, came) = (&exchange.outcome, format!("{label}: {}", words(&exchange.outcome)));
        match () {
            () if limited(outcome) => return Finding::unclear(came),
            () if want.is_accident(outcome) => return Finding::accident(&came),
            // A connection may close at any time; its end says nothing about forgeries.
            () if *want == Reject && *outcome == Outcome::Closed => {
                return Finding::pass("its connections are not kept");
            }
            () if !want.is_met(outcome) => return Finding::fail(came),
            () => {}
        }
    }
    match exchanges.len() {
        2.. => Finding::pass("a forgery on the same connection too"),
        _ => Finding::pass("its connections are not kept"),
    }
}

/// Pairs of ids that a case-insensitive or truncating column confuses.
async fn distinct(bench: &Bench<'_>) -> Finding {
    let named = |id: String| Delivery { id, ..bench.delivery() }.with_data("{}");
    let (short, long) = (bench.delivery().id, bench.delivery().id);
    let long = format!("{long:x<width$}", width = LONG_ID - 1);
    let pairs = [
        ("ids that differ in case", [format!("{short}_aB"), format!("{short}_Ab")]),
        ("ids of 100 characters that differ in the last", [format!("{long}1"), format!("{long}2")]),
    ];
    let mut lost = Vec::new();
    for (what, ids) in pairs {
        for id in ids {
            let delivery = named(id);
            if let Err(finding) = step(bench, what, &delivery, Accept).await {
                return finding;
            }
            match bench.effects_of(&delivery.id).await {
                Ok(0) => lost.push(what),
                Ok(_) => {}
                Err(why) => {
                    return Finding::unclear(format!("accepted; whether both were processed: {why}"));
                }
            }
        }
    }
    match lost.first() {
        Some(what) => Finding::loss(format!("{what}: accepted, and one of the two never processed")),
        None => Finding::pass("both processed, each time"),
    }
}
