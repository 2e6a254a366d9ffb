use super::quantity::{Duration, Millionths, Range, Rate, Whole};
use super::reader::{Form, Reader, Section, may, must};

pub(super) const PHASE: Section = Section {
    about: "A phase of traffic. Phases play in order.",
    fields: &[
        must(
            "shape",
            Form::Word(&["steady", "ramp", "spike", "poisson", "recorded", "burst", "pause"]),
            "the shape of the rate over time",
        ),
        may(
            "rate",
            Form::Rate,
            "events per time: of steady and poisson throughout, of ramp and spike at the start",
        ),
        may("to", Form::Rate, "ramp: the rate at the end; spike: the rate at its peak, in the middle"),
        may("lasts", Form::Duration, "the length of the phase; recorded: at most this long"),
        may("events", Form::Count, "burst: how many events are due at once"),
        may("key", Form::Text, "one key for all events of the phase (default: the keys of `[events]`)"),
        may("file", Form::Text, "recorded: CSV, JSON Lines or an access log, relative to the scenario"),
        may(
            "columns",
            Form::Map(&Form::Text),
            "recorded: the file's names for `time`, `type`, `key` and `bytes` (default: these names)",
        ),
        may("speed", Form::Decimal, "recorded: how many times faster it is played (default 1)"),
        may("times", Form::Count, "recorded: how many of each recorded event are offered (default 1)"),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    pub shape: Shape,
    pub lasts: Option<Duration>,
    /// None for the keys of [`Events`] or of the recording.
    pub key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Evenly spaced.
    Steady {
        rate: Rate,
    },
    /// A linear ramp.
    Ramp {
        rate: Rate,
        to: Rate,
    },
    /// Rises linearly for half of its time, and falls back.
    Spike {
        rate: Rate,
        to: Rate,
    },
    /// Exponentially spaced.
    Poisson {
        rate: Rate,
    },
    Recorded {
        /// Relative to the scenario's file.
        file: String,
        /// The file's names for some of [`COLUMNS`].
        columns: Vec<(String, String)>,
        speed: Millionths,
        /// How often each event is offered.
        times: u32,
    },
    /// All events come at the first instant.
    Burst {
        events: u64,
    },
    Pause,
}

impl Phase {
    /// Approximate; without those of a recording.
    pub(super) fn expected_events(&self) -> u128 {
        let lasts = self.lasts.map_or(0, |lasts| lasts.0);
        let per = |rate: Rate| u128::from(rate.count) * u128::from(lasts) / u128::from(rate.per.0);
        match self.shape {
            Shape::Steady { rate } | Shape::Poisson { rate } => per(rate),
            Shape::Ramp { rate, to } | Shape::Spike { rate, to } => (per(rate) + per(to)) / 2,
            Shape::Burst { events } => events.into(),
            Shape::Recorded { .. } | Shape::Pause => 0,
        }
    }

    pub(super) fn read(reader: &Reader<'_>) -> Option<Self> {
        let lasts: Option<Duration> = reader.get("lasts");
        let shape = match reader.get::<String>("shape")?.as_str() {
            "steady" => Shape::Steady { rate: needed(reader, "rate")? },
            "ramp" => Shape::Ramp { rate: needed(reader, "rate")?, to: needed(reader, "to")? },
            "spike" => Shape::Spike { rate: needed(reader, "rate")?, to: needed(reader, "to")? },
            "poisson" => Shape::Poisson { rate: needed(reader, "rate")? },
            "recorded" => Shape::Recorded {
                file: needed(reader, "file")?,
                columns: columns(reader),
                speed: positive(reader, "speed")?,
                times: reader.or("times", 1),
            },
            "burst" => Shape::Burst { events: needed(reader, "events")? },
            "pause" => Shape::Pause,
            _ => {
                reader.word::<()>("shape", &SHAPES);
                return None;
            }
        };
        idle_keys(reader, &shape);
        let lasts = match shape {
            Shape::Recorded { .. } => lasts,
            Shape::Burst { .. } => Some(lasts.unwrap_or_default()),
            _ => Some(lasts.or_else(|| needed(reader, "lasts"))?),
        };
        let key: Option<String> = reader.get("key");
        if key.as_ref().is_some_and(String::is_empty) {
            reader.wrong("key", "expected a text that is not empty");
        }
        Some(Self { shape, lasts, key })
    }
}

const SHAPES: [(&str, ()); 7] = [
    ("steady", ()),
    ("ramp", ()),
    ("spike", ()),
    ("poisson", ()),
    ("recorded", ()),
    ("burst", ()),
    ("pause", ()),
];

fn needed<T: super::reader::Readable>(reader: &Reader<'_>, key: &str) -> Option<T> {
    if !reader.has(key) {
        reader.wrong(key, "missing; this shape requires it");
    }
    reader.get(key)
}

/// The columns of a recording; the last two may be missing.
pub const COLUMNS: [&str; 4] = ["time", "type", "key", "bytes"];

fn columns(reader: &Reader<'_>) -> Vec<(String, String)> {
    let columns: Vec<(String, String)> = reader.or("columns", Vec::new());
    let is_known = |(column, _): &&(String, String)| !COLUMNS.contains(&column.as_str());
    if let Some((stray, _)) = columns.iter().find(is_known) {
        reader.wrong("columns", format!("{stray:?} is no column; expected {}", COLUMNS.join(", ")));
    }
    columns
}

fn positive(reader: &Reader<'_>, key: &str) -> Option<Millionths> {
    let value = reader.or(key, Millionths::ONE);
    if value.0 == 0 {
        reader.wrong(key, "expected more than 0");
        return None;
    }
    Some(value)
}

/// A key that a shape ignores would be a silent mistake.
fn idle_keys(reader: &Reader<'_>, shape: &Shape) {
    let used: &[&str] = match shape {
        Shape::Steady { .. } | Shape::Poisson { .. } => &["rate", "key"],
        Shape::Ramp { .. } | Shape::Spike { .. } => &["rate", "to", "key"],
        Shape::Recorded { .. } => &["file", "columns", "speed", "times"],
        Shape::Burst { .. } => &["events", "key"],
        Shape::Pause => &[],
    };
    for key in ["rate", "to", "events", "key", "file", "columns", "speed", "times"] {
        if reader.has(key) && !used.contains(&key) {
            reader.wrong(key, "does not apply to this shape");
        }
    }
}

pub(super) const EVENTS: Section = Section {
    about: "The events of the traffic.",
    fields: &[
        may("types", Form::Map(&Form::Count), "event types and their weights"),
        may("keys", Form::Count, "the number of keys (default 1)"),
        may("key_skew", Form::Decimal, "Zipf's exponent of the keys (default 0: all keys alike)"),
        may("data_bytes", Form::Counts, "the size of the data in bytes (default 200..2000)"),
        may(
            "repeated",
            Form::Decimal,
            "the share of events that is offered a second time with the same id (default 0)",
        ),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// Weighted, sorted by name, so that a rewritten file means the same; never empty.
    pub types: Vec<(String, u32)>,
    pub keys: u32,
    /// Zipf's exponent; 0 is uniform.
    pub key_skew: Millionths,
    pub data_bytes: Range<Whole>,
    /// This share is offered twice with the same id.
    pub repeated: Millionths,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            types: vec![("video.trending".to_owned(), 1)],
            keys: 1,
            key_skew: Millionths(0),
            data_bytes: Range { least: Whole(200), most: Whole(2_000) },
            repeated: Millionths(0),
        }
    }
}

impl Events {
    /// Each key has a weight in memory.
    pub const KEYS_MAX: u32 = 1_000_000;

    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let default = Self::default();
        let mut types: Vec<(String, u32)> = reader.or("types", default.types);
        types.sort();
        let events = Self {
            types,
            keys: reader.or("keys", default.keys),
            key_skew: reader.or("key_skew", default.key_skew),
            data_bytes: reader.or("data_bytes", default.data_bytes),
            repeated: reader.or("repeated", default.repeated),
        };
        if events.types.is_empty() || events.types.iter().any(|(_, weight)| *weight == 0) {
            reader.wrong("types", "expected at least one type, each with a weight of at least 1");
        }
        if !(1..=Self::KEYS_MAX).contains(&events.keys) {
            reader.wrong("keys", format!("expected 1 to {}", Self::KEYS_MAX));
        }
        if events.key_skew > Millionths(10_000_000) {
            reader.wrong("key_skew", "expected at most 10");
        }
        if events.data_bytes.most.0 > 16 << 20 {
            reader.wrong("data_bytes", "expected at most 16777216");
        }
        if events.repeated > Millionths::ONE {
            reader.wrong("repeated", "expected a share from 0 to 1");
        }
        events
    }
}
