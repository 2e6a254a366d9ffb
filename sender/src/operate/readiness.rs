//! Faults on the sender's side that hold up deliveries. Failing endpoints do not count, since other subscribers are
//! still served.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::dispatch::Stuck;
use crate::engine::{Nanos, StoreTime};
use crate::runtime::clock::FAR_OFF;
use crate::runtime::{LastLook, Sender};
use crate::store::StoreError;
use crate::store::log_size::{LogSize, why_long};
use crate::store::thread::Health;

/// A response takes microseconds.
const ALIVE_WITHIN: Duration = Duration::from_secs(2);
/// A poll comes every few milliseconds.
const READ_WITHIN: Nanos = Nanos::from_secs(5);
/// A fault that lasts fails again within this time.
const GIVEN_UP_FOR: Nanos = Nanos::MINUTE;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unready {
    /// For programs.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) detail: String,
}

impl Unready {
    fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "code": self.code, "detail": self.detail })
    }
}

pub(crate) async fn unready(sender: &Sender) -> Vec<Unready> {
    if let Some(what) = sender.broken_part() {
        return vec![Unready::new("ended", what)];
    }
    let clock = sender.clock();
    let mut reasons = of_the_store(&sender.health(), clock.now());
    if reasons.iter().all(|reason| reason.code != "store") {
        reasons.extend(of_the_reader(&sender.last_look(), clock.now()));
    }
    match timeout(ALIVE_WITHIN, sender.lanes_that_cannot_move()).await {
        Ok(stuck) => reasons.extend(of_the_lanes(&stuck)),
        Err(_) => reasons.push(Unready::new("dispatcher", "the dispatcher does not answer")),
    }
    reasons.extend(sender.proxy_failure().map(|failure| Unready::new("proxy", failure)));
    reasons.extend(of_the_clock(clock.ahead()));
    reasons
}

fn of_the_store(health: &Health, now: StoreTime) -> Vec<Unready> {
    let mut reasons = Vec::new();
    if let Some((_, error)) = &health.failing {
        reasons.push(Unready::new("store", format!("the database cannot be written: {error}")));
    }
    if let (None, Some(left)) = (&health.failing, health.reserve_left) {
        let detail = format!(
            "the disk is full: events are refused; deliveries continue with {} MiB left of the reserve; free \
             some space",
            left >> 20
        );
        reasons.push(Unready::new("disk", detail));
    }
    if let Some((at, error)) = &health.given_up
        && now.since(*at) < GIVEN_UP_FOR
        && !matches!(error, StoreError::Damaged { .. })
    {
        reasons.push(Unready::new("given_up", format!("the database gave up a request: {error}")));
    }
    if let Some(error) = &health.damaged {
        reasons.push(Unready::new(
            "damaged",
            format!("a part of the database is damaged: {error}; mend it, then restart this process"),
        ));
    }
    if health.log_bytes >= LogSize::PINNED_BYTES {
        let mebibytes = health.log_bytes >> 20;
        let why = why_long(health.log_is_held);
        let detail = format!("the database's log has grown to {mebibytes} MiB: {why}");
        reasons.push(Unready::new("log", detail));
    }
    reasons
}

/// The watcher polls all the time on its own connection.
fn of_the_reader(last: &LastLook, now: StoreTime) -> Option<Unready> {
    if now.since(last.at) <= READ_WITHIN {
        return None;
    }
    let detail = match &last.error {
        Some(error) => format!("the database cannot be read: {error}"),
        None => "the database does not answer".to_owned(),
    };
    Some(Unready::new("store", detail))
}

/// The first alone, since they mostly share a cause.
fn of_the_lanes(stuck: &[Stuck]) -> Option<Unready> {
    let first = stuck.first()?;
    let (count, lane, why) = (stuck.len(), first.lane.0, &first.why);
    Some(Unready::new("lanes", format!("blocked lanes: {count}; the first is lane {lane}: {why}")))
}

/// Durations are right by a clock that is behind.
fn of_the_clock(ahead: Option<Nanos>) -> Option<Unready> {
    let ahead = ahead.filter(|ahead| *ahead > FAR_OFF)?;
    let minutes = ahead.0 / Nanos::MINUTE.0;
    let remedy = "see `hookproof sender doctor`";
    let detail = format!("the database's clock is {minutes} min ahead of the wall clock: {remedy}");
    Some(Unready::new("clock", detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::LaneId;
    use crate::store::StoreError;

    const NOW: StoreTime = StoreTime::from_secs(1_800_000_000);

    fn codes(health: &Health) -> Vec<&'static str> {
        of_the_store(health, NOW).iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn each_trouble_of_the_store_has_its_reason() {
        let error = || StoreError::Broken { doing: "settle deliveries", detail: "a page".into() };
        let long_ago = StoreTime(NOW.0 - GIVEN_UP_FOR.0);
        assert!(codes(&Health::default()).is_empty());
        assert_eq!(codes(&Health { failing: Some((NOW, error())), ..Health::default() }), ["store"]);
        assert_eq!(codes(&Health { reserve_left: Some(0), ..Health::default() }), ["disk"]);
        let used_up = Health { failing: Some((NOW, error())), reserve_left: Some(0), ..Health::default() };
        assert_eq!(codes(&used_up), ["store"]);
        assert_eq!(codes(&Health { given_up: Some((NOW, error())), ..Health::default() }), ["given_up"]);
        assert!(codes(&Health { given_up: Some((long_ago, error())), ..Health::default() }).is_empty());
        let damaged = StoreError::Damaged { doing: "purge", detail: "a page".into() };
        assert_eq!(codes(&Health { damaged: Some(damaged), ..Health::default() }), ["damaged"]);
        let log_bytes = LogSize::PINNED_BYTES;
        assert_eq!(codes(&Health { log_bytes, ..Health::default() }), ["log"]);
        assert!(codes(&Health { log_bytes: log_bytes - 1, ..Health::default() }).is_empty());
    }

    #[test]
    fn lanes_that_cannot_move_are_counted_and_the_first_is_named() {
        let stuck = |lane| Stuck { lane: LaneId(lane), why: "the disk is gone".into() };
        assert_eq!(of_the_lanes(&[]), None);
        let reason = of_the_lanes(&[stuck(4), stuck(7)]).unwrap();
        assert_eq!(reason.detail, "blocked lanes: 2; the first is lane 4: the disk is gone");
    }

    #[test]
    fn a_clock_counts_once_it_is_far_ahead() {
        assert_eq!(of_the_clock(Some(FAR_OFF)), None);
        assert_eq!(of_the_clock(Some(Nanos::DAY)).map(|reason| reason.code), Some("clock"));
    }

    #[test]
    fn a_database_that_cannot_be_read_for_a_while_is_a_reason() {
        let error = StoreError::Io { doing: "glance", detail: "a page".into() };
        let last = |error| LastLook { at: NOW, error };
        let later = StoreTime(NOW.0 + READ_WITHIN.0 + 1);
        let told = |last: LastLook, now| of_the_reader(&last, now).map(|reason| reason.detail);
        assert_eq!(told(last(Some(error.clone())), StoreTime(NOW.0 + READ_WITHIN.0)), None);
        assert!(told(last(Some(error)), later).unwrap().contains("cannot be read: could not glance"));
        assert_eq!(told(last(None), later).unwrap(), "the database does not answer");
    }
}
