use hookproof_judge::scenario::SECOND;
use hookproof_simulator::plan::bound::{Service, bounds, burst, merged};
use proptest::prelude::*;

fn moments() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0_u64..60 * SECOND, 1..60).prop_map(|mut moments| {
        moments.sort_unstable();
        moments
    })
}

fn pauses() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let pause = (0_u64..60 * SECOND, 1..20 * SECOND).prop_map(|(from, lasts)| (from, from + lasts));
    prop::collection::vec(pause, 0..4).prop_map(merged)
}

fn burst_by_definition(moments: &[u64], millihertz: u64) -> u64 {
    let mut most = 0_u128;
    for (first, from) in moments.iter().enumerate() {
        for (count, until) in (1_u128..).zip(&moments[first..]) {
            let allowed = u128::from(millihertz) * u128::from(until - from) / 1_000;
            most = most.max((count * u128::from(SECOND)).saturating_sub(allowed));
        }
    }
    u64::try_from(most.div_ceil(u128::from(SECOND))).unwrap()
}

/// The server does only its promised service: it sleeps for its latency whenever work arrives while it is idle, and
/// through its pauses.
fn served(moments: &[u64], service: &Service) -> (u64, u64) {
    let each = 1_000 * SECOND / service.millihertz;
    let mut gone: Vec<u64> = Vec::new();
    let (mut backlog, mut delay) = (0, 0);
    for at in moments {
        let free = gone.last().copied().filter(|free| free > at);
        let begin = free.unwrap_or(at + service.latency_ns);
        let (mut end, mut left) = (begin, each);
        for (from, until) in &service.pauses {
            if *until <= end {
                continue;
            }
            let before = from.saturating_sub(end);
            if left <= before {
                break;
            }
            left -= before;
            end = *until;
        }
        end += left;
        gone.push(end);
        backlog = backlog.max(gone.iter().filter(|gone| *gone > at).count() as u64);
        delay = delay.max(end - at);
    }
    (backlog, delay)
}

proptest! {
    #[test]
    fn the_least_burst_is_that_of_its_definition(moments in moments(), millihertz in 1_u64..20_000) {
        let found = burst(&moments, millihertz);
        let defined = burst_by_definition(&moments, millihertz);
        prop_assert!(found.abs_diff(defined) <= 1, "{} and {}", found, defined);
        prop_assert!(found >= 1 && found <= moments.len() as u64);
    }

    #[test]
    fn without_pauses_the_bounds_are_the_closed_form(
        moments in moments(), millihertz in 100_u64..20_000, latency_ns in 0..5 * SECOND,
    ) {
        let service = Service { millihertz, latency_ns, pauses: vec![] };
        let found = bounds(&moments, &service).unwrap();
        let sigma = u128::from(found.burst);
        let backlog = sigma * u128::from(SECOND) + u128::from(millihertz) * u128::from(latency_ns) / 1_000;
        let backlog = u64::try_from(backlog.div_ceil(u128::from(SECOND))).unwrap();
        prop_assert!(found.backlog <= backlog && found.backlog + 1 >= backlog);
        let delay = latency_ns + u64::try_from(sigma * 1_000 * u128::from(SECOND)).unwrap() / millihertz;
        prop_assert!(found.delay_ns <= delay + 1);
    }

    #[test]
    fn no_server_that_keeps_its_promise_passes_the_bounds(
        moments in moments(), millihertz in 100_u64..20_000, latency_ns in 0..5 * SECOND, pauses in pauses(),
    ) {
        let service = Service { millihertz, latency_ns, pauses };
        let found = bounds(&moments, &service).unwrap();
        let (backlog, delay) = served(&moments, &service);
        // The server works on whole deliveries; a started one still counts as waiting.
        prop_assert!(backlog <= found.backlog + 1, "{} waited, bound {}", backlog, found.backlog);
        let each = 1_000 * SECOND / millihertz;
        prop_assert!(delay <= found.delay_ns + each, "{} waited, bound {}", delay, found.delay_ns);
    }

    #[test]
    fn less_service_never_lowers_a_bound(moments in moments(), millihertz in 200_u64..20_000, pauses in pauses()) {
        let with = |millihertz, pauses: &[(u64, u64)]| {
            bounds(&moments, &Service { millihertz, latency_ns: 0, pauses: pauses.to_vec() }).unwrap()
        };
        let [whole, paused, slower] =
            [with(millihertz, &[]), with(millihertz, &pauses), with(millihertz / 2, &pauses)];
        prop_assert!(whole.backlog <= paused.backlog && paused.backlog <= slower.backlog);
        prop_assert!(whole.delay_ns <= paused.delay_ns && paused.delay_ns <= slower.delay_ns);
        prop_assert!(whole.empty_at <= paused.empty_at && paused.empty_at <= slower.empty_at);
    }
}

#[test]
fn without_a_guaranteed_service_there_is_no_bound() {
    let never = Service { millihertz: 0, latency_ns: 0, pauses: vec![] };
    let gone = Service { millihertz: 5_000, latency_ns: 0, pauses: vec![(SECOND, u64::MAX)] };
    assert_eq!([bounds(&[0], &never), bounds(&[0], &gone)], [None, None]);
}

#[test]
fn ten_at_once_over_five_a_second_wait_for_two_seconds() {
    let service = Service { millihertz: 5_000, latency_ns: SECOND, pauses: vec![] };
    let found = bounds(&[3 * SECOND; 10], &service).unwrap();
    assert_eq!((found.burst, found.backlog), (10, 15));
    assert_eq!((found.delay_ns, found.empty_at), (3 * SECOND, 6 * SECOND));
}
