//! The harness's own verifier judges the signature as the request arrives, and the trace holds its result. A timestamp
//! must agree with the arrival on the sender's clock (`epochs`), ±5 s. Requests that a stalled endpoint left unread,
//! and requests sent during a clock step, are not compared. While the clock of one process is wrong (`clock-skew`), a
//! timestamp may be off by exactly that much. An id belongs to one delivery: the same on all attempts, on no other
//! delivery of the subscriber, and without the dot that separates the signed parts.

use std::collections::BTreeMap;

use super::epochs::{changes, is_stamped, skews, timestamp, unix_seconds};
use super::evidence::{Evidence, Outcome};
use super::verdict::{Finding, Tally, show};
use crate::check::{Check, Simulated, Stall, WallClock};
use crate::entry::Severity;
use crate::scenario::{Answer, FaultKind, FaultPlan, SECOND, Subscriber};
use crate::signature::Profile;
use crate::trace::{Arrival, CutKind, Fault, Lack, Signs, Verified};

pub(super) fn arrivals<'e>(evidence: &'e Evidence<'_>) -> impl Iterator<Item = (u32, u32, &'e Arrival)> {
    let all = (0_u32..).zip(evidence.exchanges.iter().zip(&evidence.trace.arrivals));
    all.filter_map(|(n, (exchange, arrival))| Some((n, exchange.lane?, arrival)))
}

fn profile(evidence: &Evidence<'_>, lane: u32) -> Profile {
    evidence.lanes[lane as usize].subscriber.sign
}

struct Carries {
    signature: bool,
    timestamp: bool,
    id: bool,
}

fn carries(evidence: &Evidence<'_>, lane: u32) -> Carries {
    if let Some(Signs::Own { signature, timestamp, id, .. }) = &evidence.trace.declared.signs {
        return Carries { signature: *signature, timestamp: *timestamp, id: *id };
    }
    let profile = profile(evidence, lane);
    Carries { signature: true, timestamp: profile.timestamp_header().is_some(), id: profile.signs_id() }
}

fn is_fresh(evidence: &Evidence<'_>, lane: u32) -> bool {
    match &evidence.trace.declared.signs {
        Some(Signs::Own { timestamp, .. }) => *timestamp,
        _ => profile(evidence, lane).signs_timestamp(),
    }
}

pub(super) const HTTP: Check = Check {
    id: "format.http",
    severity: Severity::Must,
    source: "RFC 9110, RFC 9112, RFC 9113",
    requirement: "every request has the form that HTTP demands of a client: one valid Host, one way to find the \
        end of the body, and whole lines of permitted characters without folding",
    why: "servers refuse other requests, and where two servers find different ends of one request, a second \
        request hides in it",
    remedy: "let a maintained HTTP client write the request, and check each header value that comes from outside",
    stands_alone: true,
    simulated: Simulated::Beyond("a simulated request has no bytes"),
    find: http,
    ..Check::PLAIN
};

/// The endpoint finds the first flaw of each request. Over HTTP/2 a library refuses most flaws, and hides which.
fn http(evidence: &Evidence<'_>) -> Finding {
    let (mut tally, mut over_second) = (Tally::default(), 0_u64);
    for (n, lane, arrival) in arrivals(evidence) {
        tally.see();
        over_second += u64::from(arrival.head.http2);
        if let Some(why) = &arrival.head.forbidden {
            tally.broke(|| evidence.witness(lane, &[n], why.to_string()));
        }
    }
    for (exchange, n) in evidence.exchanges.iter().zip(0_u32..) {
        if let (Outcome::Cut(CutKind::Malformed), Some(lane)) = (exchange.outcome, exchange.lane) {
            tally.see();
            let unread = (n as usize).checked_sub(evidence.trace.arrivals.len());
            let cut = unread.and_then(|at| evidence.unread.get(at));
            let why = cut.and_then(|cut| cut.why.as_deref()).unwrap_or("the endpoint gives no reason");
            tally.broke(|| evidence.witness(lane, &[n], format!("it is not an HTTP request: {why}")));
        }
    }
    let finding = tally.finding("requests", "each has the form of HTTP", "against a rule of HTTP");
    match over_second {
        0 => finding,
        _ => finding.with("over HTTP/2, seen only as a library reads them", over_second.to_string()),
    }
}

pub(super) const POST_JSON: Check = Check {
    id: "format.post-json",
    severity: Severity::Must,
    source: "Standard Webhooks 1.0, headers",
    requirement: "every attempt is a POST with a JSON content type and the headers of its signing profile",
    why: "endpoints route and parse by method, content type and these headers, and refuse a request \
        without them before they check its signature",
    remedy: "send POST with content-type: application/json, and add the profile's headers to every attempt, \
        retries and redrives included",
    stands_alone: true,
    simulated: Simulated::Beyond(
        "a simulated request has no method, and no headers except those of its signature",
    ),
    find: post_json,
    ..Check::PLAIN
};

