//! A subscriber's settings as written, with the defaults of missing ones. The reference is generated from
//! this file: `docs/settings.md`, `hookproof-sender settings`, JSON Schema.
//!
//! ```json
//! { "limit": { "rate": "50/s", "burst": 20, "windows": ["60 per 1s"] }, "retry": { "ttl": "48h" }, "timeout": "5s" }
//! ```

use std::ops::RangeInclusive;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::description::{Default as Unset, Form, Group, PATH, Range, fields, written};
use super::form::{count, object};
use super::section::section;
use crate::documented::documented;
use crate::engine::breaker::{COOLDOWN_MAX, COOLDOWN_MIN, DISABLE_AFTER, DISABLE_AFTER_MAX, FAILURES_MAX};
use crate::engine::contract::{
    BURST_MAX, IN_FLIGHT_MAX, RATE_PER_SECOND_MAX, WINDOW_LENGTH_MAX, WINDOW_LIMIT_MAX, WINDOWS_MAX,
};
use crate::engine::pressure::{FAILURES_PERCENT, LATENCY_FACTOR, LATENCY_LEAST, SLOWEST, STREAK};
use crate::engine::retry::{ATTEMPTS_MAX, BASE_MIN, DELAY_MAX, RETRY_AFTER_CAP, SCHEDULE_MAX, TTL};
use crate::engine::{DEADLINE_MAX, DOUBT_MAX, Nanos};
use crate::event::coalesce::{Coalescing, CoalescingRule};
use crate::event::shape::{PseudonymRule, Region, ShapingRules};
use crate::oauth::{ClientSecret, OauthClient};
use crate::permission::Permission;
use crate::sign::{ExtraHeader, Profile};
use crate::tls_files::TlsFiles;
use crate::units::{Bytes, Rate, WindowCap};
use crate::word_form::word_form;

section! {
    /// Everything that a subscriber is owed, but for its name, its URL, the events that it wants, and its secrets.
    SettingsText, filled in as Filled {
        /// The limits of its contract.
        #[serde(deserialize_with = "object")]
        limit: LimitText = LimitText::default();
        /// How much may wait for it.
        #[serde(deserialize_with = "object")]
        queue: QueueText = QueueText::default();
        /// How its attempts are signed.
        sign: Profile = Profile::default();
        /// Headers of each attempt, beside those of the sender. A retry carries those in force at that time. Put no
        /// secret in them: `subscriber show` and the API print them.
        headers: Vec<ExtraHeader> = Vec::new(),
            in Range::many(0..=ExtraHeader::COUNT_MAX, Range::Bytes(2, ExtraHeader::BYTES_MAX));
        /// How long one attempt may take in all, from the first packet to the last byte of the answer.
        timeout: Nanos = Nanos::from_secs(8), in SettingsText::TIMEOUT;
        /// How much of `timeout` an attempt may take to connect. The default is never longer than `timeout`.
        connect_timeout: Nanos = Nanos::from_secs(4).min(timeout), in (*SettingsText::TIMEOUT.start(), "timeout");
        /// Retries of failed attempts.
        #[serde(deserialize_with = "object")]
        retry: RetryText = RetryText::default();
        /// When an endpoint that fails is left alone.
        #[serde(deserialize_with = "object")]
        breaker: BreakerText = BreakerText::default();
        /// When an endpoint that shows strain is sent less.
        #[serde(deserialize_with = "object")]
        pressure: PressureText = PressureText::default();
        /// For how long an event id is remembered: an event with the same id in that time is the same event. `0s` for never.
        dedupe: Nanos = Nanos::MINUTE.times(10), in Nanos::ZERO..=SettingsText::DEDUPE_MAX;
        /// Events of which only the newest is delivered. Of several rules that match, the first holds. An event without a
        /// `key` is never coalesced.
        coalesce: Vec<CoalescingRule> = Vec::new(), in Range::many(0..=Coalescing::RULES_MAX, Range::Any);
        /// Which of the data it gets to see.
        #[serde(deserialize_with = "object")]
        shape: ShapeText = ShapeText::default();
        /// Its own authorities and client certificate.
        #[serde(deserialize_with = "object")]
        tls: TlsText = TlsText::default();
        /// The bearer token of each attempt.
        #[serde(deserialize_with = "object")]
        oauth: OauthText = OauthText::default();
        /// Its endpoint's permission.
        #[serde(deserialize_with = "object")]
        permission: PermissionText = PermissionText::default();
    }
}

