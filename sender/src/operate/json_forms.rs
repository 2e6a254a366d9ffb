//! JSON forms, shared by the API and the command line.

use serde_json::{Value, json};

use crate::engine::{Nanos, StoreTime, UnderWay};
use crate::event::timestamp::Timestamp;
use crate::roster::Roster;
use crate::sign::{Profile, Secret};
use crate::store::clock::Fault;
use crate::store::lane::{Counts, LaneState, OwnerId, Pause};
use crate::store::latency::{Histogram, Measured, Percentiles, TOO_HIGH_PERMILLE};
use crate::store::read::{self, Nodes, Place, Status};
use crate::subscriber::SettingsText;

pub(crate) const fn place(place: Place) -> &'static str {
    match place {
        Place::Waiting => "waiting",
        Place::Delivered => "delivered",
        Place::Dead => "dead",
        Place::Coalesced => "coalesced",
        Place::Forgotten => "forgotten",
    }
}

pub(crate) fn moment(at: StoreTime) -> String {
    Timestamp(at).to_string()
}

pub(crate) fn counts(counts: &Counts) -> Value {
    json!({
        "accepted": counts.accepted,
        "delivered": counts.delivered,
        "dead": counts.dead,
        "coalesced": counts.coalesced,
        "waiting": counts.waiting,
        "waiting_bytes": counts.waiting_bytes,
        "retrying": counts.retrying,
        "dead_kept": counts.dead_kept,
        "dead_gone": counts.dead_gone(),
        "failed_attempts": counts.failed_attempts,
    })
}

pub(crate) fn totals(status: &Status) -> Value {
    let [active, paused, disabled] = status.subscribers;
    json!({
        "deliveries": counts(&status.counts),
        "last_hour": {
            "delivered": status.delivered_last_hour,
            "failed_attempts": status.failed_last_hour,
            "dead": status.dead_last_hour,
            "mean_latency_us": status.latency_last_hour.map(|latency| latency.0 / 1_000),
        },
        "oldest_due": status.oldest_due.map(moment),
        "oldest_received": status.next_to_expire.map(moment),
        "unreadable": status.unreadable,
        "subscribers": { "active": active, "paused": paused, "disabled": disabled },
        "outbox": { "waiting": status.outbox, "rejected": status.outbox_rejected },
    })
}

pub(crate) fn nodes(nodes: &Nodes, now: StoreTime) -> Value {
    let [living, draining] = count_nodes(nodes, now);
    json!({ "living": living, "draining": draining })
}

pub(crate) fn count_nodes(nodes: &Nodes, now: StoreTime) -> [usize; 2] {
    let living = nodes.living(now);
    [living.clone().count(), living.filter(|node| node.announced.draining).count()]
}

/// The unique id of a node, because several may share a name.
pub(crate) fn node_id(owner: OwnerId) -> String {
    format!("{:016x}", owner.0)
}

pub(crate) fn under_way(requests: &UnderWay) -> Value {
    json!({ "in_flight": requests.in_flight, "in_doubt": requests.in_doubt })
}

/// `fault` is `ahead` if the next writing process corrects the store's time, and `kept_ahead` if an operator must.
pub(crate) fn clock(now: StoreTime, wall: StoreTime, fault: Option<Fault>) -> Value {
    let (ahead, fault) = match fault {
        Some(Fault::Corrected(by)) => (by, Some("ahead")),
        Some(Fault::Kept(by)) => (by, Some("kept_ahead")),
        None => (now.since(wall), None),
    };
    json!({
        "now": moment(now),
        "ahead_ms": ahead.0 / 1_000_000,
        "behind_ms": wall.since(now).0 / 1_000_000,
        "fault": fault,
    })
}

/// Sets fields of `value` from a day's measurements; null without any.
pub(crate) fn measured(value: &mut Value, measured: Option<&Measured>) {
    let shown = |histogram: fn(&Measured) -> &Histogram| {
        let found = measured.map(histogram).and_then(Histogram::percentiles);
        found.map_or(Value::Null, |found| percentiles(found, TOO_HIGH_PERMILLE))
    };
    value["latency_last_day"] = shown(|it| &it.answer);
    if let Some(found) = measured.and_then(|it| it.answer.percentiles()) {
        value["latency_last_day"]["slow"] = json!(found.is_slow());
    }
    value["first_attempt_last_day"] = shown(|it| &it.first_attempt);
    value["delivery_last_day"] = shown(|it| &it.delivery);
}