fn post_json(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let declared = evidence.trace.declared.content_type.as_deref().map(str::to_ascii_lowercase);
    for (n, lane, arrival) in arrivals(evidence) {
        tally.see();
        let method = arrival.head.method.as_str();
        let content = arrival.head.content_type.as_deref().unwrap_or_default();
        let media = content.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let json =
            media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"));
        let carries = carries(evidence, lane);
        let typed = declared.as_ref().map_or(json, |declared| media == *declared);
        let stamped = !carries.timestamp || arrival.signed.timestamp.is_some();
        let named = !carries.id || arrival.id.is_some();
        let what = match () {
            () if method != "POST" => format!("the method is {method}; expected POST"),
            () if !typed => {
                format!("the content type is {content:?}; expected {}", declared.as_deref().unwrap_or("JSON"))
            }
            () if carries.signature && arrival.signed.signature.is_none() => {
                "there is no signature header".to_owned()
            }
            () if !stamped => "there is no timestamp header".to_owned(),
            () if !named => "there is no id header".to_owned(),
            () => continue,
        };
        tally.broke(|| evidence.witness(lane, &[n], what));
    }
    let right = match &declared {
        None => "each is a POST of JSON with its profile's headers".to_owned(),
        Some(declared) => format!("each is a POST of {declared} with the driver file's headers"),
    };
    tally.finding("requests", &right, "wrong method, content type or headers")
}

pub(super) const SIGNATURE: Check = Check {
    id: "format.signature",
    severity: Severity::Must,
    source: "Standard Webhooks 1.0",
    requirement: "every attempt's signature verifies with the harness's own verifier",
    why: "careful receivers refuse a delivery with a wrong signature",
    remedy: "sign the exact bytes that are sent, after the last step that changes them",
    needs: &[Lack::Signature],
    stands_alone: true,
    find: signature,
    ..Check::PLAIN
};

pub(super) fn signature(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let (mut unchecked, mut unknown) = (None, 0_u64);
    let rotations: Vec<Rotations> =
        evidence.lanes.iter().map(|lane| rotations(evidence, lane.subscriber)).collect();
    for (n, lane, arrival) in arrivals(evidence) {
        match &arrival.signed.verified {
            Verified::No(_) if rotations[lane as usize].is_changing(arrival.t) => {
                unknown += u64::from(rotations[lane as usize].is_unknown(arrival.t));
            }
            Verified::Keys(keys) if !keys.is_empty() => tally.see(),
            Verified::Keys(_) => {
                tally.see();
                tally.broke(|| {
                    evidence.witness(
                        lane,
                        &[n],
                        "the signature was made with no key of the \
                    subscriber"
                            .to_owned(),
                    )
                });
            }
            Verified::No(why) => {
                tally.see();
                tally.broke(|| evidence.witness(lane, &[n], why.to_string()));
            }
            Verified::Unchecked(why) => unchecked = Some(why.clone()),
        }
    }
    match unchecked {
        Some(why) if tally.broken == 0 => {
            Finding::unseen(format!("some signatures could not be checked: {why}"))
        }
        None if unknown > 0 && tally.broken == 0 => Finding::unseen(unconfirmed(unknown)),
        _ => tally.finding("signatures", "each verifies", "do not verify"),
    }
}

pub(super) const TIMESTAMP: Check = Check {
    id: "format.timestamp",
    severity: Severity::Must,
    source: "Standard Webhooks 1.0, metadata",
    requirement: "the timestamp of an attempt is within 5 s of its arrival, and later than that of an attempt \
        2 s before, if the profile signs each attempt",
    why: "receivers refuse timestamps older than a few minutes, so they would refuse every late retry \
        with the emit's timestamp",
    remedy: "take the timestamp when the attempt starts, not when the event was emitted or queued",
    stall: Stall::Delays,
    wall_clock: WallClock::Always,
    find: fresh,
    ..Check::PLAIN
};