section! {
    /// The contract: every limit holds at once.
    LimitText, filled in as Limit {
        /// The rate at which it may be sent in the long run.
        rate: Rate = rate(5, Nanos::SECOND), in rate(1, Nanos::DAY)..=rate(RATE_PER_SECOND_MAX, Nanos::SECOND);
        /// How many may be sent at once after a rest.
        #[serde(deserialize_with = "count")]
        burst: u32 = 10, in 1..=BURST_MAX;
        /// Caps on sliding windows: every window of that length holds at most so many.
        windows: Vec<WindowCap> = Vec::new(),
            in Range::many(0..=WINDOWS_MAX, cap(1, Nanos(1))..=cap(WINDOW_LIMIT_MAX, WINDOW_LENGTH_MAX));
        /// How many requests may be under way. The default is half of `limit.burst`, from 1 to 10. Attempts that a killed
        /// process had under way are in doubt, and a burst that is all in doubt stops its lane.
        #[serde(deserialize_with = "count")]
        in_flight: u32 = (burst / 2).clamp(1, 10), in 1..=IN_FLIGHT_MAX;
        /// Whether attempts start at an even pace, one each time that the rate allows one more, however many the burst is.
        /// The full rate needs a burst and a cap in flight of rate × answer time + 2.
        pace: bool = false;
        /// For how long after an answer to a later request a request without an answer may still arrive.
        quarantine: Nanos = Nanos::from_secs(5), in Nanos::ZERO..=DOUBT_MAX;
        /// For how long a request may still arrive at all, once it was given up. The default is never shorter than
        /// `limit.quarantine`.
        doubt: Nanos = Nanos::MINUTE.max(quarantine), in Nanos::ZERO..=DOUBT_MAX;
    }
}

section! {
    /// The bounds of its queue.
    QueueText, filled in as Queue {
        /// How many deliveries may wait.
        #[serde(deserialize_with = "count")]
        rows: u64 = 100_000, in 1..=SettingsText::QUEUE_ROWS_MAX;
        /// How many bytes of bodies may wait.
        bytes: Bytes = Bytes(256 << 20), in Bytes(1)..=SettingsText::QUEUE_BYTES_MAX;
        /// The effect of one delivery more.
        when_full: WhenFullText = WhenFullText::Refuse;
    }
}

section! {
    /// Which failed attempts have a successor, and when.
    RetryText, filled in as Retry {
        /// How delays grow.
        backoff: BackoffText = BackoffText::FullJitter;
        /// The first delay; each further one is twice as long. Not for `fixed`.
        base: Nanos = Nanos::SECOND, in (BASE_MIN, "retry.cap");
        /// The longest delay. Not for `fixed`.
        cap: Nanos = Nanos::HOUR, in ("retry.base", DELAY_MAX);
        /// The most that `additive` adds. Only for `additive`. The default is never longer than `retry.cap`.
        jitter: Nanos = Nanos::from_secs(30).min(cap), in (Nanos::ZERO, "retry.cap");
        /// The delays one after another; the last one repeats. Only for `fixed`, which needs it.
        schedule: Vec<Nanos> = Vec::new(), in Range::many(1..=SCHEDULE_MAX, BASE_MIN..=DELAY_MAX);
        /// Attempts in all, the first included.
        #[serde(deserialize_with = "count")]
        attempts: u32 = 12, in 1..=ATTEMPTS_MAX;
        /// How old a delivery may grow. Then it becomes a dead letter.
        ttl: Nanos = Nanos::DAY, in TTL;
        /// The most that a `Retry-After` counts for.
        retry_after_cap: Nanos = Nanos::DAY, in RETRY_AFTER_CAP;
    }
}

section! {
    /// How many failures open the breaker, and for how long.
    BreakerText, filled in as Breaker {
        /// How many failures in a row open the breaker.
        #[serde(deserialize_with = "count")]
        failures: u32 = 10, in 1..=FAILURES_MAX;
        /// How many failures in a row open it where the endpoint is slow. The default is never more than `breaker.failures`.
        #[serde(deserialize_with = "count")]
        failures_when_slow: u32 = failures.min(5), in (1_u32, "breaker.failures");
        /// An endpoint is slow when the 95th percentile of its latency is over this.
        slow: Nanos = Nanos::from_secs(5);
        /// The longest that an endpoint is left alone.
        cooldown_max: Nanos = Nanos::HOUR, in COOLDOWN_MIN..=COOLDOWN_MAX;
        /// How long it is left alone at first; each further time is twice as long. The default is never longer than
        /// `breaker.cooldown_max`.
        cooldown: Nanos = Nanos::MINUTE.times(5).min(cooldown_max), in (COOLDOWN_MIN, "breaker.cooldown_max");
        /// After how long of nothing but failures, counted from an open breaker, it is disabled: events are no longer recorded
        /// for it until `subscriber resume`. Between two failures at most an hour counts, or `breaker.cooldown_max` if that is
        /// longer. `0s` for never.
        disable_after: Nanos = DISABLE_AFTER, in Nanos::ZERO..=DISABLE_AFTER_MAX;
    }
}

