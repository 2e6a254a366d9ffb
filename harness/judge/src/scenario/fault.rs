use std::fmt;

use serde::{Deserialize, Serialize};

use super::FaultTarget;
use super::contract::{LIMIT, Limit};
use super::quantity::Duration;
use super::reader::{Form, Reader, Section, may, must};

pub(super) const FAULT: Section = Section {
    about: "A fault that the harness injects into the sender under test.",
    fields: &[
        must("at", Form::Duration, "its moment, since the run began"),
        must("do", Form::Word(&FaultKind::WORDS), "the fault"),
        may(
            "lasts",
            Form::Duration,
            "its length: until the process is started again or continued, the disk has room, or the older secret retires (default \
             0s); not for start, limit and redrive",
        ),
        may("times", Form::Count, "how many times (default 1)"),
        may("every", Form::Duration, "the time from one to the next"),
        may(
            "worker",
            Form::Either(&Form::Count, &Form::Text),
            "one of several processes, from 0; for kill, stop, restart and partition also \"owner of NAME\": the process that serves \
             this subscriber then (default all)",
        ),
        may(
            "how",
            Form::Word(&HOW),
            "partition: nothing passes and no side notices (silence, the default); all connections are closed (cut); everything arrives \
             later, each way (delay); requests of the process arrive and answers of the server do not (half-open)",
        ),
        may(
            "by",
            Form::Text,
            "clock-step, clock-skew: the error, such as \"1h\" or \"-1h\"; partition: the delay, such as \"200ms\"",
        ),
        may(
            "subscriber",
            Form::Text,
            "limit, rotate, redrive: the subscriber, by its name in the file (default all)",
        ),
        may("limit", Form::Table(&LIMIT), "limit: the limits from then on"),
        may("within", Form::Duration, "limit: the time after which it must hold (default 1s)"),
        may(
            "timeout",
            Form::Duration,
            "limit: the longest time of an attempt from then on (default: unchanged)",
        ),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    pub at: Duration,
    pub lasts: Duration,
    /// None for all.
    pub worker: Option<FaultTarget>,
    pub action: FaultAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// SIGKILL; started again after `lasts`.
    Kill,
    /// SIGSTOP; SIGCONT after `lasts`.
    Stop,
    /// SIGTERM; started again once it is gone, and `lasts` later.
    Restart,
    /// Another process starts, and shares the work from then on.
    Start,
    /// Lasts for `lasts`, or for good.
    ClockStep {
        by: Duration,
        back: bool,
    },
    /// One process's clock is wrong, for `lasts` or to the end.
    ClockSkew {
        by: Duration,
        back: bool,
    },
    DiskFull,
    /// Another process locks it for `lasts`.
    LockDatabase,
    /// The database server stops as after a crash, and starts again after `lasts`.
    DatabaseRestart,
    /// A process and its database server are separated for `lasts`.
    Partition(Partition),
    Limit {
        /// A group's name; none for all.
        subscriber: Option<String>,
        limit: Limit,
        /// It must hold after this delay.
        within: Duration,
        /// None for the subscriber's own.
        timeout: Option<Duration>,
    },
    /// Its operator adds a secret, and retires the older one after `lasts`.
    Rotate {
        /// A group's name; none for all.
        subscriber: Option<String>,
    },
    Redrive {
        /// A group's name; none for all.
        subscriber: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    Kill,
    Stop,
    Restart,
    Start,
    ClockStep,
    ClockSkew,
    DiskFull,
    LockDatabase,
    DatabaseRestart,
    Partition,
    Limit,
    Rotate,
    Redrive,
}

impl FaultKind {
    const ALL: [Self; 13] = [
        Self::Kill,
        Self::Stop,
        Self::Restart,
        Self::Start,
        Self::ClockStep,
        Self::ClockSkew,
        Self::DiskFull,
        Self::LockDatabase,
        Self::DatabaseRestart,
        Self::Partition,
        Self::Limit,
        Self::Rotate,
        Self::Redrive,
    ];

    const WORDS: [&str; Self::ALL.len()] = {
        let mut words = [""; Self::ALL.len()];
        let mut at = 0;
        while at < words.len() {
            words[at] = Self::ALL[at].word();
            at += 1;
        }
        words
    };

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Start => "start",
            Self::ClockStep => "clock-step",
            Self::ClockSkew => "clock-skew",
            Self::DiskFull => "disk-full",
            Self::LockDatabase => "lock-database",
            Self::DatabaseRestart => "database-restart",
            Self::Partition => "partition",
            Self::Limit => "limit",
            Self::Rotate => "rotate",
            Self::Redrive => "redrive",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FaultAction {
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::Kill => FaultKind::Kill,
            Self::Stop => FaultKind::Stop,
            Self::Restart => FaultKind::Restart,
            Self::Start => FaultKind::Start,
            Self::ClockStep { .. } => FaultKind::ClockStep,
            Self::ClockSkew { .. } => FaultKind::ClockSkew,
            Self::DiskFull => FaultKind::DiskFull,
            Self::LockDatabase => FaultKind::LockDatabase,
            Self::DatabaseRestart => FaultKind::DatabaseRestart,
            Self::Partition(_) => FaultKind::Partition,
            Self::Limit { .. } => FaultKind::Limit,
            Self::Rotate { .. } => FaultKind::Rotate,
            Self::Redrive { .. } => FaultKind::Redrive,
        }
    }

    /// In nanoseconds, negative for back; none for other actions.
    #[must_use]
    pub fn clock_offset(&self) -> Option<i64> {
        let (Self::ClockStep { by, back } | Self::ClockSkew { by, back }) = self else { return None };
        let by = i64::try_from(by.0).unwrap_or(i64::MAX);
        Some(if *back { -by } else { by })
    }

    /// Each message between a process and its store is delayed, each way; none for other actions.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        match self {
            Self::Partition(Partition::Delay(by)) => Some(*by),
            _ => None,
        }
    }

    /// Through the sender's API.
    #[must_use]
    pub const fn is_operation(&self) -> bool {
        matches!(self, Self::Limit { .. } | Self::Rotate { .. } | Self::Redrive { .. })
    }

    /// By its name in the file; none for all, or for other actions.
    #[must_use]
    pub fn subscriber(&self) -> Option<&str> {
        match self {
            Self::Limit { subscriber, .. } | Self::Rotate { subscriber } | Self::Redrive { subscriber } => {
                subscriber.as_deref()
            }
            _ => None,
        }
    }
}

