//! The size of a simulation and the bounds of each kind of subscriber, by arithmetic alone. Pure.

use hookproof_judge::check::verdict::show;
use hookproof_judge::scenario::{Pattern, Phase, Scenario, Shape, Subscriber};
use hookproof_play::traffic::Schedule;

use super::bound::{Bounds, Service, bounds};
use super::service::{is_crowded, service, why_unbounded};
use crate::sim::idle_steps;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    pub events: u64,
    /// Deliveries at most: coalesced and duplicate events are fewer.
    pub deliveries: u64,
    /// The steps of one simulation: events with a receiver, first requests, and those of long pauses.
    pub steps: u64,
    /// The longest time without an event, and its beginning.
    pub gap_ns: (u64, u64),
    /// Types that no subscriber receives, with counts, the most frequent first.
    pub unreceived: Vec<(String, u64)>,
    /// The most deliveries first.
    pub kinds: Vec<Kind>,
}

/// Subscribers of one name in the file, with the same events and the same service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub group: String,
    pub subscribers: u64,
    pub deliveries: u64,
    /// The peak of the backlog, the longest delay and the time to drain after the traffic, at most.
    pub bound: Result<[u64; 3], &'static str>,
}

impl Forecast {
    #[must_use]
    pub fn of(scenario: &Scenario, schedule: &Schedule, commit_ns: u64) -> Self {
        let owed = Owed::of(schedule);
        let mut kinds: Vec<Kind> = Vec::new();
        for (subscriber, (_, bounds)) in
            scenario.subscribers.iter().zip(all_bounds(scenario, schedule, commit_ns))
        {
            let drain = |bounds: &Bounds| bounds.empty_at.saturating_sub(schedule.lasts());
            // No more can wait than is owed.
            let owed = owed.deliveries(subscriber);
            let bound = bounds.map(|bounds| [bounds.backlog.min(owed), bounds.delay_ns, drain(&bounds)]);
            let kind = Kind {
                group: subscriber.group.clone(),
                subscribers: 1,
                deliveries: owed,
                bound: bound.ok_or_else(|| why_unbounded(scenario, subscriber)),
            };
            // Several of one name follow each other in the file.
            let last = kinds.iter_mut().rev().take_while(|other| other.group == kind.group);
            match last.into_iter().find(|other| other.is_like(&kind)) {
                Some(like) => like.subscribers += 1,
                None => kinds.push(kind),
            }
        }
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.all()));
        let deliveries = kinds.iter().map(Kind::all).fold(0, u64::saturating_add);
        let (events, idle) = (schedule.due().len() as u64, idle_steps(scenario, schedule.lasts()));
        Self {
            events,
            deliveries,
            steps: owed.received(scenario).saturating_add(deliveries).saturating_add(idle),
            gap_ns: gap(schedule),
            unreceived: owed.unreceived(scenario),
            kinds,
        }
    }

    /// `4.2 M events → 1.2 G deliveries to 300 subscribers`.
    #[must_use]
    pub fn size(&self) -> String {
        let subscribers: u64 = self.kinds.iter().map(|kind| kind.subscribers).sum();
        format!(
            "{} → {} to {}",
            counted(self.events, "event", "events"),
            counted(self.deliveries, "delivery", "deliveries"),
            counted(subscribers, "subscriber", "subscribers")
        )
    }

    /// A line each.
    pub fn bounds(&self) -> impl Iterator<Item = String> {
        self.kinds.iter().map(|kind| {
            let whom = kind.name();
            match kind.bound {
                Ok([backlog, delay, drain]) => format!(
                    "{whom}: {} each; by arithmetic, at most {} waiting, {} late, and done {} after the traffic",
                    counted(kind.deliveries, "delivery", "deliveries"),
                    short(backlog),
                    show(delay),
                    show(drain)
                ),
                Err(why) => format!(
                    "{whom}: {} each; no bound: {why}",
                    counted(kind.deliveries, "delivery", "deliveries")
                ),
            }
        })
    }

    /// Names recorded events that no subscriber receives.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let all: u64 = self.unreceived.iter().map(|(_, count)| count).sum();
        let named = self.unreceived.iter().take(NAMED_MAX).map(|(name, count)| format!("{name} ({count})"));
        let mut named: Vec<String> = named.collect();
        if let Some(more) = self.unreceived.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            named.push(format!("{more} more types"));
        }
        (all > 0)
            .then(|| format!("no subscriber receives {all} of the recorded events: {}", named.join(", ")))
    }

    #[must_use]
    pub fn remedies(&self) -> String {
        let widest = self.kinds.iter().find(|kind| kind.subscribers > 1 && kind.all() > self.deliveries / 2);
        let widest = widest.map_or(String::new(), |kind| {
            let percent = kind.all().saturating_mul(100) / self.deliveries.max(1);
            format!(
                "{} get {percent} % of the deliveries: narrow their `events`, or lower their `count`; ",
                kind.name()
            )
        });
        let events = self.events.saturating_add(self.deliveries);
        let pause = if self.steps > events.saturating_mul(2) {
            let (length, from) = self.gap_ns;
            format!("the longest pause of the traffic is {}, from {} on: cut it; ", show(length), show(from))
        } else {
            String::new()
        };
        format!("{pause}{widest}shorten the traffic's `lasts`")
    }
}

