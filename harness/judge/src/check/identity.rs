//! `identity.body`: judged by SHA-256.
//!
//! `identity.headers`: all attempts have the same headers: id and content type always; the signature where it is made
//! once (`vvv-frozen`), or over the body alone (`github`, unless keys rotate).
//!
//! `identity.secret`: while two secrets are valid, both sign if the profile has room for both. One second after the
//! older one retired, it signs no more. No request holds a secret, or a signature that another secret made.
//!
//! `payload.intact`: the harness compares each body by value as it arrives, and the trace holds its result. `[payload]`
//! of a driver file may name the places, and demand the data's bytes.

use super::evidence::Evidence;
use super::format::{arrivals, is_stalled, rotations, unconfirmed};
use super::verdict::{Finding, Tally, Witness};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::FaultKind;
use crate::signature::Profile;
use crate::trace::{Arrival, Lack, Payload, Signs, Verified};

fn same(
    evidence: &Evidence<'_>,
    noun: &str,
    differs: impl Fn(Profile, &Arrival, &Arrival) -> Option<String>,
) -> Finding {
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        let [first, rest @ ..] = evidence.attempts(delivery) else { continue };
        if rest.is_empty() {
            continue;
        }
        tally.see();
        let arrival = |n: u32| &evidence.trace.arrivals[n as usize];
        let profile = evidence.subscriber(delivery).sign;
        let found = rest.iter().find_map(|n| Some((*n, differs(profile, arrival(*first), arrival(*n))?)));
        if let Some((n, what)) = found {
            tally.broke(|| evidence.witness(delivery.lane, &[*first, n], what));
        }
    }
    if tally.seen == 0 {
        return Finding::unasked("no delivery was retried");
    }
    tally.finding(noun, "the same on every attempt", "changed between attempts")
}

pub(super) const BODY: Check = Check {
    id: "identity.body",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "all attempts of a delivery carry the same body bytes, also across restarts",
    why: "a receiver that compares or hashes bodies takes changed bytes for a forgery or for another event",
    remedy: "store the body as bytes when the event is emitted; never rebuild it from parsed JSON",
    stands_alone: true,
    find: body,
    ..Check::PLAIN
};

pub(super) fn body(evidence: &Evidence<'_>) -> Finding {
    same(evidence, "deliveries with several attempts", |_, first, again| {
        let what =
            || format!("the body's SHA-256 changed from {} to {}", head(&first.sha256), head(&again.sha256));
        (first.sha256 != again.sha256).then(what)
    })
}

fn head(digest: &str) -> String {
    format!("{}…", digest.chars().take(12).collect::<String>())
}

pub(super) const HEADERS: Check = Check {
    id: "identity.headers",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "id and content type stay the same across retries, and so does the signature of a frozen \
        profile",
    why: "a frozen signature that changes between attempts shows that the body was rebuilt",
    remedy: "store these values with the delivery, and read them for each attempt",
    stands_alone: true,
    find: headers,
    ..Check::PLAIN
};

pub(super) fn headers(evidence: &Evidence<'_>) -> Finding {
    let rotates = evidence.trace.faults.iter().any(|fault| fault.kind == FaultKind::Rotate);
    let is_own = matches!(evidence.trace.declared.signs, Some(Signs::Own { .. }));
    same(evidence, "deliveries with several attempts", |profile, first, again| {
        let frozen = profile.is_frozen() || !(profile.signs_timestamp() || rotates);
        let frozen = frozen && !is_own;
        if first.id != again.id {
            let [was, is] = [first, again].map(|one| one.id.as_deref().unwrap_or("none"));
            return Some(format!("the id changed from {was} to {is}"));
        }
        if first.head.content_type != again.head.content_type {
            let [was, is] = [first, again].map(|one| one.head.content_type.as_deref().unwrap_or("none"));
            return Some(format!("the content type changed from {was} to {is}"));
        }
        (frozen && first.signed.signature != again.signed.signature)
            .then(|| "the signature changed".to_owned())
    })
}

pub(super) const SECRET: Check = Check {
    id: "identity.secret",
    severity: Severity::Must,
    source: "Standard Webhooks 1.0",
    requirement: "each signature is made with a secret of its subscriber that is in force, during a rotation with \
        both, and no request holds a secret",
    why: "a secret that others know or that was withdrawn lets them forge deliveries, and a rotation with one key \
        loses the deliveries in flight",
    remedy: "look up the keys by subscriber for each attempt; sign with both while a key retires, and with none \
        after that",
    needs: &[Lack::Signature],
    stall: Stall::Delays,
    follows_fault: true,
    stands_alone: true,
    find: secret,
    ..Check::PLAIN
};

