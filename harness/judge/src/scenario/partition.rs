//! The kinds of separation between a process and its database server.

use super::quantity::Duration;
use super::reader::Reader;

pub(super) const HOW: [&str; 4] = ["silence", "cut", "delay", "half-open"];

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
        // The delay itself is read later.
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
            reader.wrong("by", "missing; a delay needs how much later everything comes, such as \"200ms\"");
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