section! {
    /// The signs of strain, and how far the sender gives way.
    PressureText, filled in as Pressure {
        /// Strain never makes it slower than one attempt in this time.
        slowest: Nanos = Nanos::MINUTE, in SLOWEST;
        /// How many successes in a row give back a twentieth of the contract. The share lost in an outage comes back faster: each
        /// success doubles the share, up to the half at which it began.
        #[serde(deserialize_with = "count")]
        streak: u32 = 10, in STREAK;
        /// How long answers may take before they are strain. The sender keeps to the rate at which they take no longer.
        /// `0s` leaves it to `pressure.latency_factor` and `pressure.latency_min`, which count for nothing else.
        target: Nanos = Nanos::ZERO;
        /// Without a target, latency below this is never strain.
        latency_min: Nanos = Nanos::from_millis(500);
        /// Without a target, latency is strain when it is this many times the usual one: the median of the last 24
        /// hours in which the endpoint answered, each with its 95th percentile; so a slow half-day is not usual yet. It
        /// is kept when the sender starts anew.
        #[serde(deserialize_with = "count")]
        latency_factor: u32 = 4, in LATENCY_FACTOR;
        /// Latency alone never makes it slower than this share of the contract, in percent: an endpoint that is slow
        /// at any rate still gets so much.
        #[serde(deserialize_with = "count")]
        latency_least: u32 = 10, in LATENCY_LEAST;
        /// Failures are strain when they are more than this share of the attempts, in percent.
        #[serde(deserialize_with = "count")]
        failures_percent: u32 = 50, in FAILURES_PERCENT;
    }
}

fn rate(count: u64, per: Nanos) -> Rate {
    Rate::new(count, per).expect("neither is nothing")
}

fn cap(count: u32, length: Nanos) -> WindowCap {
    WindowCap::new(count.into(), length).expect("neither is nothing")
}

documented! {
    /// A field is named by its path from the top of the data. To let a field through is to let through all that is in it.
    /// Fields that no rule lets through are left out. A rule that meets an array holds for each of its elements.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ShapeText {
        /// The fields that are let through. An empty list lets none through.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub allow: Option<Vec<String>>,
        /// The fields that are replaced by pseudonyms: by their paths, or by rules to give them another name too. They need
        /// not be in `shape.allow`, and count together with those there. The same value has the same pseudonym for this
        /// subscriber, and another one for every other. An event that they make longer than 1.25 MiB is refused for this
        /// subscriber: a pseudonym takes 66 bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pseudonymise: Option<Vec<PseudonymText>>,
        /// The region of the secret that makes the pseudonyms, which need one: a name that `--region` gives to the sender.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub region: Option<Region>,
    }
}

documented! {
    /// Absolute paths of PEM files on the machine that sends. Each new connection reads them, so a renewed certificate
    /// needs no restart. An unusable file fails the attempt.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct TlsText {
        /// The authorities that may vouch for its endpoint, and no others.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ca: Option<String>,
        /// The client certificate, with its chain. It needs `tls.key`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub certificate: Option<String>,
        /// The private key of `tls.certificate`, without a passphrase.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<String>,
    }
}

documented! {
    /// An OAuth 2.0 client that gets a token from a token endpoint, for an endpoint that demands `Authorization: Bearer`. The
    /// first three belong together.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct OauthText {
        /// The token endpoint. Its addresses are judged as those of the endpoint.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub token_url: Option<String>,
        /// The client's id there. It is sent with the secret by Basic authentication.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub client_id: Option<String>,
        /// The client's secret, in visible ASCII characters. It is never shown. On the command line: `--client-secret-env`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub client_secret: Option<ClientSecret>,
        /// The scope to ask for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub scope: Option<String>,
        /// The audience to ask for, which some token endpoints demand.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub audience: Option<String>,
    }
}

documented! {
    /// The handshake of CloudEvents HTTP WebHook 1.0.2, before anything is sent.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct PermissionText {
        /// The sender's name in DNS, which each request carries.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub origin: Option<String>,
    }
}

