use hookproof_engine::engine::baseline::Baseline;
use hookproof_engine::engine::{Nanos, StoreTime};
use proptest::prelude::*;

type Phase = (usize, Nanos, Vec<Nanos>);

#[derive(Default)]
struct Definition {
    hours: Vec<Nanos>,
    hour: Vec<Nanos>,
    began: StoreTime,
}

impl Definition {
    fn answered(&mut self, latency: Nanos, now: StoreTime) {
        if now.since(self.began) >= Nanos::HOUR && self.retained().len() >= 16 {
            self.hours.push(percentile(&self.retained()));
            self.hour.clear();
        }
        if self.hour.is_empty() {
            self.began = now;
        }
        self.hour.push(latency);
        if self.hours.is_empty() && self.hour.len() == 16 {
            self.hours = vec![percentile(&self.hour); 24];
        }
    }

    fn retained(&self) -> Vec<Nanos> {
        let stride = (0..).map(|doublings| 1 << doublings).find(|one| self.hour.len().div_ceil(*one) <= 32);
        self.hour.iter().copied().step_by(stride.unwrap()).collect()
    }

    fn get(&self) -> Option<Nanos> {
        let mut day = self.hours[self.hours.len().saturating_sub(24)..].to_vec();
        day.sort_unstable();
        day.get(11).copied()
    }
}

fn percentile(some: &[Nanos]) -> Nanos {
    let mut sorted = some.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * 95).div_ceil(100) - 1]
}

fn play(
    baseline: &mut Baseline,
    now: &mut StoreTime,
    phases: &[Phase],
    mut see: impl FnMut(Nanos, StoreTime, &Baseline),
) {
    for (count, gap, latencies) in phases {
        for latency in latencies.iter().cycle().take(*count) {
            *now = *now + *gap;
            baseline.answered(*latency, *now);
            see(*latency, *now, baseline);
        }
    }
}

fn phases() -> impl Strategy<Value = Vec<Phase>> {
    let latency = (0_u32..24, 1_000_u64..2_000).prop_map(|(bits, us)| Nanos::from_micros(us << bits >> 4));
    let gap = prop_oneof![0_u64..2_000, 0_u64..600_000, 0_u64..7_200_000].prop_map(Nanos::from_millis);
    prop::collection::vec((1_usize..400, gap, prop::collection::vec(latency, 1..40)), 1..30)
}

proptest! {
    #[test]
    fn it_is_what_its_definition_says_within_an_eighth(phases in phases()) {
        let (mut definition, mut now) = (Definition::default(), StoreTime(1));
        let mut wrong = None;
        play(&mut Baseline::default(), &mut now, &phases, |latency, now, found| {
            definition.answered(latency, now);
            let agree = match (definition.get(), found.get()) {
                (Some(exact), Some(told)) => exact.0 / 1_000 * 1_000 <= told.0 && told.0 <= exact.0 + exact.0 / 8,
                (exact, told) => exact == told,
            };
            if !agree {
                wrong.get_or_insert((definition.get(), found.get()));
            }
        });
        prop_assert_eq!(wrong, None);
    }

    #[test]
    fn a_slow_half_day_is_not_usual_and_a_slow_day_is(
        before in phases(),
        quick_ms in 1_u64..100,
        times in 2_u64..1_000,
        gap_ms in 100_u64..200_000,
    ) {
        let (mut baseline, mut now) = (Baseline::default(), StoreTime(1));
        let (quick, slow) = (Nanos::from_millis(quick_ms), Nanos::from_millis(quick_ms * times));
        let count = |hours: u64| usize::try_from(hours * 3_600_000 / gap_ms).unwrap();
        let gap = Nanos::from_millis(gap_ms);
        play(&mut baseline, &mut now, &before, |_, _, _| {});
        play(&mut baseline, &mut now, &[(count(30), gap, vec![quick])], |_, _, _| {});
        let usual = baseline.get();
        play(&mut baseline, &mut now, &[(count(11), gap, vec![slow])], |_, _, _| {});
        prop_assert_eq!(baseline.get(), usual);
        play(&mut baseline, &mut now, &[(count(4), gap, vec![slow])], |_, _, _| {});
        prop_assert!(baseline.get().is_some_and(|it| it >= slow));
    }
}

#[test]
fn sixteen_answers_are_enough_to_hold_for_half_a_day() {
    let (mut baseline, mut now) = (Baseline::default(), StoreTime(1));
    let [quick, slow] = [20, 800].map(Nanos::from_millis);
    play(&mut baseline, &mut now, &[(15, Nanos::SECOND, vec![quick])], |_, _, _| {});
    assert_eq!(baseline.get(), None);
    play(&mut baseline, &mut now, &[(1, Nanos::SECOND, vec![quick])], |_, _, _| {});
    let usual = baseline.get();
    assert!(usual.is_some_and(|it| quick <= it && it < Nanos::from_millis(23)), "{usual:?}");
    play(&mut baseline, &mut now, &[(11 * 3_600, Nanos::SECOND, vec![slow])], |_, _, _| {});
    assert_eq!(baseline.get(), usual);
}
