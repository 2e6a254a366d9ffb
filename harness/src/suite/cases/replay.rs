//! `replay.*`: repeated deliveries, and a receiver's memory of them.

use std::time::Duration;

use hookproof_judge::catalogue::Verdict;
use tokio::task::JoinSet;

use super::super::hooks::{self, Broken};
use super::signature::wrong;
use super::{Case, Finding, REPEATS, Running, fire_after, limited};
use crate::suite::bench::{Bench, DATA, Delivery, Shot};
use crate::suite::record::Repeat;
use crate::suite::want::Want::{self, Accept, NoFailure, Reject};
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
const COPIES_BROKEN: usize = 5;
/// Deliveries that are open at once while the receiver restarts, and all of them.
const LANES: usize = 10;
const UNDER_WAY_MAX: usize = 2_000;
const RESTARTS_MAX: usize = 3;
const PAUSE: Duration = Duration::from_millis(50);

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
        Ok(0) => never_processed(bench, "accepted, and never processed".to_owned()).await,
        Ok(count) => {
            let (wrong, cause) = (Some("more than one effect".to_owned()), repeats(bench).await);
            Finding { wrong, cause, ..Finding::fail(format!("{count} effects")) }
        }
        Err(why) => Finding::unclear(format!("accepted; its effects are unknown: {why}")),
    }
}

async fn repeats(bench: &Bench<'_>) -> Option<&'static str> {
    let delivery = bench.delivery();
    for label in ["the control: a delivery", "the control: the same again"] {
        bench.send(label, &bench.signed(&delivery), Want::Report).await;
    }
    matches!(bench.effects_of(&delivery.id).await, Ok(2..)).then_some(REPEATS)
}

/// If a later delivery is processed, the case's own cause is left; otherwise all deliveries are lost.
async fn never_processed(bench: &Bench<'_>, came: String) -> Finding {
    let later = bench.delivery();
    if let Err(finding) = step(bench, "a delivery after it", &later, Accept).await {
        return Finding { came: format!("{came}; {}", finding.came), ..finding };
    }
    match bench.effects_of(&later.id).await {
        Ok(0) => Finding::loss(format!("{came}, like one after it")),
        Ok(_) => Finding { remedy: None, ..Finding::loss(came) },
        Err(why) => Finding::unclear(format!("{came}; effects are unknown: {why}")),
    }
}

/// A special repeat that failed proves nothing if an exact repeat fails as well.
pub(super) async fn unless_repeats_fail(bench: &Bench<'_>, finding: Finding) -> Finding {
    if finding.verdict != Verdict::Fail || finding.is_loss {
        return finding;
    }
    let delivery = bench.delivery();
    for label in ["a delivery", "the same again"] {
        if let Err(repeat) = step(bench, label, &delivery, Accept).await {
            return Finding::unclear(format!(
                "{}; {}: exact repeats fail too (replay.exact)",
                finding.came, repeat.came
            ));
        }
    }
    finding
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
            let repeat = Repeat::AtOnce(COPIES);
            bench.record_as(repeat, "one of 20 copies at once", &request, Accept, &exchange);
            broken = Some(words(&exchange.outcome));
        }
    }
    match broken {
        Some(came) => {
            unless_repeats_fail(bench, Finding::fail(format!("one of {COPIES} copies: {came}"))).await
        }
        None if accepted == 0 => Finding::fail(format!("none of {COPIES} copies was accepted")),
        None => one_effect(bench, &delivery).await,
    }
}

/// Signed now.
fn again(bench: &Bench<'_>, delivery: &Delivery) -> Delivery {
    delivery.clone().at(bench.stamp(unix_seconds()))
}