/// `too_high_permille` bounds their error.
pub(crate) fn percentiles(found: Percentiles, too_high_permille: u64) -> Value {
    json!({
        "samples": found.samples,
        "p50_us": found.p50.0 / 1_000,
        "p95_us": found.p95.0 / 1_000,
        "p99_us": found.p99.0 / 1_000,
        "too_high_permille_max": too_high_permille,
    })
}

pub(crate) fn broken(roster: &Roster) -> Value {
    const MAX: usize = 100;
    let first = roster.broken().take(MAX);
    let first = first.map(|(known, fault)| {
        json!({ "subscriber": &**known.id(), "name": &**known.name(), "fault": fault.to_string() })
    });
    first.collect()
}

pub(crate) fn pause(pause: &Pause) -> Value {
    json!({ "reason": pause.reason.as_deref(), "until": pause.until.map(moment) })
}

/// Adds a new secret, and its public key where the endpoint needs that.
pub(crate) fn add_secret(value: &mut Value, secret: &Secret, profile: Profile) {
    value["secret"] = secret.reveal().into();
    if let Some(key) = secret.public_key(profile) {
        value["public_key"] = key.into();
    }
}

/// With all settings in effect, and without secrets.
pub(crate) fn subscriber(subscriber: &read::Subscriber, fault: Option<String>) -> Value {
    let settings = SettingsText::from_json(&subscriber.settings);
    let mut whole = settings.map_or_else(|_| json!({}), |settings| settings.in_effect());
    let events: Value = serde_json::from_str(&subscriber.patterns).unwrap_or_default();
    let own = json!({
        "id": &*subscriber.id,
        "name": &*subscriber.name,
        "url": &*subscriber.url,
        "events": events,
        "state": subscriber.state.name(),
        "pause": (subscriber.state == LaneState::Paused).then(|| pause(&subscriber.pause)),
        "fault": fault,
        "version": subscriber.version,
        "created": moment(subscriber.created),
    });
    if let (Value::Object(whole), Value::Object(own)) = (&mut whole, own) {
        whole.extend(own);
    }
    whole
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) count: u64,
    pub(crate) per: Nanos,
    pub(crate) burst: u32,
    pub(crate) caps: Vec<(u64, Nanos)>,
}

impl Limit {
    pub(crate) fn most_in(&self, length: Nanos) -> u64 {
        let earned = u128::from(self.count) * u128::from(length.0) / u128::from(self.per.0.max(1));
        let bucket = u64::try_from(earned).unwrap_or(u64::MAX).saturating_add(self.burst.into());
        let caps = self.caps.iter();
        let caps = caps.map(|(count, window)| count.saturating_mul(length.0.div_ceil(window.0.max(1))));
        caps.fold(bucket, u64::min)
    }

    /// The rate for one second, rounded up. Attempts beyond it use saved burst.
    pub(crate) fn rate_per_second(&self) -> u64 {
        let earned = u128::from(self.count) * u128::from(Nanos::SECOND.0);
        u64::try_from(earned.div_ceil(u128::from(self.per.0.max(1)))).unwrap_or(u64::MAX)
    }
}

pub(crate) fn audit(
    begin: StoreTime,
    subscriber: Option<&str>,
    (attempts, limited): (u64, u64),
    allowed: Option<u64>,
) -> Value {
    json!({
        "subscriber": subscriber,
        "begin": moment(begin),
        "attempts": attempts,
        "answered_429": limited,
        "allowed": allowed,
        "above_contract": allowed.map(|allowed| attempts > allowed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(length: Nanos, rate: (u64, Nanos), burst: u32, caps: &[(u64, Nanos)], expected: (u64, u64)) {
        let limit = Limit { count: rate.0, per: rate.1, burst, caps: caps.to_vec() };
        assert_eq!((limit.rate_per_second(), limit.most_in(length)), expected, "{limit:?}");
    }

    #[test]
    fn the_most_is_what_the_tightest_limit_allows() {
        let (second, minute) = (Nanos::SECOND, Nanos::MINUTE);
        check(second, (50, second), 20, &[], (50, 70));
        check(second, (50, second), 20, &[(60, second)], (50, 60));
        check(second, (50, second), 20, &[(60, minute)], (50, 60));
        check(second, (90, minute), 1, &[], (2, 2));
        check(second, (60, minute), 1, &[], (1, 2));
        check(minute, (5, second), 10, &[], (5, 310));
        check(second, (30, minute), 1, &[], (1, 1));
        // Such a window may be used several times in a second.
        let caps = [(7, Nanos::from_millis(300)), (1_000, minute)];
        check(second, (100, second), 100, &caps, (100, 28));
    }
}
