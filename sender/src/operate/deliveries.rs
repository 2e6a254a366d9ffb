//! One delivery, and the reason why it waits.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::flow::{Flow, Flows, State};
use super::json_forms::{moment, place};
use crate::engine::{DeliveryId, Nanos, StoreTime};
use crate::event::PublicId;
use crate::store::StoreError;
use crate::store::command::{Attempt, AttemptOutcome, Body, Reason};
use crate::store::read::{Attempted, Delivery, Place, Reader, Resent, Tried};
use crate::units::rough;

/// `subscriber` is its public id, if it is still there.
pub(crate) fn to_json(delivery: &Delivery, id: &PublicId, subscriber: Option<&str>) -> Value {
    let waits = delivery.place == Place::Waiting;
    json!({
        "id": id.as_str(),
        "subscriber": subscriber,
        "event": &*delivery.event,
        "type": &*delivery.kind,
        "key": delivery.key.as_deref(),
        "state": place(delivery.place),
        "reason": delivery.reason.map(Reason::name),
        "attempts": delivery.attempts,
        "bytes": delivery.bytes,
        "received": moment(delivery.received),
        "due": waits.then(|| moment(delivery.at)),
        "settled": (!waits).then(|| moment(delivery.at)),
        "expires": moment(delivery.expires),
    })
}

pub(crate) struct Tracked {
    pub(crate) delivery: Delivery,
    /// The newest first.
    pub(crate) attempts: Vec<Attempted>,
    resent: Vec<Resent>,
    /// Nothing if it was lost.
    body: Option<Body>,
    flow: Option<Flow>,
    now: StoreTime,
}

impl Tracked {
    pub(crate) fn read(
        reader: &dyn Reader,
        flows: &Flows,
        id: DeliveryId,
    ) -> Result<Option<Self>, StoreError> {
        let Some(delivery) = reader.delivery(id)? else { return Ok(None) };
        let lane = reader.lane(delivery.lane)?;
        let flow = flows.of(reader, lane.as_slice())?.pop();
        let (attempts, resent, body) = (reader.attempts_of(id)?, reader.resent(id)?, reader.body(id)?);
        Ok(Some(Self { delivery, attempts, resent, body, flow, now: flows.now() }))
    }

    pub(crate) fn to_json(&self, id: &PublicId, subscriber: Option<&str>) -> Value {
        let mut value = to_json(&self.delivery, id, subscriber);
        value["waits_for"] = json!(self.waits_for());
        value["body"] = json!(self.body());
        value["resent"] = self.resent.iter().map(|resent| moment(resent.at)).collect();
        value["tried"] = (0..self.attempts.len()).map(|place| self.attempt_json(place)).collect();
        value
    }

    /// Whether the attempt at this place is the first since an operator had the delivery sent again.
    pub(crate) fn is_resent(&self, place: usize) -> bool {
        let before = self.attempts.get(place + 1).map(|attempted| attempted.attempt.at);
        self.resent.iter().any(|resent| resent.after == before)
    }

    /// What set the time of the attempt after the one at this place. Nothing if none follows, or an operator asked for it.
    fn retried_by(&self, place: usize) -> Option<&'static str> {
        let Attempted { number, attempt, .. } = self.attempts.get(place)?;
        let follows = match place.checked_sub(1) {
            Some(newer) => self.attempts[newer].number > *number,
            None => self.delivery.place == Place::Waiting && self.delivery.attempts >= *number,
        };
        follows.then_some(if attempt.details.asked { "retry_after" } else { "backoff" })
    }

    fn attempt_json(&self, place: usize) -> Value {
        let attempted = &self.attempts[place];
        let mut value = attempt_json(attempted);
        value["resent"] = json!(self.is_resent(place));
        value["retried_by"] = json!(self.retried_by(place));
        value["answer"] = json!(attempted.attempt.details.answer.as_ref().map(|answer| json!({
            "headers": answer.headers().collect::<BTreeMap<_, _>>(),
            "body": answer.text(),
            "cut": answer.cut,
        })));
        value
    }

    pub(crate) fn body(&self) -> Option<String> {
        self.body.as_ref().map(|body| String::from_utf8_lossy(&body.bytes).into_owned())
    }

    /// Nothing once it is settled.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let Delivery { place: Place::Waiting, at, attempts, expires, .. } = self.delivery else {
            return None;
        };
        let flow = self.flow.as_ref().filter(|flow| flow.state != State::Active);
        let due = (at > self.now).then(|| {
            let left = rough(at.since(self.now));
            match attempts {
                0 => format!("it is due at {}, in {left}", moment(at)),
                tried => {
                    let (step, cause) = match self.retried_by(0) {
                        _ if at >= expires => ("it expires", ", before its next attempt"),
                        Some("retry_after") => ("the next is due", ", as its answer asked by Retry-After"),
                        _ => ("the next is due", ", by its backoff"),
                    };
                    let at = moment(at);
                    format!("attempt {tried} failed; {step} at {at}, in {left}{cause} (`delivery retry` makes it due now)")
                }
            }
        });
        let held_up = flow.map(|flow| format!("the subscriber: {flow}"));
        let reasons: Vec<String> = due.into_iter().chain(held_up).collect();
        Some(if reasons.is_empty() {
            "its attempt is under way, or it waits for its turn within the limits".to_owned()
        } else {
            reasons.join("; ")
        })
    }
}

fn attempt_json(Attempted { number, attempt, .. }: &Attempted) -> Value {
    let us = |length: Nanos| length.0 / 1_000;
    json!({
        "number": number,
        "at": moment(attempt.at),
        "connect_us": attempt.details.connect.map(us),
        "first_byte_us": attempt.details.first_byte.map(us),
        "latency_us": us(attempt.latency),
        "outcome": outcome(attempt.outcome),
        "status": attempt.status,
        "error": attempt.error.as_deref(),
        "body_hash": format!("{:016x}", attempt.body_hash),
    })
}

/// `subscriber` is its public id, if it is still there. A delivery that is no longer kept has no id.
pub(crate) fn tried_json(tried: &Tried, id: Option<&PublicId>, subscriber: Option<&str>) -> Value {
    let mut value = attempt_json(&tried.attempted);
    value["delivery"] = json!(id.map(PublicId::as_str));
    value["subscriber"] = json!(subscriber);
    value
}

pub(crate) fn ending(attempt: &Attempt) -> String {
    match (attempt.status, &attempt.error) {
        (Some(status), _) if attempt.details.asked => {
            format!("answered {status}; it asked by Retry-After to wait")
        }
        (Some(status), _) => format!("answered {status}"),
        (None, Some(error)) => format!("failed: {error}"),
        (None, None) => "failed".to_owned(),
    }
}

pub(crate) const fn outcome(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Delivered => "delivered",
        AttemptOutcome::Rejected => "rejected",
        AttemptOutcome::Unsent => "unsent",
        AttemptOutcome::Silent => "silent",
    }
}