pub(super) fn secret(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for shared in &evidence.trace.shared {
        let (subscriber, from, until) = (Some(shared.endpoint.clone()), shared.t, shared.t);
        let what = format!("its secret is also the secret of {}", shared.with);
        tally.see();
        tally.broke(|| Witness { subscriber, from, until, what, arrivals: Vec::new() });
    }
    let (mut unchecked, mut unknown) = (0_u64, 0_u64);
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let (rotations, profile) = (rotations(evidence, lane.subscriber), lane.subscriber.sign);
        // A signature of the sender's own scheme uses one key, and is made once if it covers no timestamp.
        let (with_every_key, once) = match evidence.trace.declared.signs {
            Some(Signs::Own { signs_timestamp, .. }) => (false, !signs_timestamp),
            _ => (profile.has_several_signatures(), profile.is_frozen()),
        };
        for n in &lane.arrivals {
            let arrival = &evidence.trace.arrivals[*n as usize];
            if let Some(place) = &arrival.signed.disclosed {
                tally.see();
                tally.broke(|| {
                    evidence.witness(at, &[*n], format!("{place} holds a secret of this subscriber"))
                });
                continue;
            }
            let sent = evidence.sent_from(*n);
            let keys = match &arrival.signed.verified {
                Verified::Unchecked(_) => {
                    unchecked += 1;
                    continue;
                }
                verified if rotations.is_changing(arrival.t) || rotations.is_changing(sent) => {
                    let is_lost = matches!(verified, Verified::No(_)) && rotations.is_unknown(arrival.t);
                    unknown += u64::from(is_lost);
                    continue;
                }
                Verified::Keys(keys) => &**keys,
                Verified::No(_) => &[],
            };
            tally.see();
            // A request that the endpoint left unread was signed earlier.
            let fresh = !is_stalled(lane.subscriber, arrival.t);
            let both = rotations.both(arrival.t) && rotations.both(sent);
            let what = if keys.is_empty() {
                "made with no secret of this subscriber"
            } else if fresh && both && with_every_key && keys.len() < 2 {
                "two secrets are valid, but only one signed"
            } else if fresh && !once && keys.iter().any(|key| *key < rotations.oldest(sent)) {
                "made with a retired secret"
            } else if arrival.signed.surplus > 0 {
                "a further signature was made with no secret of this subscriber"
            } else {
                continue;
            };
            tally.broke(|| evidence.witness(at, &[*n], what.to_owned()));
        }
    }
    if unchecked > 0 && tally.broken == 0 {
        return Finding::unseen(format!("signatures that could not be checked: {unchecked}"));
    }
    if unknown > 0 && tally.broken == 0 {
        return Finding::unseen(unconfirmed(unknown));
    }
    tally.finding(
        "signatures",
        "made with the subscriber's own secrets",
        "made with a wrong or withdrawn secret, with too few, or beside the secret itself",
    )
}

pub(super) const PAYLOAD: Check = Check {
    id: "payload.intact",
    severity: Severity::Must,
    source: "derived: a delivery is the event that was offered",
    requirement: "every request carries the data of its event as it was offered, and not another event's type \
        or key",
    why: "a receiver acts on the data, and a valid signature makes changed or cut data look genuine",
    remedy: "store the data's bytes when the event is emitted, and send those; numbers lose digits and text loses \
        characters when data is parsed and written anew",
    stands_alone: true,
    find: intact,
    ..Check::PLAIN
};

fn intact(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let mut unread: Vec<&str> = Vec::new();
    for (n, lane, arrival) in arrivals(evidence) {
        match &arrival.payload {
            None => continue,
            Some(Payload::Intact) => {}
            Some(Payload::Altered(why)) => tally.broke(|| evidence.witness(lane, &[n], why.to_string())),
            Some(Payload::Unread(why)) => unread.push(why),
        }
        tally.see();
    }
    if let Some(why) = unread.first().filter(|_| tally.broken == 0) {
        return Finding::unseen(format!(
            "requests that could not be compared: {}; the first: {why}",
            unread.len()
        ));
    }
    tally.finding(
        "payloads that were compared",
        "each carries its event as it was offered",
        "changed on the way",
    )
}