pub(super) fn fresh(evidence: &Evidence<'_>) -> Finding {
    let lanes = &evidence.lanes;
    if !(0_u32..).zip(lanes).any(|(lane, _)| is_fresh(evidence, lane)) {
        return Finding::unasked("no subscriber's signing profile has a timestamp");
    }
    // A request may have been stamped up to a second before its clock was set back.
    let over = |until: u64| until.saturating_add(SECOND);
    let steps = evidence.trace.faults.iter().filter(|fault| fault.kind == FaultKind::ClockStep);
    let steps: Vec<(u64, u64)> = steps.map(|fault| (fault.t, fault.until.map_or(u64::MAX, over))).collect();
    let is_stepped = |t: u64| steps.iter().any(|(from, until)| *from <= t && t <= *until);
    let skews = skews(evidence.scenario, evidence.trace);
    let mut tally = Tally::default();
    let ahead = evidence.ahead.likely;
    for (n, lane, arrival) in arrivals(evidence).filter(|(_, lane, _)| is_fresh(evidence, *lane)) {
        if is_stalled(lanes[lane as usize].subscriber, arrival.t) || is_stepped(arrival.t) {
            continue;
        }
        tally.see();
        let wrong =
            skews.iter().filter(|skew| skew.covers(arrival.t)).map(|skew| ahead.saturating_add(skew.ahead));
        let is_right =
            |ahead| is_stamped(evidence.trace, arrival, ahead, evidence.forgiven.behind(arrival.t));
        if !is_right(ahead) && !{ wrong }.any(is_right) {
            let text = timestamp(arrival).unwrap_or_default();
            let now = unix_seconds(evidence.trace, arrival, ahead);
            let what = format!("the timestamp is {text:?}; the request arrived at {now}");
            tally.broke(|| evidence.witness(lane, &[n], what));
        }
    }
    let is_set = !steps.is_empty() || !skews.is_empty() || !evidence.trace.host.clock_sets.is_empty();
    if !is_set && !evidence.trace.declared.lacks(Lack::Start) {
        stamped_anew(evidence, &mut tally);
    }
    let finding = tally.finding(
        "timestamps",
        "within 5 s of their arrival",
        "more than 5 s from their arrival, or those of an earlier attempt",
    );
    let sign = if ahead < 0 { "-" } else { "" };
    match ahead {
        0 => finding,
        _ => finding.with("the sender's clock is ahead by", format!("{sign}{}", show(ahead.unsigned_abs()))),
    }
}

/// Timestamps count seconds, and a sender stamps shortly before it sends.
const STAMPED_ANEW: u64 = 2 * SECOND;

/// Each retry that was sent [`STAMPED_ANEW`] after the attempt before it had arrived has a later timestamp.
fn stamped_anew(evidence: &Evidence<'_>, tally: &mut Tally) {
    let arrival = |n: u32| &evidence.trace.arrivals[n as usize];
    let stamp = |n: u32| timestamp(arrival(n)).and_then(|text| text.parse::<u64>().ok());
    for (delivery, _, before, after) in evidence.retries() {
        let apart = evidence.sent_from(after) >= evidence.exchange(before).t.saturating_add(STAMPED_ANEW);
        if !apart || !is_fresh(evidence, delivery.lane) {
            continue;
        }
        // Others break the rule of their arrival already.
        let is_near = is_stamped(evidence.trace, arrival(after), evidence.ahead.likely, 0);
        let reused = |(earlier, later): &(u64, u64)| is_near && later <= earlier;
        if let Some((earlier, later)) = stamp(before).zip(stamp(after)).filter(reused) {
            let gap = show(evidence.exchange(after).t - evidence.exchange(before).t);
            let what = format!("the timestamp is {later}; {gap} before it was {earlier}");
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        }
    }
}

pub(super) fn is_stalled(subscriber: &Subscriber, t: u64) -> bool {
    subscriber.behaviours.iter().any(|one| {
        let until = one.until().unwrap_or(u64::MAX).saturating_add(2 * SECOND);
        matches!(one.answer, Answer::Stall | Answer::NoAccept) && one.at.0 <= t && t <= until
    })
}

/// One id may stand for several events in one body.
fn together(evidence: &Evidence<'_>, attempts: &[u32], event: u64) -> bool {
    attempts.iter().any(|n| {
        let arrival = &evidence.trace.arrivals[*n as usize];
        arrival.token == Some(event) || arrival.more.contains(&event)
    })
}

pub(super) const ID: Check = Check {
    id: "format.id",
    severity: Severity::Must,
    source: "Standard Webhooks 1.0",
    requirement: "the delivery id is the same on every retry, belongs to one delivery, and has at most 256 \
        characters, which are visible ASCII without a dot",
    why: "receivers recognise repeats by the id alone: a new id turns a retry into a second event, and a \
        shared id makes an event vanish",
    remedy: "create the id once, when the delivery is stored, from letters, digits, - and _",
    stands_alone: true,
    find: id,
    ..Check::PLAIN
};

/// In bytes. Signing profiles set no bound; a UUID has 36, and servers refuse a header line from 8,192 on.
const ID_BYTES_MAX: usize = 256;

