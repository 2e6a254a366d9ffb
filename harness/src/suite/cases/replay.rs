//! `replay.*`: repeated deliveries, and a receiver's memory of them.

use std::time::Duration;

use hookproof_judge::catalogue::Verdict;
use tokio::task::JoinSet;

use super::super::hooks::{self, Broken};
use super::signature::wrong;
use super::{Case, Finding, Running, fire, limited};
use crate::suite::bench::{Bench, Delivery, Shot};
use crate::suite::want::Want::{self, Accept, NoBreak, Reject};
use crate::suite::want::words;
use crate::wire::clock::{Watch, pass, unix_seconds};
use crate::wire::exchange::{Feed, Outcome, exchange};

pub(super) const CASES: [Case; 7] = [
    Case::course("replay.exact", |bench| -> Running<'_> { Box::pin(exact(bench)) }),
    Case::course("replay.at-once", |bench| -> Running<'_> { Box::pin(at_once(bench)) }),
    Case::course("replay.resigned", |bench| -> Running<'_> { Box::pin(resigned(bench)) }),
    Case::course("replay.same-id-new-body", |bench| -> Running<'_> { Box::pin(new_body(bench)) }),
    Case::course("replay.poison", |bench| -> Running<'_> { Box::pin(poison(bench)) }),
    Case::course("replay.after-restart", |bench| -> Running<'_> { Box::pin(after_restart(bench)) }),
    Case::course("replay.after-failure", |bench| -> Running<'_> { Box::pin(after_failure(bench)) }),
];

const COPIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Sends a delivery; an unexpected answer ends the case.
pub(super) async fn step(
    bench: &Bench<'_>,
    label: &str,
    delivery: &Delivery,
    want: Want,
) -> Result<(), Finding> {
    let exchange = bench.send(label, &bench.signed(delivery), want).await;
    judge(label, &exchange.outcome, want)
}

fn judge(label: &str, outcome: &Outcome, want: Want) -> Result<(), Finding> {
    match (want.is_met(outcome), limited(outcome)) {
        (_, true) => Err(Finding::unclear(format!("{label}: 429: the receiver limits the suite"))),
        (true, false) => Ok(()),
        (false, false) => Err(Finding::fail(format!("{label}: {}", words(outcome)))),
    }
}

async fn one_effect(bench: &Bench<'_>, delivery: &Delivery) -> Finding {
    match bench.effects_of(&delivery.id).await {
        Ok(1) => Finding::pass("accepted, one effect"),
        Ok(0) => Finding::fail("accepted, and never processed"),
        Ok(count) => Finding::fail(format!("{count} effects")),
        Err(why) => Finding::unclear(format!("accepted; its effects are unknown: {why}")),
    }
}

async fn exact(bench: &Bench<'_>) -> Finding {
    let delivery = bench.delivery();
    for label in ["a delivery", "the same again"] {
        if let Err(finding) = step(bench, label, &delivery, Accept).await {
            return finding;
        }
    }
    one_effect(bench, &delivery).await
}

async fn at_once(bench: &Bench<'_>) -> Finding {
    let delivery = bench.delivery();
    let request = bench.signed(&delivery);
    let mut copies = JoinSet::new();
    for _ in 0..COPIES {
        let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
        let (feed, limit) = (Feed::Whole(request.bytes()), bench.settings.timeout);
        copies.spawn(async move { exchange(&target, &addresses, &feed, limit).await });
    }
    let (mut accepted, mut broken) = (0, None);
    while let Some(copy) = copies.join_next().await {
        let Ok(exchange) = copy else {
            return Finding::new(Verdict::HarnessError, "a copy could not be sent");
        };
        accepted += usize::from(Accept.is_met(&exchange.outcome));
        // The receiver may delay a copy while it processes another.
        let later = matches!(&exchange.outcome, Outcome::Answer(answer)
            if answer.status == 409 || answer.header("retry-after").is_some());
        if !Accept.is_met(&exchange.outcome) && !later && broken.is_none() {
            bench.record_exchange("one of 20 copies at once", &request, Accept, &exchange);
            broken = Some(words(&exchange.outcome));
        }
    }
    match broken {
        Some(came) => Finding::fail(format!("one of {COPIES} copies: {came}")),
        None if accepted == 0 => Finding::fail(format!("none of {COPIES} copies was accepted")),
        None => one_effect(bench, &delivery).await,
    }
}

async fn resigned(bench: &Bench<'_>) -> Finding {
    let profile = bench.settings.profile;
    if !profile.signs_timestamp() {
        return Finding::new(Verdict::NotApplicable, format!("{profile} does not sign a timestamp"));
    }
    let delivery = bench.delivery();
    let again = delivery.clone().at(unix_seconds() + 1);
    for (label, delivery) in [("a delivery", &delivery), ("the same, signed a second later", &again)] {
        if let Err(finding) = step(bench, label, delivery, Accept).await {
            return finding;
        }
    }
    one_effect(bench, &delivery).await
}

async fn new_body(bench: &Bench<'_>) -> Finding {
    let delivery = bench.delivery();
    let other = delivery.clone().with_data(r#"{"video":"v2"}"#);
    if let Err(finding) = step(bench, "a delivery", &delivery, Accept).await {
        return finding;
    }
    if let Err(finding) = step(bench, "the same id with another body", &other, NoBreak).await {
        return finding;
    }
    one_effect(bench, &delivery).await
}

async fn poison(bench: &Bench<'_>) -> Finding {
    let delivery = bench.delivery();
    let bad = bench.request(&delivery, &[wrong(bench, 0)]);
    let outcome = bench.send("wrongly signed", &bad, Reject).await.outcome;
    let accident = Reject.is_accident(&outcome);
    if !accident && let Err(finding) = judge("wrongly signed", &outcome, Reject) {
        return finding;
    }
    if let Err(finding) = step(bench, "the same id, rightly signed", &delivery, Accept).await {
        return finding;
    }
    let finding = one_effect(bench, &delivery).await;
    if accident && finding.verdict == Verdict::Pass {
        return Finding::accident(&format!("wrongly signed: {}; then {}", words(&outcome), finding.came));
    }
    finding
}

async fn after_restart(bench: &Bench<'_>) -> Finding {
    let Some(command) = &bench.settings.hooks.restart else {
        return Finding::unclear("needs --restart-command");
    };
    let delivery = bench.delivery();
    if let Err(finding) = step(bench, "a delivery", &delivery, Accept).await {
        return finding;
    }
    // Sent once: an acknowledgement from memory has no time to be stored.
    let kept = bench.delivery();
    if let Err(finding) = step(bench, "a delivery just before the restart", &kept, Accept).await {
        return finding;
    }
    if let Err(why) = hooks::run(command).await {
        return Finding::new(Verdict::HarnessError, why);
    }
    if let Err(came) = serves_again(bench).await {
        let limit = bench.settings.timeout;
        return Finding::fail(format!("it was not ready within {limit:?} of its restart: {came}"));
    }
    if let Err(finding) = step(bench, "the same after a restart", &delivery, Accept).await {
        return finding;
    }
    let finding = one_effect(bench, &delivery).await;
    if finding.verdict != Verdict::Pass {
        return finding;
    }
    match bench.effects_of(&kept.id).await {
        Ok(1) => finding,
        Ok(0) => Finding::loss("a delivery just before the restart: acknowledged and then lost"),
        Ok(count) => Finding::fail(format!("a delivery just before the restart: effects: {count}")),
        Err(why) => Finding::unclear(format!("a delivery just before the restart: {why}")),
    }
}

async fn after_failure(bench: &Bench<'_>) -> Finding {
    let hooks = &bench.settings.hooks;
    let (Some(break_it), Some(mend)) = (&hooks.break_it, &hooks.mend) else {
        return Finding::unclear("needs --break-command and --mend-command");
    };
    let delivery = bench.delivery();
    let broken = Broken::new(mend);
    if let Err(why) = hooks::run(break_it).await {
        return Finding::new(Verdict::HarnessError, why);
    }
    let request = bench.signed(&delivery);
    let failed = bench.exchange(&Feed::Whole(request.bytes()), bench.settings.timeout).await;
    bench.record_exchange("a delivery while it is broken", &request, Want::Report, &failed);
    if let Err(why) = broken.mend().await {
        return Finding::new(Verdict::HarnessError, why);
    }
    let came = words(&failed.outcome);
    if let Err(why) = serves_again(bench).await {
        return Finding::fail(format!("{came} while broken; not ready after it was mended: {why}"));
    }
    let again = delivery.clone().at(unix_seconds());
    if let Err(finding) = step(bench, "the same after it was mended", &again, Accept).await {
        return finding;
    }
    let finding = one_effect(bench, &delivery).await;
    let accepted = Accept.is_met(&failed.outcome);
    if accepted && finding.verdict == Verdict::Pass {
        return Finding::unclear(
            "the receiver accepted the delivery while it was broken, so no failure was tested; check --break-command",
        );
    }
    Finding { came: format!("{came} while broken; then {}", finding.came), ..finding }
}

/// Waits until deliveries are accepted again; fails with the last answer.
async fn serves_again(bench: &Bench<'_>) -> Result<(), String> {
    let watch = Watch::start();
    loop {
        let feed = Feed::Whole(bench.signed(&bench.delivery()).bytes());
        let outcome = bench.exchange(&feed, bench.settings.timeout).await.outcome;
        if Accept.is_met(&outcome) {
            return Ok(());
        }
        if watch.passed() >= bench.settings.timeout {
            return Err(words(&outcome));
        }
        pass(PAUSE).await;
    }
}

pub(super) const MEMORY: [Case; 2] = [
    Case::course("replay.cached", |bench| -> Running<'_> { Box::pin(cached(bench)) }),
    Case::course("replay.distinct", |bench| -> Running<'_> { Box::pin(distinct(bench)) }),
];

/// The ids differ in their last character: longer than columns that truncate silently, shorter than receivers'
/// limits.
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

async fn on_one_connection(bench: &Bench<'_>) -> Finding {
    let forged = bench.delivery();
    let rows = [
        ("a delivery on a connection", bench.signed(&bench.delivery()), Accept),
        ("a forgery after it", bench.request(&forged, &[wrong(bench, 4)]), Reject),
    ];
    let bytes: Vec<Vec<u8>> = rows.iter().map(|(_, request, _)| request.bytes()).collect();
    let exchanges = bench.succession(&bytes).await;
    for ((label, request, want), exchange) in rows.iter().zip(&exchanges) {
        bench.record_exchange(label, request, *want, exchange);
        let (outcome, came) = (&exchange.outcome, format!("{label}: {}", words(&exchange.outcome)));
        match () {
            () if limited(outcome) => return Finding::unclear(came),
            () if want.is_accident(outcome) => return Finding::accident(&came),
            // A connection may close at any time; its end says nothing about forgeries.
            () if *want == Reject && *outcome == Outcome::Closed => {
                return Finding::pass("it does not keep connections open");
            }
            () if !want.is_met(outcome) => return Finding::fail(came),
            () => {}
        }
    }
    match exchanges.len() {
        2.. => Finding::pass("a forgery on the same connection too"),
        _ => Finding::pass("it does not keep connections open"),
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
                    return Finding::unclear(format!("accepted; processing of both is unknown: {why}"));
                }
            }
        }
    }
    match lost.first() {
        Some(what) => Finding::loss(format!("{what}: accepted, and one of the two never processed")),
        None => Finding::pass("both processed, each time"),
    }
}