impl FaultAction {
    pub const WITHIN: Duration = Duration::from_secs(1);

    /// By its name, its group, or all.
    #[must_use]
    pub fn concerns(&self, group: &str, name: &str) -> bool {
        self.is_operation() && self.subscriber().is_none_or(|whom| whom == group || whom == name)
    }
}

impl FaultPlan {
    const TIMES_MAX: u64 = 10_000;
    const SKEW_MIN: Duration = Duration::from_secs(15);

    pub(super) fn read(reader: &Reader<'_>) -> Vec<Self> {
        let (Some(at), Some(action)) = (reader.get::<Duration>("at"), action(reader)) else {
            return Vec::new();
        };
        let times = reader.or("times", 1_u64);
        if !(1..=Self::TIMES_MAX).contains(&times) {
            reader.wrong("times", format!("expected 1 to {}", Self::TIMES_MAX));
            return Vec::new();
        }
        if times > 1 && !reader.has("every") {
            reader.wrong("every", "missing; a repeated fault needs the time from one to the next");
        }
        let every = reader.or("every", Duration::default());
        let lasts = reader.or("lasts", Duration::default());
        let worker: Option<FaultTarget> = reader.get("worker");
        use FaultAction::{DiskFull, Kill, LockDatabase, Partition, Restart, Stop};
        let strikes = matches!(action, Kill | Stop | Restart | Partition(_));
        if !strikes && worker.as_ref().is_some_and(|target| target.owner_of().is_some()) {
            reader.wrong(
                "worker",
                "expected a number; \"owner of NAME\" is for kill, stop, restart and \
                partition",
            );
        }
        if matches!(action, Stop | DiskFull | LockDatabase | Partition(_)) && lasts.0 == 0 {
            reader.wrong("lasts", "missing; this fault needs a length");
        }
        if action == FaultAction::Start
            && (times > 1 || worker.as_ref().and_then(FaultTarget::worker).unwrap_or(0) == 0)
        {
            reader.wrong(
                "worker",
                "expected a number from 1, without `times`; process 0 creates the \
                database, and runs from the start",
            );
        }
        let later = |n: u64| Duration(at.0.saturating_add(every.0.saturating_mul(n)));
        (0..times)
            .map(|n| Self { at: later(n), lasts, worker: worker.clone(), action: action.clone() })
            .collect()
    }
}

