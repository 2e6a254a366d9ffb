//! A subscriber's contract and queue bounds.

use super::form::{Form, Section, may};
use super::quantity::{Duration, Rate, Size, Window};
use super::reader::Reader;

pub(super) const LIMIT: Section = Section {
    about: "The limits of a contract. All given limits hold at once; there is no limit by default.",
    fields: &[
        may("rate", Form::Rate, "the rate in the long run"),
        may("burst", Form::Count, "how many at once after a rest (default 1)"),
        may("windows", Form::List(&Form::Window), "caps on sliding windows"),
        may("in_flight", Form::Count, "how many requests may be open at once"),
        may(
            "pace",
            Form::Flag,
            "whether our sender starts attempts at an even pace within the burst (default false); no check demands it",
        ),
        may(
            "quarantine",
            Form::Duration,
            "a request without an answer arrives within this time of the answer to a later request, or never (default 5s)",
        ),
        may(
            "doubt",
            Form::Duration,
            "a request without an answer arrives within this time of its end, or never (default 60s, or the quarantine if longer)",
        ),
        may(
            "burst_slack",
            Form::Count,
            "requests beyond the burst that checks forgive another sender than ours (default 0); reports show it",
        ),
        may(
            "window_slack",
            Form::Count,
            "requests beyond a window cap that checks forgive another sender than ours (default 0); reports show it",
        ),
    ],
};

/// A contract: in every window of every length w at most `burst + rate·w`, and all caps at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub bucket: Option<Bucket>,
    /// Caps on sliding windows.
    pub windows: Vec<Window>,
    pub in_flight: Option<u32>,
    /// Whether our sender paces its attempts evenly; no verdict depends on it.
    pub pace: bool,
    /// How long a request without an answer may still arrive after a later one was answered.
    pub quarantine: Duration,
    /// How long it may arrive at all, after it was given up.
    pub doubt: Duration,
    /// The excess that verdicts excuse for a sender that isn't ours; the sender does not know of it.
    pub slack: Slack,
}

/// The excused number of requests beyond a contract, at once and in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slack {
    /// The excess beyond the burst.
    pub burst: u32,
    /// The excess beyond the cap of each window.
    pub window: u64,
}

/// ρ and σ of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// ρ
    pub rate: Rate,
    /// σ, at least 1.
    pub burst: u32,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            bucket: None,
            windows: Vec::new(),
            in_flight: None,
            pace: false,
            quarantine: Duration::from_secs(5),
            doubt: Duration::from_secs(60),
            slack: Slack::default(),
        }
    }
}

impl Limit {
    /// Whether there is no limit.
    #[must_use]
    pub fn is_boundless(&self) -> bool {
        self.bucket.is_none() && self.windows.is_empty() && self.in_flight.is_none()
    }

    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let default = Self::default();
        let rate: Option<Rate> = reader.get("rate");
        let burst = reader.or("burst", 1_u32);
        if rate.is_some_and(|rate| rate.count == 0) {
            reader
                .wrong("rate", "expected more than 0; `pause` is a behaviour of traffic, not of a contract");
        }
        if burst == 0 {
            reader.wrong("burst", "expected at least 1");
        }
        if rate.is_none() && reader.has("burst") {
            reader.wrong("burst", "a burst needs the rate at which it comes back; add rate");
        }
        let in_flight = reader.get("in_flight");
        if in_flight == Some(0) {
            reader.wrong("in_flight", "expected at least 1");
        }
        let quarantine = reader.or("quarantine", default.quarantine);
        let slack = Slack { burst: reader.or("burst_slack", 0), window: reader.or("window_slack", 0) };
        Self {
            bucket: rate.map(|rate| Bucket { rate, burst }),
            windows: reader.or("windows", Vec::new()),
            in_flight,
            pace: reader.or("pace", false),
            quarantine,
            doubt: reader.or("doubt", default.doubt.max(quarantine)),
            slack,
        }
    }
}

pub(super) const QUEUE: Section = Section {
    about: "How much may wait for a subscriber.",
    fields: &[
        may("rows", Form::Count, "how many deliveries may wait"),
        may("bytes", Form::Size, "how many bytes of bodies may wait"),
        may(
            "when_full",
            Form::Word(&["shed-oldest", "refuse"]),
            "refuse the new event, or give up the oldest delivery (default refuse)",
        ),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The most deliveries; none without a bound.
    pub rows: Option<u64>,
    /// Bytes of bodies.
    pub bytes: Option<Size>,
    pub when_full: WhenFull,
}

/// The policy of a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest becomes a dead letter.
    ShedOldest,
    /// The emitter must come back later.
    Refuse,
}

impl Default for Queue {
    fn default() -> Self {
        Self { rows: None, bytes: None, when_full: WhenFull::Refuse }
    }
}

impl Queue {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let words = [("shed-oldest", WhenFull::ShedOldest), ("refuse", WhenFull::Refuse)];
        let rows = reader.get("rows");
        if rows == Some(0) {
            reader.wrong("rows", "expected at least 1");
        }
        Self {
            rows,
            bytes: reader.get("bytes"),
            when_full: reader.word("when_full", &words).unwrap_or(WhenFull::Refuse),
        }
    }
}