impl Kind {
    fn is_like(&self, other: &Self) -> bool {
        self.group == other.group && self.deliveries == other.deliveries && self.bound == other.bound
    }

    fn all(&self) -> u64 {
        self.deliveries.saturating_mul(self.subscribers)
    }

    fn name(&self) -> String {
        match self.subscribers {
            1 => self.group.clone(),
            several => format!("{several} × {}", self.group),
        }
    }
}

const NAMED_MAX: usize = 5;

fn gap(schedule: &Schedule) -> (u64, u64) {
    let due = schedule.due().iter().map(|due| due.at);
    let ends = due.clone().chain([schedule.lasts()]);
    let gaps = [0].into_iter().chain(due).zip(ends).map(|(from, to)| (to.saturating_sub(from), from));
    gaps.max().unwrap_or_default()
}

/// By type.
struct Owed<'a>(Vec<(&'a str, u64)>);

impl<'a> Owed<'a> {
    fn of(schedule: &'a Schedule) -> Self {
        let mut types: Vec<(&str, u64)> = schedule.types().map(|name| (name, 0)).collect();
        for due in schedule.due() {
            if let Some((_, count)) = types.get_mut(due.kind as usize) {
                *count += 1;
            }
        }
        Self(types)
    }

    fn received(&self, scenario: &Scenario) -> u64 {
        self.0.iter().filter(|(name, _)| scenario.is_owed(name)).map(|(_, count)| count).sum()
    }

