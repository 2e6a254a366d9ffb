//! The schedule: every event of a run with its moment, type, key and size, from the scenario and the seed
//! alone.

use std::collections::BTreeMap;
use std::path::Path;

use hookproof_judge::scenario::{Events, Millionths, Phase, Rate, SECOND, Shape};
use hookproof_judge::signature::hex;
use ring::digest;

use super::recording::{Recorded, RecordingError, read};
use super::{Chance, Tokens};

/// Bounded by memory.
const EVENTS_MAX: usize = 20_000_000;
/// In nanoseconds.
const REPEATED_WITHIN: (u64, u64) = (50_000_000, 500_000_000);

const PURPOSE_EVENTS: u64 = 1;
const PURPOSE_GAPS: u64 = 2;
const PURPOSE_DATA: u64 = 3;

/// Members of the data that careless senders change: JSON text, without line breaks, each a hundred bytes or less.
/// No U+0000, which databases refuse.
const DELICATE: [&str; 11] = [
    "\"unicode\":\"\u{e9} e\u{301} \u{3a9} \u{416} \u{4e2d} \u{d55c} \u{627} \u{1f600} \u{1f469}\u{200d}\u{1f467}\"",
    r#""escapes":"\" \\ \/ \b \f \n \r \t \u0001 \u001f \u007f \u00e9 \ud83d\ude00""#,
    r#""i64":[9223372036854775807,-9223372036854775808,9007199254740993]"#,
    r#""f64":[1.7976931348623157e308,2.2250738585072014e-308,5e-324]"#,
    r#""fractions":[0.1,-1.5,1e-7,123456.789,-0.0]"#,
    r#""whole":[0,-1,2147483648,-2147483649,4294967296,1e3]"#,
    r#""empty":[{},[],"",null,true,false,{"":""}]"#,
    r#""nested":{"a":[{"b":[[[{"c":[1,[2,[3,{"d":{}}]]]}]]]}]}"#,
    "\"\u{540d} \u{1f511}\":{\"\u{43a}\u{43b}\u{44e}\u{447}\":\"\u{e4}\"}",
    r#""markup":"<a href='x?y=1&z=%41+%2B'>&amp; \u003c/script> {{ x }} ${y} \\u0041""#,
    "\"separators\":\"a\u{2028}b\u{2029}c\u{feff}d\u{a0}e\u{85}f\"",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// In nanoseconds since the traffic began.
    pub at: u64,
    /// The harness's name for it.
    pub token: u64,
    /// An index into [`Schedule::types`].
    pub kind: u32,
    /// An index into `Schedule::keys`.
    pub key: u32,
    pub bytes: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Schedule {
    due: Vec<Due>,
    types: Names,
    keys: Names,
    /// Final pauses included.
    lasts: u64,
    seed: u64,
    /// By token, an index into `due`.
    first: Vec<u32>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("the traffic has more than {EVENTS_MAX} events; expected lower rates or shorter phases")]
    TooMany,
}

impl Schedule {
    /// Recordings are relative to `folder`, the scenario's.
    pub fn compute(
        phases: &[Phase],
        events: &Events,
        seed: u64,
        folder: &Path,
    ) -> Result<Self, ScheduleError> {
        let mut filler = Filler::new(events, seed);
        let mut schedule = Self { seed, ..Self::default() };
        for (number, phase) in (0_u64..).zip(phases) {
            let gaps = Chance::new(seed, PURPOSE_GAPS.wrapping_add(number << 8));
            schedule.append(phase, &mut filler, gaps, folder)?;
        }
        // Stable: simultaneous events keep the order of their creation.
        schedule.due.sort_by_key(|due| due.at);
        Ok(schedule.indexed())
    }

    fn indexed(mut self) -> Self {
        let tokens = self.due.iter().map(|due| due.token).max().map_or(0, |most| most + 1);
        self.first = vec![u32::MAX; usize::try_from(tokens).unwrap_or_default()];
        for (place, due) in (0_u32..).zip(&self.due) {
            if let Some(slot) = usize::try_from(due.token).ok().and_then(|token| self.first.get_mut(token)) {
                *slot = place.min(*slot);
            }
        }
        self
    }

    #[must_use]
    pub fn place_of(&self, token: u64) -> Option<usize> {
        let place = *self.first.get(usize::try_from(token).ok()?)?;
        usize::try_from(place).ok().filter(|place| *place < self.due.len())
    }

    #[must_use]
    pub fn due_of(&self, token: u64) -> Option<&Due> {
        self.due.get(self.place_of(token)?)
    }

