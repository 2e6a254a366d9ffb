//! A subscriber's settings as people write them. Whatever is left out has the default that stands here.
//!
//! ```json
//! { "limit": { "rate": "50/s", "burst": 20, "windows": ["60 per 1s"] }, "retry": { "ttl": "48h" }, "timeout": "5s" }
//! ```

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::form::{count, object};
use super::section::section;
use crate::engine::Nanos;
use crate::event::coalesce::CoalescingRule;
use crate::event::shape::{PseudonymRule, Region};
use crate::sign::Profile;
use crate::units::{Bytes, Rate, WindowCap};

section! {
    /// Everything that a subscriber is owed, but for its name, its URL, the events that it wants, and its secrets.
    SettingsText, filled in as Filled {
        /// What it may be sent.
        #[serde(deserialize_with = "object")]
        limit: LimitText = LimitText::default();
        /// How much may wait for it.
        #[serde(deserialize_with = "object")]
        queue: QueueText = QueueText::default();
        /// How its attempts are signed: `standard-webhooks`.
        sign: Profile = Profile::default();
        /// How long one attempt may take in all: `8s`.
        timeout: Nanos = Nanos::from_secs(8);
        /// How much of that it may take to connect: `4s`, or the whole timeout if that is shorter.
        connect_timeout: Nanos = Nanos::from_secs(4).min(timeout);
        /// What follows a failed attempt.
        #[serde(deserialize_with = "object")]
        retry: RetryText = RetryText::default();
        /// When an endpoint that fails is left alone.
        #[serde(deserialize_with = "object")]
        breaker: BreakerText = BreakerText::default();
        /// When an endpoint that shows strain is sent less.
        #[serde(deserialize_with = "object")]
        pressure: PressureText = PressureText::default();
        /// The same event id inside this while is the same event: `10min`. `0s` for never.
        dedupe: Nanos = Nanos::MINUTE.times(10);
        /// Which events it gets the newest of: none, so that it gets every one.
        coalesce: Vec<CoalescingRule> = Vec::new();
        /// Which of the data it gets to see: all.
        #[serde(deserialize_with = "object")]
        shape: ShapeText = ShapeText::default();
    }
}

section! {
    /// The contract: every limit holds at once.
    LimitText, filled in as Limit {
        /// The rate at which it may be sent in the long run: `5/s`.
        rate: Rate = Rate::new(5, Nanos::SECOND).expect("neither is nothing");
        /// How many may be sent at once after a rest: `10`.
        #[serde(deserialize_with = "count")]
        burst: u32 = 10;
        /// Caps on sliding windows, such as `60 per 1s`: none.
        windows: Vec<WindowCap> = Vec::new();
        /// How many requests may be under way: half of the burst, and 10 at most. What a killed process may have had under
        /// way is in doubt, and a burst that is all in doubt stops its lane.
        #[serde(deserialize_with = "count")]
        in_flight: u32 = (burst / 2).clamp(1, 10);
        /// Whether attempts start at an even pace, one each time that the rate allows one more, however many the burst is:
        /// no. The full rate needs a burst and a cap in flight of rate × answer time + 2.
        pace: bool = false;
        /// For how long after an answer to a later one a request without an answer may still arrive: `5s`.
        quarantine: Nanos = Nanos::from_secs(5);
        /// For how long it may arrive at all, once it was given up: `60s`, or the quarantine if that is longer.
        doubt: Nanos = Nanos::MINUTE.max(quarantine);
    }
}

section! {
    /// The bounds on what waits.
    QueueText, filled in as Queue {
        /// How many deliveries: `100000`.
        #[serde(deserialize_with = "count")]
        rows: u64 = 100_000;
        /// How many bytes of bodies: `256MiB`.
        bytes: Bytes = Bytes(256 << 20);
        /// What happens to one more: `shed-oldest`.
        when_full: WhenFullText = WhenFullText::ShedOldest;
    }
}

section! {
    /// Which failed attempts have a successor, and when.
    RetryText, filled in as Retry {
        /// How delays grow: `full-jitter`.
        backoff: BackoffText = BackoffText::FullJitter;
        /// What they grow from, doubling: `1s`. Not for `fixed`.
        base: Nanos = Nanos::SECOND;
        /// What they grow to: `1h`. Not for `fixed`.
        cap: Nanos = Nanos::HOUR;
        /// What `additive` adds at most: `30s`, or the cap if that is shorter. Only for `additive`.
        jitter: Nanos = Nanos::from_secs(30).min(cap);
        /// The delays one after another; the last one repeats. Only for `fixed`, which needs it.
        schedule: Vec<Nanos> = Vec::new();
        /// Attempts in all: `12`.
        #[serde(deserialize_with = "count")]
        attempts: u32 = 12;
        /// How old a delivery may grow: `24h`.
        ttl: Nanos = Nanos::DAY;
        /// The most that a `Retry-After` counts for: `24h`.
        retry_after_cap: Nanos = Nanos::DAY;
    }
}