fn action(reader: &Reader<'_>) -> Option<FaultAction> {
    let subscriber = || reader.get("subscriber");
    let kind = reader.word("do", &FaultKind::ALL.map(|kind| (kind.word(), kind)))?;
    let action = match kind {
        FaultKind::Kill => FaultAction::Kill,
        FaultKind::Stop => FaultAction::Stop,
        FaultKind::Restart => FaultAction::Restart,
        FaultKind::Start => FaultAction::Start,
        FaultKind::ClockStep => {
            let (by, back) = offset(reader)?;
            FaultAction::ClockStep { by, back }
        }
        FaultKind::ClockSkew => {
            let (by, back) = offset(reader)?;
            if by < FaultPlan::SKEW_MIN {
                reader.wrong("by", "expected at least 15s, so that timestamps show the skew");
            }
            FaultAction::ClockSkew { by, back }
        }
        FaultKind::DiskFull => FaultAction::DiskFull,
        FaultKind::LockDatabase => FaultAction::LockDatabase,
        FaultKind::DatabaseRestart => FaultAction::DatabaseRestart,
        FaultKind::Partition => FaultAction::Partition(Partition::read(reader)?),
        FaultKind::Limit => {
            if !reader.has("limit") {
                reader.wrong("limit", "missing; expected the new limit");
            }
            let limit = Limit::read(&reader.table("limit")?);
            let within = reader.or("within", FaultAction::WITHIN);
            FaultAction::Limit { subscriber: subscriber(), limit, within, timeout: reader.get("timeout") }
        }
        FaultKind::Rotate => FaultAction::Rotate { subscriber: subscriber() },
        FaultKind::Redrive => FaultAction::Redrive { subscriber: subscriber() },
    };
    let used: &[&str] = match action {
        FaultAction::Start => &["worker"],
        FaultAction::ClockStep { .. } => &["lasts", "by"],
        FaultAction::ClockSkew { .. } => &["lasts", "by", "worker"],
        FaultAction::Limit { .. } => &["subscriber", "limit", "within", "timeout"],
        FaultAction::Rotate { .. } => &["lasts", "subscriber"],
        FaultAction::Redrive { .. } => &["subscriber"],
        FaultAction::DatabaseRestart => &["lasts"],
        FaultAction::Partition(Partition::Delay(_)) => &["lasts", "worker", "how", "by"],
        FaultAction::Partition(_) => &["lasts", "worker", "how"],
        _ => &["lasts", "worker"],
    };
    for key in ["lasts", "by", "how", "subscriber", "limit", "within", "timeout", "worker"] {
        if reader.has(key) && !used.contains(&key) {
            reader.wrong(key, format!("`{key}` does not apply to `{kind}`"));
        }
    }
    Some(action)
}

fn offset(reader: &Reader<'_>) -> Option<(Duration, bool)> {
    let Some(text) = reader.get::<String>("by") else {
        reader.wrong("by", "missing; expected the error of the clock, such as \"1h\" or \"-1h\"");
        return None;
    };
    let (back, far) = text.strip_prefix('-').map_or((false, text.as_str()), |far| (true, far));
    let far = far.parse().map_err(|what| reader.wrong("by", format!("expected \"1h\" or \"-1h\": {what}")));
    Some((far.ok()?, back))
}

// The kinds of separation between a process and its database server.

const HOW: [&str; 4] = ["silence", "cut", "delay", "half-open"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// Messages wait, and neither side notices; they pass once it is over.
    #[default]
    Silence,
    /// Connections are closed, and new ones fail.
    Cut,
    /// Messages are delayed in each direction; those under way at the end pass at once.
    Delay(Duration),
    /// The process's messages pass; the server's wait until it is over. So the server acts, and the process
    /// does not know.
    HalfOpen,
}

impl Partition {
    const DELAY_MIN: Duration = Duration::from_millis(1);
    /// A longer delay is silence.
    const DELAY_MAX: Duration = Duration::from_secs(60);

    pub(super) fn read(reader: &Reader<'_>) -> Option<Self> {
        if !reader.has("how") {
            return Some(Self::default());
        }
        let [silence, cut, delay, half_open] = HOW;
        let words = [
            (silence, Self::Silence),
            (cut, Self::Cut),
            (delay, Self::Delay(Self::DELAY_MIN)),
            (half_open, Self::HalfOpen),
        ];
        match reader.word("how", &words)? {
            Self::Delay(_) => delayed(reader).map(Self::Delay),
            how => Some(how),
        }
    }
}

fn delayed(reader: &Reader<'_>) -> Option<Duration> {
    let Some(text) = reader.get::<String>("by") else {
        if !reader.has("by") {
            reader.wrong("by", "missing; expected the delay, such as \"200ms\"");
        }
        return None;
    };
    let by =
        text.parse::<Duration>().map_err(|what| reader.wrong("by", format!("expected \"200ms\": {what}")));
    let by = by.ok()?;
    if !(Partition::DELAY_MIN..=Partition::DELAY_MAX).contains(&by) {
        reader.wrong("by", format!("expected {} to {}", Partition::DELAY_MIN, Partition::DELAY_MAX));
    }
    Some(by)
}