word_form! {
    /// The policy of a full queue.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum WhenFullText {
        /// The event is not recorded for this subscriber, only for the others, and the emitter is told to emit it again later.
        Refuse = "refuse",
        /// The oldest makes room and becomes a dead letter.
        ShedOldest = "shed-oldest",
    }
}

word_form! {
    /// How the delays between attempts grow.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BackoffText {
        /// Anything from nothing to the step.
        FullJitter = "full-jitter",
        /// Half the step, and anything up to the other half.
        EqualJitter = "equal-jitter",
        /// The step, and anything up to `retry.jitter`.
        Additive = "additive",
        /// By `retry.schedule`.
        Fixed = "fixed",
    }
}

written! {
    WhenFullText => Form::Word(WhenFullText::ALL.map(|word| (word.name(), word.about())).into());
    BackoffText => Form::Word(BackoffText::ALL.map(|word| (word.name(), word.about())).into());
    PseudonymText => Form::Either(Box::new(Form::Path), Box::new(PseudonymRule::form()));
    ShapeText => Form::Group(Group {
        about: ShapeText::ABOUT,
        settings: fields(ShapeText::FIELDS, ShapeText::MEANINGS, [
            (Form::List(Box::new(Form::Path)), paths(), Unset::Unset("all fields, as they came")),
            (Form::List(Box::new(PseudonymText::form())), paths(), Unset::Unset("none")),
            (Form::Region, Range::Bytes(1, Region::BYTES_MAX), Unset::Unset("none")),
        ]),
    });
    TlsText => Form::Group(Group {
        about: TlsText::ABOUT,
        settings: fields(TlsText::FIELDS, TlsText::MEANINGS, [
            (Form::File, FILE, Unset::Unset("those of browsers and `serve --extra-roots`")),
            (Form::File, FILE, Unset::Unset("none")),
            (Form::File, FILE, Unset::Unset("none")),
        ]),
    });
    OauthText => Form::Group(Group {
        about: OauthText::ABOUT,
        settings: fields(OauthText::FIELDS, OauthText::MEANINGS, [
            (Form::Url, bytes(OauthClient::URL_BYTES), Unset::Unset("none")),
            (Form::Name, bytes(OauthClient::TEXT_BYTES), Unset::Unset("none")),
            (Form::Name, bytes(OauthClient::TEXT_BYTES), Unset::Unset("none")),
            (Form::Name, bytes(OauthClient::TEXT_BYTES), Unset::Unset("none")),
            (Form::Name, bytes(OauthClient::TEXT_BYTES), Unset::Unset("none")),
        ]),
    });
    PermissionText => Form::Group(Group {
        about: PermissionText::ABOUT,
        settings: fields(PermissionText::FIELDS, PermissionText::MEANINGS, [
            (Form::Name, bytes(Permission::ORIGIN_BYTES), Unset::Unset("none")),
        ]),
    });
}

const fn bytes(range: RangeInclusive<usize>) -> Range {
    Range::Bytes(*range.start(), *range.end())
}

const FILE: Range = bytes(TlsFiles::PATH_BYTES);

fn paths() -> Range {
    Range::many(0..=ShapingRules::FIELDS_MAX, PATH)
}

/// A replaced field: only its path if it keeps its name.
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
    /// The range of an attempt's time limit.
    pub const TIMEOUT: RangeInclusive<Nanos> = Nanos::from_millis(10)..=DEADLINE_MAX;
    /// The longest dedupe window. Delivered events must be kept for as long.
    pub const DEDUPE_MAX: Nanos = Nanos::DAY;
    pub const QUEUE_ROWS_MAX: u64 = 1_000_000_000;
    pub const QUEUE_BYTES_MAX: Bytes = Bytes(1 << 40);

    /// Groups and their fields.
    pub(super) const SECTIONS: [(&'static str, &'static [&'static str]); 9] = [
        ("limit", LimitText::FIELDS),
        ("queue", QueueText::FIELDS),
        ("retry", RetryText::FIELDS),
        ("breaker", BreakerText::FIELDS),
        ("pressure", PressureText::FIELDS),
        ("shape", ShapeText::FIELDS),
        ("tls", TlsText::FIELDS),
        ("oauth", OauthText::FIELDS),
        ("permission", PermissionText::FIELDS),
    ];

    /// All settings in effect, defaults included. Reads back as equivalent settings.
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
            tls: self.tls.clone(),
            oauth: self.oauth.clone(),
            permission: self.permission.clone(),
            ..full.into()
        }
    }
}

impl RetryText {
    /// Omits the fields without effect for its backoff.
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
