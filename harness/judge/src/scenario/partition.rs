//! How a process and its database server can't reach each other.

use super::quantity::Duration;
use super::reader::Reader;

/// The words for it.
pub(super) const HOW: [&str; 4] = ["silence", "cut", "delay", "half-open"];

/// How a process and its database server can't reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// Nothing passes, and neither side hears of it; what was said passes once it is over.
    #[default]
    Silence,
    /// Nothing passes: connections are closed, and none can be made.
    Cut,
    /// Everything passes, later by as much each way; what is under way at the end passes at once then.
    Delay(Duration),
    /// What the process says passes; what the server says does not, and passes once it is over. So what the process wants
    /// is done, and it doesn't know.
    HalfOpen,
}

impl Partition {
    const DELAY_MIN: Duration = Duration::from_millis(1);
    /// More is silence.
    const DELAY_MAX: Duration = Duration::from_secs(60);

    pub(super) fn read(reader: &Reader<'_>) -> Option<Self> {
        if !reader.has("how") {
            return Some(Self::default());
        }
        let [silence, cut, delay, half_open] = HOW;
        // How much is read once it is known that it is one.
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