    fn append(
        &mut self,
        phase: &Phase,
        filler: &mut Filler<'_>,
        gaps: Chance,
        folder: &Path,
    ) -> Result<(), ScheduleError> {
        let length = phase.lasts.map_or(u64::MAX, |lasts| lasts.0);
        let even = |count: u64| std::iter::repeat_n(0, usize::try_from(count).unwrap_or(usize::MAX));
        let moments: Box<dyn Iterator<Item = u64>> = match &phase.shape {
            Shape::Steady { rate } => Box::new(steady(*rate, length)),
            Shape::Ramp { rate, to } => Box::new(ramp(*rate, *to, length)),
            Shape::Spike { rate, to } => {
                let half = length / 2;
                let falling = ramp(*to, *rate, length - half).map(move |at| half.saturating_add(at));
                Box::new(ramp(*rate, *to, half).chain(falling))
            }
            Shape::Poisson { rate } => Box::new(poisson(*rate, length, gaps)),
            Shape::Burst { events } => Box::new(even(*events)),
            Shape::Pause => Box::new(std::iter::empty()),
            Shape::Recorded { file, columns, speed, times } => {
                let events = read(&folder.join(file), columns)?;
                let end = self.replay(events, *speed, *times, length, filler)?;
                self.lasts = self.lasts.saturating_add(phase.lasts.map_or(end, |lasts| lasts.0));
                return Ok(());
            }
        };
        let begin = self.lasts;
        for at in moments {
            filler.event(self, begin.saturating_add(at), phase.key.as_deref())?;
        }
        self.lasts = begin.saturating_add(length);
        Ok(())
    }

    fn replay(
        &mut self,
        events: Vec<Recorded>,
        speed: Millionths,
        times: u32,
        length: u64,
        filler: &mut Filler<'_>,
    ) -> Result<u64, ScheduleError> {
        let (begin, mut end) = (self.lasts, 0);
        for event in events {
            let at = u128::from(event.at) * u128::from(Millionths::ONE.0) / u128::from(speed.0.max(1));
            let Some(at) = u64::try_from(at).ok().filter(|at| *at < length) else { break };
            end = at;
            for _ in 0..times {
                let kind = self.types.number(&event.kind);
                let key = match event.key.as_str() {
                    "" => filler.key(&mut self.keys),
                    key => self.keys.number(key),
                };
                let bytes = event.bytes.unwrap_or_else(|| filler.bytes());
                filler.put(self, begin.saturating_add(at), kind, key, bytes)?;
            }
        }
        Ok(end)
    }

    #[must_use]
    pub fn before(mut self, until: u64) -> Self {
        self.due.retain(|due| due.at < until);
        self.lasts = self.lasts.min(until);
        self.indexed()
    }

    #[must_use]
    pub fn due(&self) -> &[Due] {
        &self.due
    }

    /// In nanoseconds.
    #[must_use]
    pub const fn lasts(&self) -> u64 {
        self.lasts
    }

    #[must_use]
    pub fn kind(&self, due: &Due) -> &str {
        self.types.name(due.kind)
    }

    #[must_use]
    pub fn key(&self, due: &Due) -> &str {
        self.keys.name(due.key)
    }

    #[must_use]
    pub fn has_type(&self, name: &str) -> bool {
        self.types.numbers.contains_key(name)
    }

    #[must_use]
    pub fn has_key(&self, name: &str) -> bool {
        self.keys.numbers.contains_key(name)
    }

    /// In the order of [`Due::kind`].
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.types.all.iter().map(String::as_str)
    }

    /// Covers all offered events and their times, in hexadecimal; equal for equal schedules.
    #[must_use]
    pub fn sha256(&self) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        for name in self.types.all.iter().chain(&self.keys.all) {
            context.update(name.as_bytes());
            context.update(b"\n");
        }
        for Due { at, token, kind, key, bytes } in &self.due {
            context.update(&at.to_le_bytes());
            context.update(&token.to_le_bytes());
            [kind, key, bytes].iter().for_each(|field| context.update(&field.to_le_bytes()));
        }
        hex(context.finish().as_ref())
    }

    /// An event's data: a JSON object of its size with its token and delicate members, the same in every call.
    #[must_use]
    pub fn data(&self, due: &Due, tokens: Tokens) -> String {
        const FILLER: &str = "0123456789abcdef";
        const LAST: &str = "\"filler\":\"";
        let size = usize::try_from(due.bytes).unwrap_or(usize::MAX);
        let mut data = format!(
            "{{\"token\":\"{}\",\"key\":{},\"views\":{},",
            tokens.text(due.token),
            serde_json::Value::from(self.key(due)),
            due.token
        );
        data.reserve_exact(size.saturating_sub(data.len()));
        let mut chance = Chance::new(self.seed, PURPOSE_DATA.wrapping_add(due.token << 8));
        let first = usize::try_from(chance.below(DELICATE.len() as u64)).unwrap_or_default();
        for member in DELICATE.iter().cycle().skip(first).take(DELICATE.len()) {
            if data.len() + member.len() + 1 + LAST.len() + 2 <= size {
                data.push_str(member);
                data.push(',');
            }
        }
        data.push_str(LAST);
        let mut missing = size.saturating_sub(data.len() + 2);
        while missing > 0 {
            let piece = &FILLER[..missing.min(FILLER.len())];
            data.push_str(piece);
            missing -= piece.len();
        }
        data.push_str("\"}");
        data
    }
}