async fn resigned(bench: &Bench<'_>) -> Finding {
    let profile = bench.settings.profile;
    if !profile.signs_timestamp() {
        return Finding::new(Verdict::NotApplicable, format!("{profile} does not sign a timestamp"));
    }
    // Neither is ahead.
    let again = bench.delivery();
    let delivery = again.clone().at(bench.stamp(unix_seconds() - 1));
    for (label, delivery) in [("a delivery", &delivery), ("the same, signed a second later", &again)] {
        if let Err(finding) = step(bench, label, delivery, Accept).await {
            return unless_repeats_fail(bench, finding).await;
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
    if let Err(finding) = step(bench, "the same id with another body", &other, NoFailure).await {
        return unless_repeats_fail(bench, finding).await;
    }
    one_effect(bench, &delivery).await
}

async fn poison(bench: &Bench<'_>) -> Finding {
    let delivery = bench.delivery();
    let bad = bench.request(&delivery, &[wrong(bench, &delivery, 0)]);
    let outcome = bench.send("wrongly signed", &bad, Reject).await.outcome;
    let accident = if Reject.is_accident(&outcome) {
        let came = format!("wrongly signed: {}", words(&outcome));
        Some(Finding::accident(bench, &[&bad], None, &came).await)
    } else {
        None
    };
    if let Some(failed) = accident.as_ref().filter(|finding| finding.verdict == Verdict::Fail) {
        return failed.clone();
    }
    if accident.is_none()
        && let Err(finding) = judge("wrongly signed", &outcome, Reject)
    {
        return finding;
    }
    if let Err(finding) = step(bench, "the same id, rightly signed", &delivery, Accept).await {
        return finding;
    }
    // The forgery may be one of several effects, so no unique index mends them.
    let finding = Finding { cause: None, ..one_effect(bench, &delivery).await };
    match accident.filter(|_| finding.verdict == Verdict::Pass) {
        Some(accident) => Finding { came: format!("{}; then {}", accident.came, finding.came), ..accident },
        None => finding,
    }
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
    let mut under_way = UnderWay::default();
    for _ in 0..RESTARTS_MAX {
        match restarted(bench, command).await {
            Ok(more) => under_way.add(more),
            Err(why) => return Finding::new(Verdict::HarnessError, why),
        }
        if let Err(outcome) = serves_again(bench).await {
            let (limit, came) = (bench.settings.timeout, words(&outcome));
            return Finding::fail(format!("it was not ready within {limit:?} of its restart: {came}"));
        }
        // A restart between two deliveries says nothing of those that it cuts off.
        if !under_way.unanswered.is_empty() {
            break;
        }
    }
    if let Err(finding) = step(bench, "the same after a restart", &delivery, Accept).await {
        return unless_repeats_fail(bench, finding).await;
    }
    let finding = one_effect(bench, &delivery).await;
    if finding.verdict != Verdict::Pass {
        return finding;
    }
    match bench.effects_of(&kept.id).await {
        Ok(1) => {}
        Ok(0) => return Finding::loss("a delivery just before the restart: acknowledged and then lost"),
        Ok(count) => return Finding::fail(format!("a delivery just before the restart: effects: {count}")),
        Err(why) => return Finding::unclear(format!("a delivery just before the restart: {why}")),
    }
    match repeated(bench, under_way).await {
        Ok(count) => Finding { came: format!("{}, {count} repeated", finding.came), ..finding },
        Err(finding) => finding,
    }
}

#[derive(Default)]
struct UnderWay {
    accepted: Vec<Delivery>,
    unanswered: Vec<Delivery>,
}

impl UnderWay {
    fn add(&mut self, more: Self) {
        self.accepted.extend(more.accepted);
        self.unanswered.extend(more.unanswered);
    }
}

/// Restarts the receiver while deliveries are sent without a pause: some are under way when it is killed.
async fn restarted(bench: &Bench<'_>, command: &str) -> Result<UnderWay, String> {
    let (mut open, mut under_way, mut sent) = (JoinSet::new(), UnderWay::default(), 0);
    let restart = hooks::run(command);
    tokio::pin!(restart);
    let mut ended = None;
    loop {
        while ended.is_none() && under_way.unanswered.is_empty() && open.len() < LANES && sent < UNDER_WAY_MAX
        {
            let delivery = bench.delivery();
            let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
            let (feed, limit) = (Feed::Whole(bench.signed(&delivery).bytes()), bench.settings.timeout);
            open.spawn(async move { (delivery, exchange(&target, &addresses, &feed, limit).await) });
            sent += 1;
        }
        tokio::select! {
            done = &mut restart, if ended.is_none() => ended = Some(done),
            Some(done) = open.join_next() => {
                let (delivery, exchange) = done.map_err(|_| "a delivery could not be sent".to_owned())?;
                let accepted = Accept.is_met(&exchange.outcome);
                if accepted { under_way.accepted.push(delivery) } else { under_way.unanswered.push(delivery) }
            }
            else => break,
        }
    }
    ended.unwrap_or(Ok(())).map(|()| under_way)
}

async fn repeated(bench: &Bench<'_>, under_way: UnderWay) -> Result<usize, Finding> {
    let UnderWay { accepted, unanswered } = under_way;
    for delivery in &unanswered {
        let again = again(bench, delivery);
        step(bench, "one that was under way at the restart, repeated", &again, Accept).await?;
    }
    let sum = accepted.len() + unanswered.len();
    let ids = |deliveries: &[Delivery]| deliveries.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let all = [ids(&accepted), ids(&unanswered)].concat();
    match bench.lost(all).await {
        Ok(0) => {}
        Ok(lost) => {
            return Err(Finding::loss(format!(
                "{lost} of {sum} that were accepted around the restart, some of them repeated, were never processed"
            )));
        }
        Err(why) => return Err(Finding::unclear(format!("deliveries around the restart: {why}"))),
    }
    match bench.most_effects(&ids(&unanswered)).await {
        Ok(0 | 1) => Ok(unanswered.len()),
        Ok(count) => {
            Err(Finding::fail(format!("one that was under way at the restart, repeated: effects: {count}")))
        }
        Err(why) => Err(Finding::unclear(format!("deliveries around the restart: {why}"))),
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
    let while_broken = copies(bench, &delivery).await;
    if let Err(why) = broken.mend().await {
        return Finding::new(Verdict::HarnessError, why);
    }
    let mut came: Vec<String> = while_broken.iter().map(words).collect();
    came.sort();
    came.dedup();
    let came = came.join(" and ");
    if let Err(outcome) = serves_again(bench).await {
        let came = format!("{came} while broken; not ready after it was mended: {}", words(&outcome));
        let has_answered = while_broken.iter().any(|outcome| matches!(outcome, Outcome::Answer(_)));
        return match outcome {
            Outcome::Unreachable(_) if !has_answered => Finding::ended(&came),
            _ => Finding::fail(came),
        };
    }
    if while_broken.iter().any(|outcome| Accept.is_met(outcome))
        && let Ok(1..) = bench.lost(vec![delivery.id.clone()]).await
    {
        return Finding::loss(format!("{came} to copies while broken, and never processed"));
    }
    if let Err(finding) = step(bench, "the same after it was mended", &again(bench, &delivery), Accept).await
    {
        return finding;
    }
    let finding = one_effect(bench, &delivery).await;
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Answer(answer) if answer.status >= 500);
    if finding.verdict == Verdict::Pass && !while_broken.iter().any(failed) {
        return Finding::unclear(format!(
            "{came} while broken: no 5xx was seen, so no failure was tested; --break-command has to make it answer 5xx"
        ));
    }
    Finding { came: format!("{came} while broken; then {}", finding.came), ..finding }
}

/// Sends copies of a delivery at once: one may be acknowledged while another is stored.
async fn copies(bench: &Bench<'_>, delivery: &Delivery) -> Vec<Outcome> {
    let request = bench.signed(delivery);
    let mut open = JoinSet::new();
    for _ in 0..COPIES_BROKEN {
        let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
        let (feed, limit) = (Feed::Whole(request.bytes()), bench.settings.timeout);
        open.spawn(async move { exchange(&target, &addresses, &feed, limit).await });
    }
    let mut outcomes = Vec::new();
    while let Some(done) = open.join_next().await {
        let Ok(exchange) = done else { continue };
        bench.record_exchange("a copy of a delivery while it is broken", &request, Want::Report, &exchange);
        outcomes.push(exchange.outcome);
    }
    outcomes
}

/// Waits until deliveries are accepted again; fails with the last answer.
async fn serves_again(bench: &Bench<'_>) -> Result<(), Outcome> {
    let watch = Watch::start();
    loop {
        let feed = Feed::Whole(bench.signed(&bench.delivery()).bytes());
        let outcome = bench.exchange(&feed, bench.settings.timeout).await.outcome;
        if Accept.is_met(&outcome) {
            return Ok(());
        }
        if watch.passed() >= bench.settings.timeout {
            return Err(outcome);
        }
        pass(PAUSE).await;
    }
}

pub(super) const MEMORY: [Case; 3] = [
    Case::course("replay.cached", |bench| -> Running<'_> { Box::pin(cached(bench)) }),
    Case::course("replay.distinct", |bench| -> Running<'_> { Box::pin(distinct(bench)) }),
    Case::course("replay.later", |bench| -> Running<'_> { Box::pin(later(bench)) }),
];

/// Deliveries between one and its repeat.
const BETWEEN: usize = 256;

/// The ids differ in their last character: longer than columns that truncate silently, shorter than receivers'
/// limits.
const LONG_ID: usize = 100;

async fn cached(bench: &Bench<'_>) -> Finding {
    let known = bench.delivery();
    if let Err(finding) = step(bench, "a delivery", &known, Accept).await {
        return finding;
    }
    let finding = fire_after(bench, &forgeries(bench, &known), Some(&known)).await;
    if finding.verdict != Verdict::Pass {
        return finding;
    }
    let after = on_one_connection(bench).await;
    Finding { came: format!("{}; {}", finding.came, after.came), ..after }
}

fn forgeries(bench: &Bench<'_>, known: &Delivery) -> Vec<Shot> {
    let profile = bench.settings.profile;
    let shot = |what: &str, delivery: &Delivery, signature: String| {
        Shot::new(what, bench.request(delivery, &[signature]), Reject)
    };
    let forged = r#"{"video":"forged"}"#;
    let at_that_time = || bench.delivery().at(&known.timestamp).with_data(forged);
    let (of_its_id, dated) = (known.clone().with_data(forged), at_that_time());
    let mut shots = vec![
        shot("its id, wrongly signed", &of_its_id, wrong(bench, &of_its_id, 0)),
        shot("the same again, wrongly signed", known, wrong(bench, known, 1)),
        shot("its signature on another delivery", &dated, bench.signature(known)),
    ];
    if profile.is_token() || profile.is_message() {
        let other = at_that_time();
        shots.push(shot(
            "its signature under other claims",
            &other,
            bench.encoded(&other, &bench.tag(known)),
        ));
    }
    if profile.id_header().is_some() {
        let body = bench.delivery().at(&known.timestamp).with_body(known.body.clone());
        shots.push(shot("its body under another id, wrongly signed", &body, wrong(bench, &body, 2)));
    }
    if profile.signs_timestamp() {
        let other = at_that_time();
        shots.push(shot("its timestamp, wrongly signed", &other, wrong(bench, &other, 3)));
    }
    shots
}

async fn on_one_connection(bench: &Bench<'_>) -> Finding {
    let forged = bench.delivery();
    let rows = [
        ("a delivery on a connection", bench.signed(&bench.delivery()), Accept),
        ("a forgery after it", bench.request(&forged, &[wrong(bench, &forged, 4)]), Reject),
    ];
    let bytes: Vec<Vec<u8>> = rows.iter().map(|(_, request, _)| request.bytes()).collect();
    let exchanges = bench.succession(&bytes).await;
    for (place, ((label, request, want), exchange)) in rows.iter().zip(&exchanges).enumerate() {
        let repeat = if place == 0 { Repeat::Curl } else { Repeat::After(&rows[0].1) };
        bench.record_as(repeat, label, request, *want, exchange);
        let (outcome, came) = (&exchange.outcome, format!("{label}: {}", words(&exchange.outcome)));
        match () {
            () if limited(outcome) => return Finding::unclear(came),
            () if want.is_accident(outcome) => {
                return Finding::accident(bench, &[request], None, &came).await;
            }
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

async fn distinct(bench: &Bench<'_>) -> Finding {
    let named = |id: String| Delivery { id, ..bench.delivery() }.with_data(DATA);
    let (short, long) = (bench.delivery().id, bench.delivery().id);
    let long = format!("{long:x<width$}", width = LONG_ID - 1);
    let pairs = [
        ("ids that differ in case", [format!("{short}_aB"), format!("{short}_Ab")]),
        ("ids of 100 characters that differ in the last", [format!("{long}1"), format!("{long}2")]),
    ];
    for (what, ids) in pairs {
        for (place, id) in ids.into_iter().enumerate() {
            let delivery = named(id);
            if let Err(finding) = step(bench, what, &delivery, Accept).await {
                return finding;
            }
            match bench.effects_of(&delivery.id).await {
                Ok(0) => {
                    if place == 0 {
                        return Finding::loss(format!("{what}: the first accepted, and never processed"));
                    }
                    let came = format!("{what}: both accepted, and the second never processed");
                    return never_processed(bench, came).await;
                }
                Ok(_) => {}
                Err(why) => {
                    return Finding::unclear(format!("accepted; processing of both is unknown: {why}"));
                }
            }
        }
    }
    Finding::pass("both processed, each time")
}

async fn later(bench: &Bench<'_>) -> Finding {
    if let Err(why) = &*bench.effects.borrow() {
        return Finding::unclear(why.clone());
    }
    // The same again has another timestamp, however quick the receiver is.
    let delivery = bench.delivery().at(bench.stamp(unix_seconds() - 1));
    if let Err(finding) = step(bench, "a delivery", &delivery, Accept).await {
        return finding;
    }
    for refused in between(bench).await {
        if let Err(finding) = step(bench, "one of the deliveries after it", &refused, Accept).await {
            return finding;
        }
    }
    let label = format!("the same again, after {BETWEEN} others");
    if let Err(finding) = step(bench, &label, &again(bench, &delivery), Accept).await {
        return unless_repeats_fail(bench, finding).await;
    }
    one_effect(bench, &delivery).await
}

/// Returns those that were not accepted.
async fn between(bench: &Bench<'_>) -> Vec<Delivery> {
    let (mut open, mut refused) = (JoinSet::new(), Vec::new());
    for _ in 0..BETWEEN {
        if open.len() == LANES {
            refused.extend(open.join_next().await.and_then(Result::ok).flatten());
        }
        let delivery = bench.delivery();
        let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
        let (feed, limit) = (Feed::Whole(bench.signed(&delivery).bytes()), bench.settings.timeout);
        open.spawn(async move {
            let exchange = exchange(&target, &addresses, &feed, limit).await;
            (!Accept.is_met(&exchange.outcome)).then_some(delivery)
        });
    }
    refused.extend(open.join_all().await.into_iter().flatten());
    refused
}