section! {
    /// When an endpoint is left alone, and for how long.
    BreakerText, filled in as Breaker {
        /// After so many failures in a row: `10`.
        #[serde(deserialize_with = "count")]
        failures: u32 = 10;
        /// After so many where it is slow: `5`, or as many as above if that is fewer.
        #[serde(deserialize_with = "count")]
        failures_when_slow: u32 = failures.min(5);
        /// It is slow when the 95th percentile of its latency is over this: `5s`.
        slow: Nanos = Nanos::from_secs(5);
        /// The longest that it is left alone: `1h`.
        cooldown_max: Nanos = Nanos::HOUR;
        /// How long at first, doubling: `5min`, or the longest if that is shorter.
        cooldown: Nanos = Nanos::MINUTE.times(5).min(cooldown_max);
    }
}

section! {
    /// What counts as strain, and how far the sender gives way.
    PressureText, filled in as Pressure {
        /// Never slower than one attempt in this while: `1min`.
        slowest: Nanos = Nanos::MINUTE;
        /// So many successes in a row give back a twentieth of the contract: `10`.
        #[serde(deserialize_with = "count")]
        streak: u32 = 10;
        /// Latency below this is never strain: `500ms`.
        latency_min: Nanos = Nanos::from_millis(500);
        /// Latency is strain at so many times what it was: `4`.
        #[serde(deserialize_with = "count")]
        latency_factor: u32 = 4;
        /// Failures are strain above this share: `50`.
        #[serde(deserialize_with = "count")]
        failures_percent: u32 = 50;
    }
}

/// Which of an event's data it gets to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShapeText {
    /// The fields that are let through, by their paths. Absent, all are; empty, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// The fields that are replaced by pseudonyms: `"channel_id"`, or `{"field": "channel_id", "as": "creator"}` to
    /// give it another name too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pseudonymise: Option<Vec<PseudonymText>>,
    /// Whose secret makes the pseudonyms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
}

impl ShapeText {
    /// The names of its fields.
    pub const FIELDS: &'static [&'static str] = &["allow", "pseudonymise", "region"];
}

/// What a full queue does with one delivery more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFullText {
    /// The oldest makes room and becomes a dead letter.
    ShedOldest,
    /// The emitter is told to come back later.
    Refuse,
}

/// How the delays between attempts grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackoffText {
    /// Anything from nothing to the step.
    FullJitter,
    /// Half the step, and anything up to the other half.
    EqualJitter,
    /// The step, and anything up to `jitter`.
    Additive,
    /// By the `schedule`.
    Fixed,
}

impl BackoffText {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullJitter => "full-jitter",
            Self::EqualJitter => "equal-jitter",
            Self::Additive => "additive",
            Self::Fixed => "fixed",
        }
    }
}

/// One field that is replaced: its path alone where it keeps its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PseudonymText(pub PseudonymRule);

impl Serialize for PseudonymText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            PseudonymRule { field, new_name: None } => field.serialize(serializer),
            rule => rule.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PseudonymText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rule;

        impl<'de> Visitor<'de> for Rule {
            type Value = PseudonymText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a field's path, or an object with field and as")
            }

            fn visit_str<E: Error>(self, field: &str) -> Result<PseudonymText, E> {
                Ok(PseudonymText(PseudonymRule { field: field.to_owned(), new_name: None }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PseudonymText, A::Error> {
                PseudonymRule::deserialize(MapAccessDeserializer::new(map)).map(PseudonymText)
            }
        }

        deserializer.deserialize_any(Rule)
    }
}

impl SettingsText {
    /// The groups among its fields, with theirs.
    pub(super) const SECTIONS: [(&'static str, &'static [&'static str]); 6] = [
        ("limit", LimitText::FIELDS),
        ("queue", QueueText::FIELDS),
        ("retry", RetryText::FIELDS),
        ("breaker", BreakerText::FIELDS),
        ("pressure", PressureText::FIELDS),
        ("shape", ShapeText::FIELDS),
    ];

    /// All that holds, defaults included, for people to see. It reads back as settings that mean the same.
    #[must_use]
    pub fn shown(&self) -> Self {
        let full = self.filled();
        Self {
            limit: Some(full.limit.filled().into()),
            queue: Some(full.queue.filled().into()),
            retry: Some(full.retry.shown()),
            breaker: Some(full.breaker.filled().into()),
            pressure: Some(full.pressure.filled().into()),
            shape: self.shape.clone(),
            ..full.into()
        }
    }
}

impl RetryText {
    /// Without what has no meaning for its backoff.
    fn shown(&self) -> Self {
        let full = self.filled();
        let backoff = full.backoff;
        let mut shown = Self::from(full);
        if backoff == BackoffText::Fixed {
            (shown.base, shown.cap) = (None, None);
        } else {
            shown.schedule = None;
        }
        if backoff != BackoffText::Additive {
            shown.jitter = None;
        }
        shown
    }
}