struct Filler<'a> {
    events: &'a Events,
    chance: Chance,
    /// Cumulative weights of the types, and of the keys.
    types: Vec<u64>,
    keys: Vec<f64>,
    /// The numbers of keys that were drawn.
    numbers: Vec<Option<u32>>,
    next_token: u64,
}

impl<'a> Filler<'a> {
    fn new(events: &'a Events, seed: u64) -> Self {
        let sum = |total: &mut u64, (_, weight): &(String, u32)| {
            *total += u64::from(*weight);
            Some(*total)
        };
        let skew = events.key_skew.as_f64();
        let weigh = |total: &mut f64, rank: u32| {
            *total += f64::from(rank).powf(-skew);
            Some(*total)
        };
        Self {
            events,
            chance: Chance::new(seed, PURPOSE_EVENTS),
            types: events.types.iter().scan(0, sum).collect(),
            keys: (1..=events.keys).scan(0.0, weigh).collect(),
            numbers: vec![None; usize::try_from(events.keys).unwrap_or(usize::MAX)],
            next_token: 0,
        }
    }

    /// `None` draws a key.
    fn event(&mut self, schedule: &mut Schedule, at: u64, key: Option<&str>) -> Result<(), ScheduleError> {
        let drawn = self.chance.below(self.types.last().copied().unwrap_or(1));
        let place = self.types.partition_point(|sum| *sum <= drawn);
        let kind = self.events.types.get(place).map_or("", |(name, _)| name);
        let kind = schedule.types.number(kind);
        let key = match key {
            Some(key) => schedule.keys.number(key),
            None => self.key(&mut schedule.keys),
        };
        let bytes = self.bytes();
        self.put(schedule, at, kind, key, bytes)
    }

    fn key(&mut self, names: &mut Names) -> u32 {
        let drawn = self.chance.unit() * self.keys.last().copied().unwrap_or(1.0);
        let rank = self.keys.partition_point(|sum| *sum <= drawn).min(self.keys.len().saturating_sub(1));
        let Some(number) = self.numbers.get_mut(rank) else { return names.number("key-1") };
        *number.get_or_insert_with(|| names.number(&format!("key-{}", rank + 1)))
    }

    fn bytes(&mut self) -> u32 {
        let size = self.events.data_bytes;
        u32::try_from(self.chance.between(size.least.0, size.most.0)).unwrap_or(u32::MAX)
    }

    fn put(
        &mut self,
        schedule: &mut Schedule,
        at: u64,
        kind: u32,
        key: u32,
        bytes: u32,
    ) -> Result<(), ScheduleError> {
        if schedule.due.len() >= EVENTS_MAX {
            return Err(ScheduleError::TooMany);
        }
        let due = Due { at, token: self.next_token, kind, key, bytes };
        self.next_token += 1;
        schedule.due.push(due);
        let repeated = self.events.repeated.0;
        if repeated > 0 && self.chance.below(Millionths::ONE.0) < repeated {
            let later = self.chance.between(REPEATED_WITHIN.0, REPEATED_WITHIN.1);
            schedule.due.push(Due { at: at.saturating_add(later), ..due });
        }
        Ok(())
    }
}

/// In order of first use.
#[derive(Clone, Debug, Default)]
struct Names {
    all: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn name(&self, number: u32) -> &str {
        usize::try_from(number).ok().and_then(|at| self.all.get(at)).map_or("", String::as_str)
    }
}