    fn unreceived(&self, scenario: &Scenario) -> Vec<(String, u64)> {
        let is_recorded = |phase: &Phase| matches!(phase.shape, Shape::Recorded { .. });
        if !scenario.traffic.iter().any(is_recorded) {
            return Vec::new();
        }
        let unreceived = self.0.iter().filter(|(name, count)| *count > 0 && !scenario.is_owed(name));
        let mut all: Vec<(String, u64)> =
            unreceived.map(|(name, count)| ((*name).to_owned(), *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    fn deliveries(&self, subscriber: &Subscriber) -> u64 {
        self.0.iter().filter(|(name, _)| subscriber.is_owed(name)).map(|(_, count)| count).sum()
    }
}

/// Computed once for all with the same events and service.
pub(super) fn all_bounds(
    scenario: &Scenario,
    schedule: &Schedule,
    commit_ns: u64,
) -> Vec<(Service, Option<Bounds>)> {
    let mut known: Vec<(&[Pattern], Service, Option<Bounds>)> = Vec::new();
    let types: Vec<&str> = schedule.types().collect();
    let bounds_of = |subscriber: &Subscriber, service: &Service| {
        let owed: Vec<bool> = types.iter().map(|name| subscriber.is_owed(name)).collect();
        let due = schedule.due().iter().filter(|due| owed.get(due.kind as usize).copied().unwrap_or(false));
        let moments: Vec<u64> = due.map(|due| due.at).collect();
        bounds(&moments, service)
    };
    let owed = Owed::of(schedule);
    let is_crowded = is_crowded(scenario, scenario.subscribers.iter().map(|one| (one, owed.deliveries(one))));
    let mut all = Vec::with_capacity(scenario.subscribers.len());
    for subscriber in &scenario.subscribers {
        let service = service(scenario, subscriber, commit_ns, is_crowded);
        let like = known.iter().find(|(events, of, _)| *events == subscriber.events && *of == service);
        let found = match like {
            Some((_, _, found)) => found.clone(),
            None => {
                let found = bounds_of(subscriber, &service);
                known.push((&subscriber.events, service.clone(), found.clone()));
                found
            }
        };
        all.push((service, found));
    }
    all
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", short(count), if count == 1 { one } else { several })
}

/// A count with two or three digits: `41,000` is `41 k`.
fn short(count: u64) -> String {
    let (unit, scale) = match count {
        0..10_000 => return count.to_string(),
        10_000..1_000_000 => ("k", 1_000),
        1_000_000..1_000_000_000 => ("M", 1_000_000),
        _ => ("G", 1_000_000_000),
    };
    let tenths = count / (scale / 10);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, _) if whole >= 100 => format!("{whole} {unit}"),
        (whole, part) => format!("{whole}.{part} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hookproof_judge::scenario::SECOND;

    use super::*;

    fn forecast(subscribers: &str) -> Forecast {
        let text = format!(
            "name = \"f\"\ndrain = \"60s\"\n[[traffic]]\nshape = \"burst\"\nevents = 100\n[events]\ntypes = {{ a = 1 }}\n{subscribers}"
        );
        let scenario = Scenario::from_text(&text, "f.toml").unwrap();
        let schedule = Schedule::compute(&scenario.traffic, &scenario.events, 1, Path::new(".")).unwrap();
        Forecast::of(&scenario, &schedule, 2_000_000)
    }

    #[test]
    fn each_event_goes_to_each_subscriber_that_receives_its_type() {
        let found = forecast(
            "[[subscriber]]\nname = \"many\"\ncount = 296\nlimit = { rate = \"10/s\", burst = 10 }\n\
             [[subscriber]]\nname = \"none\"\nevents = [\"b\"]\n[[subscriber]]\nname = \"one\"\n",
        );
        assert_eq!(found.size(), "100 events → 29.7 k deliveries to 298 subscribers");
        assert_eq!(found.steps, 29_800);
        let names: Vec<String> = found.kinds.iter().map(Kind::name).collect();
        assert_eq!(names, ["296 × many", "one", "none"]);
        assert!(found.remedies().starts_with("296 × many get 99 % of the deliveries: narrow"));
        let told: Vec<String> = found.bounds().collect();
        assert!(told[0].starts_with("296 × many: 100 deliveries each; by arithmetic, at most 1"), "{told:?}");
    }

    #[test]
    fn a_process_beyond_its_attempts_is_sure_of_one_for_each_lane() {
        let bound = |count: u32| {
            let many = format!(
                "[[subscriber]]\nname = \"many\"\ncount = {count}\nanswers = \"1s..1s\"\n\
                 limit = {{ rate = \"100/s\", burst = 200, in_flight = 100 }}\n"
            );
            forecast(&many).kinds[0].bound.unwrap()[1] / SECOND
        };
        // At most 100 × 100 attempts fit. One more subscriber, and its 100 deliveries may go one by one, a second each.
        assert_eq!(
            [bound(100), bound(101)].map(|seconds| (seconds < 10, seconds > 100)),
            [(true, false), (false, true)]
        );
    }

    #[test]
    fn events_without_a_receiver_are_no_steps() {
        let found = forecast("[[subscriber]]\nname = \"none\"\nevents = [\"b\"]\n");
        assert_eq!((found.events, found.steps), (100, 0));
    }

    #[test]
    fn like_subscribers_with_a_trouble_of_their_own_are_told_apart() {
        let found = forecast(
            "[[subscriber]]\nname = \"one\"\n[[subscriber]]\nname = \"gone\"\n\
             [[subscriber.behaviour]]\nanswer = 500\n",
        );
        let told: Vec<String> = found.bounds().collect();
        assert_eq!(told[1], "gone: 100 deliveries each; no bound: it fails permanently");
        assert!(found.remedies().starts_with("shorten"), "no kind has several subscribers");
    }

    #[test]
    fn counts_are_short() {
        let counts = [9_999, 41_000, 123_456, 4_200_000, 1_243_200_000].map(short);
        assert_eq!(counts, ["9999", "41 k", "123 k", "4.2 M", "1.2 G"]);
    }
}
