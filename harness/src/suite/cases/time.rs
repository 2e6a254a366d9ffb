//! `time.*`: the age of deliveries, and the notation of timestamps.

use hookproof_judge::catalogue::Verdict;
use hookproof_play::endpoint::http_date;

use super::super::bench::{Bench, Shot};
use super::super::want::Want::{self, Accept, Refuse, Reject};
use super::super::want::words;
use super::replay::unless_repeats_fail;
use super::{Case, Finding, Running, Shots, fire, limited};
use crate::wire::clock::unix_seconds;

pub(super) const CASES: [Case; 10] = [
    Case::shots("time.old", old),
    Case::course("time.future", |bench| -> Running<'_> { Box::pin(future(bench)) }),
    Case::shots("time.inside", inside),
    Case::shots("time.missing", missing),
    Case::shots("time.empty", empty),
    Case::shots("time.noncanonical", noncanonical),
    Case::course("time.extreme", |bench| -> Running<'_> { Box::pin(extreme(bench)) }),
    Case::shots("time.twice", twice),
    Case::shots("time.unsigned", unsigned),
    Case::course("time.resigned", |bench| -> Running<'_> { Box::pin(resigned(bench)) }),
];

/// The distance of timestamps from the tolerance, larger than clock differences.
const MARGIN_SECONDS: i64 = 30;

fn signs_timestamp(bench: &Bench<'_>) -> Result<(), String> {
    let profile = bench.settings.profile;
    profile.signs_timestamp().then_some(()).ok_or_else(|| format!("{profile} does not sign a timestamp"))
}

fn in_a_header(bench: &Bench<'_>) -> Result<(), String> {
    let profile = bench.settings.profile;
    let why = "has its timestamp in JSON, which has rules of its own for numbers and repeated members";
    if profile.has_json_timestamp() { Err(format!("{profile} {why}")) } else { Ok(()) }
}

fn far(bench: &Bench<'_>, sign: i64) -> Shots {
    signs_timestamp(bench)?;
    let beyond = bench.settings.tolerance_seconds + MARGIN_SECONDS;
    let delivery = bench.delivery().at(bench.stamp(unix_seconds() + sign * beyond));
    let side = if sign < 0 { "old" } else { "ahead" };
    Ok(vec![Shot::new(format!("{beyond} s {side}"), bench.signed(&delivery), Reject)])
}

fn old(bench: &Bench<'_>) -> Shots {
    let mut shots = far(bench, -1)?;
    if bench.settings.profile.is_message() {
        let now = unix_seconds();
        let ended = bench.delivery().at(format!("{};expires={}", now - 20, now - 10));
        shots.push(Shot::new("an end in the past", bench.signed(&ended), Reject));
    }
    Ok(shots)
}

/// Where the provider's own libraries check the age only, this is a warning.
async fn future(bench: &Bench<'_>) -> Finding {
    let finding = match far(bench, 1) {
        Ok(shots) => fire(bench, &shots).await,
        Err(why) => return Finding::new(Verdict::NotApplicable, why),
    };
    if finding.verdict == Verdict::Fail && bench.settings.profile.is_age_only() {
        return Finding::warn(finding.came);
    }
    finding
}

fn inside(bench: &Bench<'_>) -> Shots {
    signs_timestamp(bench)?;
    let within =
        (bench.settings.tolerance_seconds - MARGIN_SECONDS).max(bench.settings.tolerance_seconds / 2);
    // Whoever gives tokens a longest age may take none ahead, as libraries for HTTP Message Signatures do.
    let profile = bench.settings.profile;
    let sides = if profile.is_token() || profile.is_message() { 1 } else { 2 };
    let shots = [("old", -within), ("ahead", within)].into_iter().take(sides).map(|(side, offset)| {
        let delivery = bench.delivery().at(bench.stamp(unix_seconds() + offset));
        Shot::new(format!("{within} s {side}"), bench.signed(&delivery), Accept)
    });
    Ok(shots.collect())
}

fn missing(bench: &Bench<'_>) -> Shots {
    signs_timestamp(bench)?;
    let profile = bench.settings.profile;
    // A receiver that does not check its presence sees an empty timestamp.
    let delivery = bench.delivery().at("");
    let request = bench.signed(&delivery);
    let request = match profile.timestamp_header() {
        Some(header) => request.without(header),
        None if profile.is_message() => request,
        None => request.with(profile.signature_header(), bench.signature(&delivery)),
    };
    Ok(vec![Shot::new("no timestamp", request, Reject)])
}

fn empty(bench: &Bench<'_>) -> Shots {
    in_a_header(bench)?;
    spelled(bench, Reject, &[("an empty timestamp", String::new())])
}

fn spelled(bench: &Bench<'_>, want: Want, rows: &[(&str, String)]) -> Shots {
    signs_timestamp(bench)?;
    let shot =
        |(what, text): &(&str, String)| Shot::new(*what, bench.signed(&bench.delivery().at(text)), want);
    Ok(rows.iter().map(shot).collect())
}

fn noncanonical(bench: &Bench<'_>) -> Shots {
    in_a_header(bench)?;
    let now = bench.stamp(unix_seconds());
    let rows = [
        ("a plus sign in front", format!("+{now}")),
        ("a fraction", format!("{now}.0")),
        ("letters behind", format!("{now}abc")),
        ("leading zeros", format!("00{now}")),
        ("a space inside", format!("{now} 0")),
        ("an exponent", format!("{now}e0")),
        ("hexadecimal", format!("0x{now:x}")),
        ("an underscore inside", format!("{}_{:03}", now / 1000, now % 1000)),
    ];
    spelled(bench, Reject, &rows)
}

/// Future values are a warning where the provider's own libraries check the age only; none may break the receiver.
async fn extreme(bench: &Bench<'_>) -> Finding {
    let ahead = [
        ("the greatest 64-bit number", i64::MAX.to_string()),
        ("10^400", format!("1{}", "0".repeat(400))),
        ("a thousand times too large", bench.stamp(unix_seconds() * 1_000).to_string()),
    ];
    let rest = [
        ("the least 64-bit number", i64::MIN.to_string()),
        ("NaN", "NaN".to_owned()),
        ("infinity", "Infinity".to_owned()),
    ];
    let (ahead, mut shots) = match (spelled(bench, Refuse, &ahead), spelled(bench, Refuse, &rest)) {
        (Ok(ahead), Ok(rest)) => (ahead, rest),
        (Err(why), _) | (_, Err(why)) => return Finding::new(Verdict::NotApplicable, why),
    };
    if !bench.settings.profile.is_age_only() {
        shots.extend(ahead);
        return fire(bench, &shots).await;
    }
    let finding = fire(bench, &shots).await;
    if finding.verdict != Verdict::Pass {
        return finding;
    }
    let mut accepted = Vec::new();
    for shot in ahead {
        let outcome = bench.send(&shot.label, &shot.request, shot.want).await.outcome;
        match () {
            () if Accept.is_met(&outcome) => accepted.push(format!("{}: {}", shot.label, words(&outcome))),
            () if limited(&outcome) => {
                return Finding::unclear(format!("{}: {}", shot.label, words(&outcome)));
            }
            () if Refuse.is_met(&outcome) => {}
            () => return Finding::fail(format!("{}: {}", shot.label, words(&outcome))),
        }
    }
    if accepted.is_empty() { finding } else { Finding::warn(accepted.join("; ")) }
}

const UNSIGNED: [&str; 10] = [
    "Timestamp",
    "X-Timestamp",
    "X-Request-Timestamp",
    "X-Request-Time",
    "X-Request-Start",
    "X-Signature-Timestamp",
    "X-Webhook-Timestamp",
    "X-Event-Time",
    "X-Sent-At",
    "X-Time",
];

/// The signed timestamp is old; another header has a fresh time.
fn unsigned(bench: &Bench<'_>) -> Shots {
    signs_timestamp(bench)?;
    let now = unix_seconds();
    let date = || http_date(now.unsigned_abs());
    let stamp = bench.stamp(now).to_string();
    let dates = ["Date", "X-Date", "Last-Modified"].map(|name| (name, date()));
    let fresh = dates.into_iter().chain(UNSIGNED.map(|name| (name, stamp.clone())));
    let own = bench.settings.profile.timestamp_header();
    let fresh = fresh.filter(|(name, _)| own.is_none_or(|own| !own.eq_ignore_ascii_case(name)));
    let old = now - bench.settings.tolerance_seconds - 3600;
    let shots = fresh.map(|(name, value)| {
        let request = bench.signed(&bench.delivery().at(bench.stamp(old))).with(name, &value);
        Shot::new(format!("an old timestamp, and {name}: {value}"), request, Reject)
    });
    Ok(shots.collect())
}

/// The signed timestamp is old; a fresh one stands before or after it.
fn twice(bench: &Bench<'_>) -> Shots {
    signs_timestamp(bench)?;
    in_a_header(bench)?;
    let profile = bench.settings.profile;
    let now = bench.stamp(unix_seconds());
    let old = || bench.delivery().at(now - bench.stamp(bench.settings.tolerance_seconds + 3600));
    let requests = match profile.timestamp_header() {
        // The parameter stands twice.
        None if profile.is_message() => [false, true].map(|is_first| {
            let (old, fresh) = (old().timestamp, now.to_string());
            let (first, second) = if is_first { (fresh, old) } else { (old, fresh) };
            bench.signed(&bench.delivery().at(format!("{first};created={second}")))
        }),
        Some(header) => [
            bench.signed(&old()).and(header, now.to_string()),
            bench.signed(&old()).after(header, now.to_string()),
        ],
        None => [false, true].map(|is_first| {
            let request = bench.signed(&old());
            let header = profile.signature_header();
            let value = String::from_utf8_lossy(request.header(header).unwrap_or_default()).into_owned();
            let value = profile.with_timestamp(&value, now, is_first);
            request.with(header, value)
        }),
    };
    let labels = ["the old timestamp, then a fresh one", "a fresh timestamp, then the old one"];
    Ok(labels.into_iter().zip(requests).map(|(what, request)| Shot::new(what, request, Reject)).collect())
}

async fn resigned(bench: &Bench<'_>) -> Finding {
    if let Err(why) = signs_timestamp(bench) {
        return Finding::new(Verdict::NotApplicable, why);
    }
    // Neither is ahead.
    let second = bench.delivery();
    let first = second.clone().at(bench.stamp(unix_seconds() - 1));
    let shots = [
        Shot::new("a delivery", bench.signed(&first), Accept),
        Shot::new("the same, signed a second later", bench.signed(&second), Accept),
    ];
    unless_repeats_fail(bench, fire(bench, &shots).await).await
}