/// In [0, `end`). Integer arithmetic: rounding errors do not accumulate.
fn steady(rate: Rate, end: u64) -> impl Iterator<Item = u64> {
    let moment = move |k: u64| {
        let at = u128::from(k) * u128::from(rate.per.0) / u128::from(rate.count.max(1));
        u64::try_from(at).ok().filter(|at| rate.count > 0 && *at < end)
    };
    (0..).map_while(moment)
}

/// The moments of a linear ramp between two rates.
///
/// The integral is `n(t) = r·t + a·t²/2` with `a = (to − r)/end`; solved for `t` in the form without
/// cancellation, `t = 2n / (r + √(r² + 2·a·n))`.
fn ramp(rate: Rate, to: Rate, end: u64) -> impl Iterator<Item = u64> {
    let (from, to, length) = (per_second(rate), per_second(to), seconds(end));
    let slope = if length > 0.0 { (to - from) / length } else { 0.0 };
    let moment = move |k: u64| {
        let count = number(k);
        let under = from.mul_add(from, 2.0 * slope * count);
        let divisor = from + under.max(0.0).sqrt();
        // A ramp down to 0 ends before a further event is due.
        if under < 0.0 || (divisor <= 0.0 && k > 0) {
            return None;
        }
        let at = if k == 0 { 0 } else { nanos(2.0 * count / divisor) };
        (at < end && from + to > 0.0).then_some(at)
    };
    (0..).map_while(moment)
}

/// The moments of independent arrivals: gaps are exponential with the rate's mean.
fn poisson(rate: Rate, end: u64, mut chance: Chance) -> impl Iterator<Item = u64> {
    let rate = per_second(rate);
    let mut at = 0_u64;
    std::iter::from_fn(move || {
        // 1 − u is never 0, so the logarithm is finite.
        let gap = nanos(-(1.0 - chance.unit()).ln() / rate);
        at = at.saturating_add(gap);
        (rate > 0.0 && at < end).then_some(at)
    })
}

fn per_second(rate: Rate) -> f64 {
    number(rate.count) * number(SECOND) / number(rate.per.0.max(1))
}

fn seconds(nanos: u64) -> f64 {
    number(nanos) / number(SECOND)
}

#[expect(clippy::cast_precision_loss, reason = "counts and times of a run are far below 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a moment past 584 years ends the phase"
)]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::Duration;

    use super::*;

    const fn per_sec(count: u64) -> Rate {
        Rate { count, per: Duration(SECOND) }
    }

    #[test]
    fn an_even_rate_is_exact_however_long_it_goes_on() {
        let all: Vec<_> = steady(per_sec(7), 100_000 * SECOND).collect();
        assert_eq!(all.len(), 700_000);
        assert_eq!(all[700 * 7], 700 * SECOND);
        assert_eq!(steady(per_sec(0), SECOND).count(), 0);
    }

    #[test]
    fn a_ramp_offers_as_many_as_the_area_under_it_up_and_down() {
        for (from, to) in [(0, 100), (100, 0), (20, 800), (800, 20), (50, 50)] {
            let all: Vec<_> = ramp(per_sec(from), per_sec(to), 10 * SECOND).collect();
            let area = (from + to) * 5;
            let count = u64::try_from(all.len()).unwrap();
            assert!(count.abs_diff(area) <= 1, "{from} to {to}: {count} of {area}");
            assert!(all.is_sorted() && all.iter().all(|at| *at < 10 * SECOND));
        }
        assert_eq!(ramp(per_sec(0), per_sec(0), SECOND).count(), 0);
    }

    #[test]
    fn the_middle_of_a_ramp_has_the_mean_of_its_rates() {
        let all: Vec<_> = ramp(per_sec(0), per_sec(1_000), 10 * SECOND).collect();
        let middle = all.iter().filter(|at| (4_500_000_000..5_500_000_000).contains(*at)).count();
        assert!((499..=501).contains(&middle), "{middle}");
    }

    #[test]
    fn independent_arrivals_have_the_mean_and_the_spread_of_their_law() {
        let all: Vec<_> = poisson(per_sec(1_000), 100 * SECOND, Chance::new(7, 7)).collect();
        // Five standard deviations of a Poisson count; the seed is fixed, so the result never varies.
        assert!(all.len().abs_diff(100_000) < 1_600, "{}", all.len());
        let long = all.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
        assert!(long.abs_diff(36_788) < 1_000, "{long} of the gaps exceed the mean, expected a share of 1/e");
        assert_eq!(poisson(per_sec(0), SECOND, Chance::new(1, 1)).count(), 0);
    }
}
