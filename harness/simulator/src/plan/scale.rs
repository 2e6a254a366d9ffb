//! Variants of a scenario: scaled traffic, a raised limit, one subscriber alone. Pure.

use hookproof_judge::scenario::{Duration, Rate, SECOND, Scenario, Shape, Size, Subscriber};

/// In thousandths.
pub const AS_IT_STANDS: u64 = 1_000;

pub(super) fn times(thousandths: u64) -> String {
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000 / 10);
    if part == 0 {
        format!("{whole}×")
    } else {
        format!("{whole}.{}×", format!("{part:02}").trim_end_matches('0'))
    }
}

/// A recording is played a whole number of times, so its factor is rounded.
#[must_use]
pub fn scaled(scenario: &Scenario, thousandths: u64) -> Scenario {
    let mut scaled = scenario.clone();
    let times = |rate: &mut Rate| *rate = multiplied(*rate, thousandths);
    for phase in &mut scaled.traffic {
        match &mut phase.shape {
            Shape::Steady { rate } | Shape::Poisson { rate } => times(rate),
            Shape::Ramp { rate, to } | Shape::Spike { rate, to } => {
                times(rate);
                times(to);
            }
            Shape::Burst { events } => *events = events.saturating_mul(thousandths).div_ceil(AS_IT_STANDS),
            Shape::Recorded { times, .. } => {
                let whole = u64::from(*times).saturating_mul(thousandths).saturating_add(AS_IT_STANDS / 2);
                *times = u32::try_from(whole / AS_IT_STANDS).unwrap_or(u32::MAX).max(1);
            }
            Shape::Pause => {}
        }
    }
    scaled
}

/// Some of its traffic scales in whole multiples only.
#[must_use]
pub fn is_coarse(scenario: &Scenario) -> bool {
    scenario.traffic.iter().any(|phase| matches!(phase.shape, Shape::Recorded { .. }))
}

fn multiplied(rate: Rate, thousandths: u64) -> Rate {
    let (mut count, mut per) =
        (rate.count.saturating_mul(thousandths), rate.per.0.saturating_mul(AS_IT_STANDS));
    // Keeps the unit where that is exact, for readability.
    if count % AS_IT_STANDS == 0 {
        (count, per) = (count / AS_IT_STANDS, rate.per.0);
    }
    Rate { count, per: Duration(per) }
}

/// Lanes share only the machine, which is not modelled.
#[must_use]
pub fn alone(scenario: &Scenario, place: usize) -> Scenario {
    let mut alone = scenario.clone();
    alone.subscribers = scenario.subscribers.get(place).cloned().into_iter().collect();
    alone
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// Raises the caps of windows, too.
    Rate,
    /// Raises the cap in flight, too.
    Burst,
    /// Leaves the rate.
    Windows,
    InFlight,
    Queue,
}

impl Knob {
    pub const ALL: [Self; 5] = [Self::Rate, Self::Burst, Self::Windows, Self::InFlight, Self::Queue];

    /// Raises it to this many thousandths, rounded up, a low rate to a tenth; false if the subscriber has no such limit.
    pub fn raise(self, subscriber: &mut Subscriber, thousandths: u64) -> bool {
        let mut is_there = false;
        let rate = subscriber.limit.bucket.map(|bucket| bucket.rate);
        self.each(subscriber, |count, most| {
            is_there = true;
            // A value beyond the sender's maximum stays, and the sender refuses it.
            count.saturating_mul(thousandths).div_ceil(AS_IT_STANDS).min(most.max(count))
        });
        if let (Self::Rate, Some(rate), Some(bucket)) = (self, rate, &mut subscriber.limit.bucket) {
            let tenths = rate.count.saturating_mul(thousandths).div_ceil(AS_IT_STANDS / 10);
            let per = rate.per.0.saturating_mul(FINER);
            if tenths < TENTHS_BELOW * 10 && !tenths.is_multiple_of(10) && per <= PER_MAX {
                bucket.rate = Rate { count: tenths * (FINER / 10), per: Duration(per) };
            }
        }
        is_there
    }