fn unfit(id: &str) -> Option<String> {
    let shown: String = id.chars().take(ID_SHOWN_CHARS).collect();
    match () {
        () if id.len() > ID_BYTES_MAX => {
            Some(format!("the id {shown:?}… has more than {ID_BYTES_MAX} bytes"))
        }
        () if !id.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Some(format!("the id {shown:?} has a blank, or a character that is not visible ASCII"))
        }
        () if id.contains('.') => Some(format!("the id {shown:?} contains a dot")),
        () => None,
    }
}

const ID_SHOWN_CHARS: usize = 80;

pub(super) fn id(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let mut owners: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    let is_own = matches!(evidence.trace.declared.signs, Some(Signs::Own { .. }));
    for delivery in &evidence.deliveries {
        let attempts = evidence.attempts(delivery);
        let id = |n: &u32| evidence.trace.arrivals[*n as usize].id.as_deref();
        let Some(first) = attempts.first().and_then(id) else { continue };
        tally.see();
        let owner = *owners.entry((delivery.lane, first)).or_insert(delivery.token);
        let signed = !is_own && profile(evidence, delivery.lane).signs_id();
        let unfit = if signed { unfit(first) } else { None };
        let what = if let Some(unfit) = unfit {
            unfit
        } else if let Some(n) = attempts.iter().find(|n| id(n) != Some(first)) {
            format!("the id is {first:?} on one attempt and {:?} on another", id(n).unwrap_or_default())
        } else if owner != delivery.token && !together(evidence, attempts, owner) {
            format!("the id {first:?} is also used for event {owner}")
        } else {
            continue;
        };
        tally.broke(|| evidence.witness(delivery.lane, attempts, what));
    }
    if tally.seen == 0 && !(0_u32..).zip(&evidence.lanes).any(|(lane, _)| carries(evidence, lane).id) {
        return Finding::unasked("no request carries an id");
    }
    tally.finding(
        "delivery ids",
        "each belongs to one delivery and stays the same",
        "changed, shared, or unfit for a header",
    )
}

// Secrets that an operator rotates during a run.
//
// From the planned rotation until a second after its confirmation, a signature that doesn't verify says nothing. After
// a rotation that the trace lacks, signatures that don't verify are undecidable. The older secret retires `lasts` after
// the sender made the new one.

pub(super) fn unconfirmed(signatures: u64) -> String {
    format!("signatures that do not verify after a rotation that the sender did not confirm: {signatures}")
}

/// Time in which requests may be in flight while secrets change.
const UNDER_WAY: u64 = SECOND;

pub(super) struct Rotations(Vec<Rotation>);

struct Rotation {
    /// It was not requested before this.
    planned: u64,
    /// The confirmation in the trace.
    done: Option<u64>,
    /// Until when the older secret certainly signs too.
    both_until: u64,
    retired: u64,
}

pub(super) fn rotations(evidence: &Evidence<'_>, subscriber: &Subscriber) -> Rotations {
    if evidence.trace.declared.lacks(Lack::Rotate) {
        return Rotations(Vec::new());
    }
    let all = changes(evidence.scenario, evidence.trace, FaultKind::Rotate).into_iter();
    let concerned = all.filter(|(plan, _)| plan.action.concerns(&subscriber.group, &subscriber.name));
    let rotation = |(plan, done): (&FaultPlan, Option<&Fault>)| {
        let later = done.map_or(u64::MAX, |done| done.t.saturating_add(plan.lasts.0));
        Rotation {
            planned: plan.at.0,
            done: done.map(|done| done.t),
            both_until: done.and_then(|done| done.until).unwrap_or(later),
            retired: later,
        }
    };
    Rotations(concerned.map(rotation).collect())
}

impl Rotations {
    pub(super) fn is_changing(&self, t: u64) -> bool {
        let noted = |done: u64| t <= done.saturating_add(UNDER_WAY);
        self.0.iter().any(|one| one.planned <= t && one.done.is_none_or(noted))
    }

    pub(super) fn is_unknown(&self, t: u64) -> bool {
        self.0.iter().any(|one| one.planned <= t && one.done.is_none())
    }

    /// Whether two secrets certainly sign at `t`.
    pub(super) fn both(&self, t: u64) -> bool {
        let from = |one: &Rotation| one.done.map_or(u64::MAX, |done| done.saturating_add(UNDER_WAY));
        self.0.iter().any(|one| from(one) <= t && t <= one.both_until.saturating_sub(UNDER_WAY))
    }

    pub(super) fn oldest(&self, t: u64) -> usize {
        self.0.iter().filter(|one| one.retired.saturating_add(UNDER_WAY) < t).count()
    }
}
