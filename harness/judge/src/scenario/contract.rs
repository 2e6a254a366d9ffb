use super::quantity::{Duration, Rate, Size, Window};
use super::reader::{Form, Reader, Section, may};

pub(super) const LIMIT: Section = Section {
    about: "The limits of a contract. All given limits hold at once; there is no limit by default.",
    fields: &[
        may("rate", Form::Rate, "the rate in the long run"),
        may("burst", Form::Count, "how many at once after a pause (default 1)"),
        may("windows", Form::List(&Form::Window), "caps on sliding windows"),
        may(
            "in_flight",
            Form::Count,
            "how many requests may be in flight at once (default: the sender gets half of the burst, from 1 to 10, and \
                no check demands it)",
        ),
        may(
            "pace",
            Form::Flag,
            "whether Hookproof's sender starts attempts at an even pace within the burst (default false); no check demands it",
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
            "requests beyond the burst that checks forgive a sender other than ours (default 0); reports \
                show it",
        ),
        may(
            "window_slack",
            Form::Count,
            "requests beyond a window cap that checks forgive a sender other than ours (default 0); \
                reports show it",
        ),
    ],
};

/// A contract: in every window of every length w at most `burst + rate·w`, and all caps at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub bucket: Option<Bucket>,
    pub windows: Vec<Window>,
    pub in_flight: Option<u32>,
    /// Whether our sender paces its attempts evenly; no verdict depends on it.
    pub pace: bool,
    /// How long a request without an answer may still arrive after a later one was answered.
    pub quarantine: Duration,
    /// How long it may arrive at all, after it was given up.
    pub doubt: Duration,
    /// Excused for a sender that isn't ours, which does not know of it.
    pub slack: Slack,
}

/// Beyond a contract, at once and in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slack {
    pub burst: u32,
    pub window: u64,
}

impl Slack {
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        Self { burst: self.burst.max(other.burst), window: self.window.max(other.window) }
    }
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
    /// The cap in flight that the sender gets: the written one, or the default of our sender, half of the burst. A
    /// default is not judged. None for a limit without a rate.
    #[must_use]
    pub fn in_flight_told(&self) -> Option<u32> {
        self.in_flight.or_else(|| self.bucket.map(|bucket| (bucket.burst / 2).clamp(1, 10)))
    }

    /// Name of the first part of the contract that is used up, and how many it allows.
    #[must_use]
    pub fn lacks_room_for(&self, requests: u64) -> Option<(&'static str, u64)> {
        let burst = self.bucket.map(|bucket| ("burst", u64::from(bucket.burst)));
        let mut parts = burst.into_iter().chain(self.windows.iter().map(|window| ("window", window.count)));
        parts.find(|(_, room)| *room < requests)
    }

    /// A new owner has to count twice the cap in flight as in doubt.
    #[must_use]
    pub fn lacks_room_for_a_takeover(&self) -> Option<(&'static str, u64)> {
        self.lacks_room_for(self.in_flight_told().map_or(u64::MAX, |cap| u64::from(cap).saturating_mul(2)))
    }

    #[must_use]
    pub fn is_same_contract(&self, other: &Self) -> bool {
        (self.bucket, &self.windows, self.in_flight) == (other.bucket, &other.windows, other.in_flight)
    }

    /// Part by part the larger one, without the parts that only one has.
    #[must_use]
    pub fn looser(&self, other: &Self) -> Self {
        let bucket = self.bucket.zip(other.bucket).map(|(one, other)| Bucket {
            rate: if one.rate.is_faster(other.rate) { one.rate } else { other.rate },
            burst: one.burst.max(other.burst),
        });
        let both = |window: &Window| {
            let same = other.windows.iter().filter(|one| one.length == window.length);
            let count = same.map(|one| one.count).min()?.max(window.count);
            Some(Window { count, ..*window })
        };
        Self {
            bucket,
            windows: self.windows.iter().filter_map(both).collect(),
            in_flight: self.in_flight.zip(other.in_flight).map(|(one, other)| one.max(other)),
            quarantine: self.quarantine.max(other.quarantine),
            doubt: self.doubt.max(other.doubt),
            ..self.clone()
        }
    }

    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let default = Self::default();
        let rate: Option<Rate> = reader.get("rate");
        let burst = reader.or("burst", 1_u32);
        if rate.is_some_and(|rate| rate.count == 0) {
            reader.wrong(
                "rate",
                "expected more than 0; for a pause use a traffic phase with shape = \"pause\"",
            );
        }
        if burst == 0 {
            reader.wrong("burst", "expected at least 1");
        }
        if rate.is_none() && reader.has("burst") {
            reader.wrong("burst", "a burst needs a rate at which it refills; add `rate`");
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
    pub rows: Option<u64>,
    pub bytes: Option<Size>,
    pub when_full: WhenFull,
}

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

const BACKOFFS: [(&str, Backoff); 4] = [
    ("full-jitter", Backoff::FullJitter),
    ("equal-jitter", Backoff::EqualJitter),
    ("additive", Backoff::Additive),
    ("fixed", Backoff::Fixed),
];

