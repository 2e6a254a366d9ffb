//! `rotation.*`: several signatures, and retired keys.

use std::time::Duration;

use super::super::bench::{Bench, Shot};
use super::super::course::{Case, Finding, Running, Shots};
use super::super::want::Want::{Accept, NoBreak, Reject};
use super::super::want::words;
use super::signature::wrong;
use hookproof_judge::catalogue::Verdict;

pub(super) const CASES: [Case; 4] = [
    Case::shots("rotation.second-valid", second_valid),
    Case::shots("rotation.malformed-first", malformed_first),
    Case::shots("rotation.retired-key", retired_key),
    Case::course("rotation.many", |bench| -> Running<'_> { Box::pin(many(bench)) }),
];

/// More signatures than any sender has keys.
const MANY: usize = 500;
/// The time limit for them.
const PROMPT: Duration = Duration::from_secs(2);

fn several(bench: &Bench<'_>) -> Result<(), String> {
    let profile = bench.settings.profile;
    profile.has_several_signatures().then_some(()).ok_or_else(|| format!("{profile} has one signature"))
}

fn second_valid(bench: &Bench<'_>) -> Shots {
    several(bench)?;
    let delivery = bench.delivery();
    let signatures = [wrong(bench, 0), bench.signature(&delivery)];
    Ok(vec![Shot::new(
        "a wrong signature, then the right one",
        bench.request(&delivery, &signatures),
        Accept,
    )])
}

fn malformed_first(bench: &Bench<'_>) -> Shots {
    several(bench)?;
    let delivery = bench.delivery();
    let good = bench.signature(&delivery);
    let broken = format!("{}!!!", bench.settings.profile.signature_prefix());
    let rows = [("garbage", "garbage".to_owned()), ("a broken signature", broken)];
    let shots = rows.map(|(what, first)| {
        let request = bench.request(&delivery, &[first, good.clone()]);
        Shot::new(format!("{what}, then the right signature"), request, Accept)
    });
    Ok(shots.into())
}

fn retired_key(bench: &Bench<'_>) -> Shots {
    let retired =
        bench.settings.retired.as_ref().ok_or("no retired secret was given (--retired-secret-env)")?;
    let delivery = bench.delivery();
    let alone = bench.signature_by(&delivery, retired);
    Ok(vec![Shot::new("signed with the retired key", bench.request(&delivery, &[alone]), Reject)])
}

async fn many(bench: &Bench<'_>) -> Finding {
    if let Err(why) = several(bench) {
        return Finding::new(Verdict::NotApplicable, why);
    }
    let delivery = bench.delivery();
    let mut signatures: Vec<String> =
        (0..MANY - 1).map(|at| wrong(bench, u8::try_from(at % 256).unwrap_or(0))).collect();
    signatures.push(bench.signature(&delivery));
    let exchange = bench
        .send("500 signatures, the last one right", &bench.request(&delivery, &signatures), NoBreak)
        .await;
    let came = format!("{} after {:?}", words(&exchange.outcome), exchange.took);
    if NoBreak.is_met(&exchange.outcome) && exchange.took <= PROMPT {
        Finding::pass(words(&exchange.outcome))
    } else {
        Finding::fail(came)
    }
}