    /// Gets each raised count and its maximum: its own first, then the companions.
    fn each(self, subscriber: &mut Subscriber, mut change: impl FnMut(u64, u64) -> u64) {
        let (limit, queue) = (&mut subscriber.limit, &mut subscriber.queue);
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        match (self, &mut limit.bucket) {
            // Without a bucket its companions stay too.
            (Self::Rate | Self::Burst, None) => return,
            (Self::Rate, Some(bucket)) => {
                let most = u128::from(RATE_MAX) * u128::from(bucket.rate.per.0) / u128::from(SECOND);
                bucket.rate.count = change(bucket.rate.count, u64::try_from(most).unwrap_or(u64::MAX));
            }
            (Self::Burst, Some(bucket)) => bucket.burst = narrow(change(bucket.burst.into(), BURST_MAX)),
            _ => {}
        }
        match self {
            Self::Rate | Self::Windows => {
                limit.windows.iter_mut().for_each(|window| window.count = change(window.count, WINDOW_MAX));
            }
            Self::Burst | Self::InFlight => {
                limit.in_flight = limit.in_flight.map(|count| narrow(change(count.into(), IN_FLIGHT_MAX)));
            }
            Self::Queue => {
                queue.rows = queue.rows.map(|rows| change(rows, ROWS_MAX));
                queue.bytes = queue.bytes.map(|bytes| Size(change(bytes.0, BYTES_MAX)));
            }
        }
    }

    fn counts(self, subscriber: &Subscriber) -> Vec<u64> {
        let mut counts = Vec::new();
        self.each(&mut subscriber.clone(), |count, _| {
            counts.push(count);
            count
        });
        counts
    }

    /// Uses the scenario's notation.
    #[must_use]
    pub fn of(self, subscriber: &Subscriber) -> String {
        self.told(subscriber, subscriber)
    }

    pub(super) fn told(self, subscriber: &Subscriber, before: &Subscriber) -> String {
        let limit = &subscriber.limit;
        let windows: Vec<String> = limit.windows.iter().map(ToString::to_string).collect();
        let windows = (!windows.is_empty()).then(|| windows.join(", "));
        let rates = limit.bucket.zip(before.limit.bucket);
        let rate = rates.map(|(bucket, before)| spoken(bucket.rate, before.rate));
        let in_flight = limit.in_flight.map(|count| format!("{count} in flight"));
        let rows = subscriber.queue.rows.map(|rows| format!("{rows} rows"));
        let bytes = subscriber.queue.bytes.map(|bytes| bytes.to_string());
        let (own, with_it) = match self {
            Self::Rate => (rate, windows),
            Self::Burst => (limit.bucket.map(|bucket| bucket.burst.to_string()), in_flight),
            Self::Windows => (windows, None),
            Self::InFlight => (limit.in_flight.map(|count| count.to_string()), None),
            Self::Queue => match (rows, bytes) {
                (None, bytes) => (bytes, None),
                both => both,
            },
        };
        match (own, with_it) {
            (Some(own), Some(with_it)) => format!("{own} ({with_it})"),
            (Some(own), None) => own,
            (None, _) => "unbounded".to_owned(),
        }
    }

    /// Limits that do not overlap.
    #[must_use]
    pub fn apart(subscriber: &Subscriber) -> [Self; 3] {
        match subscriber.limit.bucket {
            Some(_) => [Self::Rate, Self::Burst, Self::Queue],
            None => [Self::Windows, Self::InFlight, Self::Queue],
        }
    }

    #[must_use]
    pub fn takes_along(self, subscriber: &Subscriber) -> bool {
        matches!(self, Self::Rate | Self::Burst) && self.counts(subscriber).len() > 1
    }

    /// In thousandths.
    #[must_use]
    pub fn factor(self, before: &Subscriber, after: &Subscriber) -> u64 {
        let times = |(before, after): (u64, u64)| after.saturating_mul(AS_IT_STANDS) / before.max(1);
        let mut raised: Vec<u64> =
            self.counts(before).into_iter().zip(self.counts(after)).map(times).collect();
        if let (Self::Rate, Some(first)) = (self, raised.first_mut()) {
            let per = |one: &Subscriber| one.limit.bucket.map_or(1, |bucket| bucket.rate.per.0);
            *first /= per(after) / per(before).max(1);
        }
        raised.into_iter().max().unwrap_or(AS_IT_STANDS)
    }

    #[must_use]
    pub fn cost(self, before: &Subscriber, after: &Subscriber) -> String {
        let (whom, from, to) = (&before.group, self.of(before), self.told(after, before));
        match self {
            Self::Rate | Self::Windows => format!("{whom} must accept {to} instead of {from}"),
            Self::Burst => format!("{whom} must accept a burst of {to} instead of {from}"),
            Self::InFlight => format!("{whom} must serve {to} requests at once instead of {from}"),
            Self::Queue => {
                format!("no cost for {whom}: the queue of the sender holds {to} instead of {from}")
            }
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Burst => "burst",
            Self::Windows => "windows",
            Self::InFlight => "requests in flight",
            Self::Queue => "queue",
        }
    }
}