pub(super) const RETRY: Section = Section {
    about: "When a failed attempt is retried.",
    fields: &[
        may(
            "backoff",
            Form::Word(&["full-jitter", "equal-jitter", "additive", "fixed"]),
            "the distribution of the delays (default full-jitter)",
        ),
        may("base", Form::Duration, "the first delay; each further one is twice as long (default 1s)"),
        may("cap", Form::Duration, "the longest delay (default 1h)"),
        may(
            "jitter",
            Form::Duration,
            "additive: the most that is added (default 30s, or the cap if that is less)",
        ),
        may("schedule", Form::List(&Form::Duration), "fixed: the delays; the last one repeats"),
        may("attempts", Form::Count, "attempts in all (default 12)"),
        may("ttl", Form::Duration, "the age at which a delivery is given up (default 24h)"),
        may("retry_after_cap", Form::Duration, "the longest Retry-After that counts (default 24h)"),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub backoff: Backoff,
    /// The first delay, which doubles.
    pub base: Duration,
    pub cap: Duration,
    pub jitter: Duration,
    pub schedule: Vec<Duration>,
    /// The jitter of each of them, in millionths; only a driver file sets it.
    pub spread: u64,
    pub attempts: u32,
    pub ttl: Duration,
    pub retry_after_cap: Duration,
}

/// The distribution of delays. `step(n)` is the smaller of the cap and `base·2^(n−1)` after the nth failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// From 0 to `step(n)`.
    FullJitter,
    /// From `step(n)/2` to `step(n)`.
    EqualJitter,
    /// `step(n)` plus 0 to `jitter`, at most the cap.
    Additive,
    Fixed,
}

impl Backoff {
    #[must_use]
    pub fn name(self) -> &'static str {
        BACKOFFS.iter().find(|(_, backoff)| *backoff == self).map_or("", |(name, _)| name)
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            backoff: Backoff::FullJitter,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(3_600),
            jitter: Duration::from_secs(30),
            schedule: Vec::new(),
            spread: 0,
            attempts: 12,
            ttl: Duration::from_secs(86_400),
            retry_after_cap: Duration::from_secs(86_400),
        }
    }
}

impl Retry {
    /// In nanoseconds; `n` counts from 1.
    #[must_use]
    pub fn bounds(&self, n: u32) -> (u64, u64) {
        let doubled = 1_u64.checked_shl(n.saturating_sub(1)).and_then(|times| self.base.0.checked_mul(times));
        let step = doubled.unwrap_or(u64::MAX).min(self.cap.0);
        match self.backoff {
            Backoff::FullJitter => (0, step),
            Backoff::EqualJitter => (step / 2, step),
            Backoff::Additive => (step, step.saturating_add(self.jitter.0).min(self.cap.0)),
            Backoff::Fixed => {
                let at = usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
                let delay = self.schedule.get(at).or(self.schedule.last()).map_or(0, |delay| delay.0);
                let spread = u128::from(delay) * u128::from(self.spread) / 1_000_000;
                let spread = u64::try_from(spread).unwrap_or(u64::MAX);
                (delay.saturating_sub(spread), delay.saturating_add(spread))
            }
        }
    }

    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let default = Self::default();
        let cap = reader.or("cap", default.cap);
        let retry = Self {
            backoff: reader.word("backoff", &BACKOFFS).unwrap_or(default.backoff),
            base: reader.or("base", default.base.min(cap)),
            cap,
            jitter: reader.or("jitter", default.jitter.min(cap)),
            schedule: reader.or("schedule", default.schedule),
            spread: default.spread,
            attempts: reader.or("attempts", default.attempts),
            ttl: reader.or("ttl", default.ttl),
            retry_after_cap: reader.or("retry_after_cap", default.retry_after_cap),
        };
        if retry.base > retry.cap || retry.base == Duration(0) {
            reader.wrong("base", "expected more than 0s, and at most `cap`");
        }
        if retry.attempts == 0 {
            reader.wrong("attempts", "expected at least 1");
        }
        if (retry.backoff == Backoff::Fixed) == retry.schedule.is_empty() {
            reader.wrong("schedule", "expected with backoff = \"fixed\", and only there");
        }
        if reader.has("jitter") && retry.backoff != Backoff::Additive {
            reader.wrong("jitter", "applies only to the additive backoff");
        }
        retry
    }
}

pub(super) const BREAKER: Section = Section {
    about: "When a failing endpoint is paused, and for how long.",
    fields: &[
        may("failures", Form::Count, "how many failures in a row open it (default 10)"),
        may("cooldown", Form::Duration, "the first pause; each further one is twice as long (default 5min)"),
        may("cooldown_max", Form::Duration, "the longest pause (default 1h)"),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    pub failures: u32,
    pub cooldown: Duration,
    pub cooldown_max: Duration,
}

impl Breaker {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let cooldown_max = reader.or("cooldown_max", Duration::from_secs(3_600));
        let breaker = Self {
            failures: reader.or("failures", 10),
            cooldown: reader.or("cooldown", Duration::from_secs(300).min(cooldown_max)),
            cooldown_max,
        };
        if breaker.failures == 0 {
            reader.wrong("failures", "expected at least 1");
        }
        if breaker.cooldown > breaker.cooldown_max || breaker.cooldown == Duration(0) {
            reader.wrong("cooldown", "expected more than 0s, and at most `cooldown_max`");
        }
        breaker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_their_cap() {
        let retry = Retry { cap: Duration::from_secs(5), jitter: Duration::from_secs(1), ..Retry::default() };
        let second = 1_000_000_000;
        let rows = [
            (Backoff::FullJitter, 1, (0, second)),
            (Backoff::FullJitter, 3, (0, 4 * second)),
            (Backoff::FullJitter, 200, (0, 5 * second)),
            (Backoff::EqualJitter, 2, (second, 2 * second)),
            (Backoff::Additive, 3, (4 * second, 5 * second)),
        ];
        for (backoff, n, expected) in rows {
            assert_eq!(Retry { backoff, ..retry.clone() }.bounds(n), expected, "{backoff:?} {n}");
        }
        let schedule = vec![Duration(7), Duration(9)];
        let fixed = Retry { backoff: Backoff::Fixed, schedule, ..retry };
        assert_eq!([1, 2, 3].map(|n| fixed.bounds(n).0), [7, 9, 9]);
    }
}