/// In the unit of the rate before: 306/min is 5.1/s.
fn spoken(rate: Rate, before: Rate) -> String {
    if rate.per.0 != before.per.0.saturating_mul(FINER) {
        return rate.to_string();
    }
    let (tenths, unit) = (rate.count * 10 / FINER, Rate { count: 0, per: before.per }.to_string());
    format!("{}.{}{}", tenths / 10, tenths % 10, unit.trim_start_matches('0'))
}

/// Below this count a raised rate has a tenth.
const TENTHS_BELOW: u64 = 20;
/// A minute in place of a second.
const FINER: u64 = 60;
/// The sender's maxima.
const RATE_MAX: u64 = 1_000_000;
const PER_MAX: u64 = 86_400 * SECOND;
const BURST_MAX: u64 = 1_000_000;
const WINDOW_MAX: u64 = 1_000_000;
const IN_FLIGHT_MAX: u64 = 10_000;
const ROWS_MAX: u64 = 1_000_000_000;
const BYTES_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = "name = \"s\"\n[[traffic]]\nshape = \"spike\"\nrate = \"3/s\"\nto = \"90/s\"\nlasts = \"4s\"\n\
                    [[subscriber]]\nname = \"a\"\nlimit = { rate = \"5/s\", burst = 10, windows = [\"7 per 1s\"] }\n\
                    [[subscriber]]\nname = \"b\"\n";
        Scenario::from_text(text, "s.toml").unwrap()
    }

    #[test]
    fn traffic_is_scaled_exactly() {
        let to = |thousandths| match scaled(&scenario(), thousandths).traffic[0].shape {
            Shape::Spike { rate, to } => (rate, to),
            ref other => panic!("{other:?}"),
        };
        let (rate, most) = to(1_000);
        assert_eq!((rate.to_string(), most.to_string()), ("3/s".to_owned(), "90/s".to_owned()));
        let (rate, most) = to(2_500);
        assert_eq!((rate.count, rate.per.0), (7_500, 1_000 * SECOND));
        assert_eq!(most.to_string(), "225/s");
    }

    #[test]
    fn one_subscriber_is_left_alone_with_the_whole_traffic() {
        let alone = alone(&scenario(), 1);
        assert_eq!(alone.subscribers.len(), 1);
        assert_eq!((alone.subscribers[0].name.as_str(), &alone.traffic), ("b", &scenario().traffic));
    }

    #[test]
    fn a_raise_is_told_by_what_was_raised_the_most() {
        let before = scenario().subscribers.remove(0);
        let mut after = before.clone();
        assert!(Knob::Rate.raise(&mut after, 1_030));
        // Eight instead of seven is more than 5.2 instead of 5.
        assert_eq!(
            (Knob::Rate.of(&after), Knob::Rate.factor(&before, &after)),
            ("312/min (8 per 1s)".to_owned(), 1_142)
        );
        assert_eq!(
            Knob::Rate.cost(&before, &after),
            "a must accept 5.2/s (8 per 1s) instead of 5/s (7 per 1s)"
        );
        let mut after = before.clone();
        assert!(Knob::Rate.raise(&mut after, 1_190));
        assert_eq!(
            (Knob::Rate.of(&after), Knob::Rate.factor(&before, &after)),
            ("6/s (9 per 1s)".to_owned(), 1_285)
        );
        assert!(Knob::Rate.takes_along(&before) && !Knob::Windows.takes_along(&before));
    }

    #[test]
    fn a_knob_raises_what_it_says_and_nothing_else() {
        let before = scenario().subscribers.remove(0);
        let mut one = before.clone();
        assert!(Knob::Rate.raise(&mut one, 2_500));
        assert_eq!(Knob::Rate.of(&one), "750/min (18 per 1s)");
        assert_eq!(Knob::Rate.told(&one, &before), "12.5/s (18 per 1s)");
        assert!(Knob::Windows.raise(&mut one, 2_000));
        assert_eq!([Knob::Rate.of(&one), Knob::Windows.of(&one)], ["750/min (36 per 1s)", "36 per 1s"]);
        assert_eq!(Knob::Burst.of(&one), "10");
        assert!(!Knob::Queue.raise(&mut one, 2_000), "nothing bounds its queue");
        one.queue.bytes = Some(Size(1_500));
        assert!(Knob::Queue.raise(&mut one, 2_000));
        assert_eq!(Knob::Queue.of(&one), Size(3_000).to_string());
        assert!(!Knob::InFlight.raise(&mut one, 2_000), "its requests are not bounded");
    }
}
