use std::sync::Arc;

use hookproof_engine::engine::breaker::{Cause, Standing};
use hookproof_engine::engine::{
    Engine, Fate, Input, LaneId, Limits, Nanos, Origin, Outcome, Output, Reason, Refusal, Settlement,
    StoreTime, Term,
};

use hookproof_engine::engine::contract::{Bucket, Contract, Rate, Window};

use crate::shell::{Sent, no_breaker, per_second, settings, settings_with};
use crate::world::{Reply, World, busy, silent, status};

const QUICK: Nanos = Nanos::from_millis(10);

fn always(code: u16) -> impl FnMut(&Sent) -> Reply {
    move |_| status(QUICK, code)
}

fn fates<F>(world: &World<F>) -> Vec<Fate> {
    world.shell.store.fates.iter().map(|settlement| settlement.fate).collect()
}

#[test]
fn a_success_is_delivered_with_one_attempt() {
    for code in [200, 204, 299] {
        let mut world = World::new(always(code));
        world.lane(1, &settings(per_second(10, 5, 5)), 1);
        world.run(Nanos::MINUTE);
        let expected = Settlement { attempts: 1, fate: Fate::Delivered, ..world.shell.store.fates[0] };
        assert_eq!(world.shell.store.fates, [expected], "{code}");
    }
}

#[test]
fn anything_else_is_tried_exactly_as_often_as_declared() {
    let outcomes: [fn() -> Reply; 7] = [
        || status(QUICK, 500),
        || status(QUICK, 301),
        || status(QUICK, 404),
        || busy(QUICK, 429, "1"),
        || silent(QUICK),
        || Reply { after: QUICK, outcome: Outcome::Unsent },
        || Reply { after: QUICK, outcome: Outcome::ProxyFailed },
    ];
    for outcome in outcomes {
        let mut world = World::new(move |_: &Sent| outcome());
        world.lane(1, &settings_with(per_second(10, 5, 5), no_breaker(), Default::default()), 3);
        world.run(Nanos::DAY);
        assert_eq!(fates(&world), [Fate::Dead(Reason::Exhausted); 3], "{:?}", outcome().outcome);
        assert_eq!(world.sent.len(), 3 * 12, "{:?}", outcome().outcome);
        let mut numbers: Vec<_> = world.sent.iter().map(|sent| (sent.delivery, sent.number)).collect();
        numbers.sort_unstable();
        let expected: Vec<_> = numbers.chunks(12).flat_map(|all| (1..=12).map(|n| (all[0].0, n))).collect();
        assert_eq!(numbers, expected);
    }
}

#[test]
fn a_cut_attempt_is_in_doubt_and_counts_against_neither_endpoint_nor_delivery() {
    let mut world = World::new(|sent: &Sent| match sent.at {
        at if at < StoreTime(1) + Nanos::MINUTE => Reply { after: QUICK, outcome: Outcome::CutOff },
        _ => status(QUICK, 204),
    });
    world.lane(1, &settings(per_second(10, 20, 1)), 1);
    world.run(Nanos::from_secs(59));
    // The whole burst is in doubt for a minute. Only that holds the lane back.
    assert_eq!(world.sent.len(), 20);
    assert!(world.sent.iter().all(|sent| sent.number == 1));
    let view = world.shell.engine.views().remove(0);
    assert_eq!((view.holds.in_doubt, view.holds.breaker.is_open(), view.share_percent), (20, false, 100));
    world.run(Nanos::HOUR);
    assert_eq!(fates(&world), [Fate::Delivered]);
    assert_eq!(world.shell.store.fates[0].attempts, 1);
}

#[test]
fn a_withheld_send_is_no_attempt_and_does_not_count_against_the_endpoint() {
    let reply = |sent: &Sent| match sent.number {
        _ if sent.at < StoreTime(1) + Nanos::MINUTE => Reply { after: QUICK, outcome: Outcome::Withheld },
        1 => status(QUICK, 503),
        _ => status(QUICK, 204),
    };
    let mut world = World::new(reply);
    let lane = world.lane(1, &settings(per_second(10, 5, 5)), 2);
    world.run(Nanos::MINUTE);
    assert!(world.sent.len() > 100, "{}", world.sent.len());
    assert!(world.sent.iter().all(|sent| sent.number == 1));
    let view = world.shell.engine.views().into_iter().find(|view| view.lane == lane).unwrap();
    assert!(!view.holds.breaker.is_open());
    assert_eq!(view.share_percent, 100);
    world.run(Nanos::HOUR);
    let attempts: Vec<_> = world.shell.store.fates.iter().map(|settled| settled.attempts).collect();
    assert_eq!((fates(&world), attempts), (vec![Fate::Delivered; 2], vec![2, 2]));
}

#[test]
fn a_failure_of_the_proxy_is_an_attempt_and_does_not_count_against_the_endpoint() {
    let mut world = World::new(|_: &Sent| Reply { after: QUICK, outcome: Outcome::ProxyFailed });
    world.lane(1, &settings(per_second(10, 20, 20)), 30);
    world.run(Nanos::MINUTE);
    assert!(world.sent.len() > 60, "{}", world.sent.len());
    let view = world.shell.engine.views().remove(0);
    assert_eq!((view.holds.breaker.is_open(), view.share_percent), (false, 100));
    world.run(Nanos::DAY);
    assert_eq!(fates(&world), [Fate::Dead(Reason::Exhausted); 30]);
}

#[test]
fn an_endpoint_that_permits_nothing_is_asked_ever_later_and_costs_no_attempt() {
    let refusal = Refusal::Slower(60);
    let mut world = World::new(move |sent: &Sent| match sent.at {
        at if at < StoreTime(1) + Nanos::HOUR => {
            Reply { after: QUICK, outcome: Outcome::Unpermitted(refusal) }
        }
        _ => status(QUICK, 204),
    });
    let contract = settings(per_second(10, 5, 1));
    let lane = world.lane(1, &contract, 3);
    world.run(Nanos::MINUTE.times(50));
    let gaps = |world: &World<_>| {
        let sent = world.sent.windows(2).map(|two| two[1].at.since(two[0].at).0 / Nanos::SECOND.0);
        sent.collect::<Vec<_>>()
    };
    assert_eq!(gaps(&world)[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    let view = world.shell.engine.views().remove(0);
    assert_eq!((view.holds.breaker.is_open(), view.share_percent), (false, 100));
    assert!(
        view.holds.refused.is_some_and(|refused| refused.refusal == refusal && refused.until > world.now)
    );
    // Other settings may be permitted.
    let asked = world.sent.len();
    world.handle(Input::Change { lane, settings: contract });
    world.run(Nanos::from_secs(2));
    assert_eq!(world.sent.len(), asked + 2);
    world.run(Nanos::HOUR);
    assert_eq!(fates(&world), [Fate::Delivered; 3]);
    assert!(world.shell.store.fates.iter().all(|settled| settled.attempts == 1));
    assert_eq!(world.shell.engine.views().remove(0).holds.refused, None);
}

#[test]
fn refusals_spend_nothing_of_the_contract_and_one_attempt_asks_again() {
    for paced in [false, true] {
        let mut world = World::new(|sent: &Sent| match sent.at {
            at if at < StoreTime(1) + Nanos::MINUTE => {
                Reply { after: QUICK, outcome: Outcome::Unpermitted(Refusal::NoOrigin) }
            }
            _ => status(QUICK, 204),
        });
        let daily = Bucket::new(Rate::new(10, Nanos::DAY).unwrap(), 10).unwrap();
        let window = Window::new(10, Nanos::DAY).unwrap();
        let contract = Contract::new(Some(daily), vec![window], 10).unwrap().paced(paced);
        world.lane(1, &settings(contract), 10);
        world.run(Nanos::MINUTE);
        let first = if paced { 1 } else { 10 };
        assert_eq!(world.sent.len(), first + 5, "after 1, 2, 4, 8, 16 seconds");
        assert!(world.shell.engine.views()[0].level <= 1);
        world.run(Nanos::DAY);
        assert_eq!(fates(&world).len(), 10);
    }
}

#[test]
fn a_refusal_ends_with_the_endpoint_that_gave_it() {
    let asked_of = |key| Arc::new(settings(per_second(10, 5, 1)).as_ref().clone().asking(key));
    let reply = |_: &Sent| Reply { after: QUICK, outcome: Outcome::Unpermitted(Refusal::NoOrigin) };
    for (next, again) in [(Some(1), false), (Some(2), true), (None, true)] {
        let mut world = World::new(reply);
        let lane = world.lane(1, &asked_of(Some(1)), 1);
        world.run(Nanos::HOUR);
        world.handle(Input::Stop);
        world.run(Nanos::SECOND);
        let record = world.shell.records[&lane].clone();
        assert_eq!(record.holds(world.now).refused.map(|refused| refused.permission), Some(Some(1)));
        let mut world = World::new(always(204));
        let origin = Origin::Resumed { record, downtime: Nanos::ZERO };
        world.shell.take(world.now, lane, 2, &asked_of(next), origin);
        world.offer(lane, 1);
        world.run(QUICK);
        assert_eq!(world.sent.len(), usize::from(again), "{next:?}");
        world.run(Nanos::MINUTE.times(5));
        assert_eq!(fates(&world), [Fate::Delivered]);
    }
}

#[test]
fn an_attempt_from_before_a_change_does_not_refuse_the_new_endpoint() {
    let reply = |sent: &Sent| match sent.at {
        StoreTime(1) => Reply { after: Nanos::SECOND, outcome: Outcome::Unpermitted(Refusal::NoOrigin) },
        _ => status(QUICK, 204),
    };
    let mut world = World::new(reply);
    let lane = world.lane(1, &settings(per_second(10, 5, 1)), 1);
    world.run(QUICK);
    let settings = Arc::new(settings(per_second(10, 5, 1)).as_ref().clone().asking(Some(2)));
    world.handle(Input::Change { lane, settings });
    world.run(Nanos::SECOND);
    assert_eq!(world.shell.engine.views()[0].holds.refused, None);
}

#[test]
fn an_expired_delivery_is_not_attempted() {
    let mut world = World::new(always(503));
    let contract = settings_with(per_second(10, 5, 5), no_breaker(), Default::default());
    let lane = world.lane(1, &contract, 0);
    let ttl = Nanos::from_secs(100);
    world.shell.offer(world.now, lane, 5, ttl);
    world.run(Nanos::DAY);
    assert_eq!(fates(&world), [Fate::Dead(Reason::Expired); 5]);
    assert!(world.sent.iter().all(|sent| sent.at < StoreTime(1) + ttl));
}

#[test]
fn gone_disables_the_lane_until_an_operator_resumes_it() {
    let mut codes = vec![204, 410];
    let mut world = World::new(move |_: &Sent| status(QUICK, codes.pop().unwrap_or(204)));
    let lane = world.lane(1, &settings(per_second(10, 1, 1)), 5);
    world.run(Nanos::HOUR);
    assert_eq!(fates(&world), [Fate::Dead(Reason::Gone)]);
    world.handle(Input::Resume { lane });
    world.run(Nanos::HOUR);
    assert_eq!(fates(&world)[1..], [Fate::Delivered; 4]);
}

#[test]
fn the_end_of_doubt_makes_room_while_another_attempt_hangs() {
    let mut ends = vec![silent(Nanos::SECOND), status(Nanos::HOUR, 204)].into_iter();
    let mut world = World::new(move |_: &Sent| ends.next().unwrap_or(status(QUICK, 204)));
    let lane = world.lane(1, &settings_with(per_second(10, 2, 2), no_breaker(), Default::default()), 3);
    world.run(Nanos::from_secs(30 * 60));
    let sent = world.sent_to(lane);
    assert_eq!(sent.len(), 4, "the first, again after its silence, beside the one that hangs: {sent:?}");
}

#[test]
fn a_paused_lane_sends_nothing_and_holds_nothing() {
    let mut world = World::new(always(204));
    let lane = world.lane(1, &settings(per_second(10, 1, 1)), 100);
    world.run(Nanos::SECOND);
    world.handle(Input::Pause { lane });
    let before = world.sent.len();
    world.run(Nanos::HOUR);
    assert_eq!(world.sent.len(), before);
    assert_eq!(world.shell.engine.next_wake(), None);
    world.handle(Input::Resume { lane });
    world.run(Nanos::HOUR);
    assert_eq!(world.sent.len(), 100);
}

#[test]
fn a_lowered_limit_holds_at_once() {
    let mut world = World::new(always(204));
    let lane = world.lane(1, &settings(per_second(100, 50, 50)), 1_000);
    world.run(Nanos::SECOND);
    let before = world.sent.len();
    world.handle(Input::Change { lane, settings: settings(per_second(1, 1, 50)) });
    world.run(Nanos::from_secs(10));
    // The bucket held fifty, and drains by one a second.
    assert_eq!(world.sent.len(), before);
    world.run(Nanos::from_secs(50));
    assert!((8..=11).contains(&(world.sent.len() - before)));
}

#[test]
fn a_raised_rate_holds_at_once_at_an_even_pace_too() {
    let mut world = World::new(always(204));
    let hourly = Contract::new(Some(Bucket::new(Rate::new(1, Nanos::HOUR).unwrap(), 10).unwrap()), vec![], 5);
    let lane = world.lane(1, &settings(hourly.unwrap().paced(true)), 50);
    world.run(Nanos::MINUTE);
    assert_eq!(world.sent.len(), 1);
    assert!(world.shell.engine.views()[0].held <= 1, "it holds no more than it may send soon");
    world.handle(Input::Change { lane, settings: settings(per_second(10, 10, 5).paced(true)) });
    world.run(Nanos::from_secs(6));
    assert_eq!(world.sent.len(), 50);
}

#[test]
fn the_breaker_lets_one_probe_through_per_cooldown() {
    let mut world = World::new(always(500));
    world.lane(1, &settings(per_second(100, 20, 1)), 1_000);
    world.run(Nanos::from_secs(300));
    assert_eq!(world.sent.len(), 10);
    world.run(Nanos::from_secs(10));
    assert_eq!(world.sent.len(), 11);
    world.run(Nanos::from_secs(600 - 20));
    assert_eq!(world.sent.len(), 11);
    world.run(Nanos::from_secs(20));
    assert_eq!(world.sent.len(), 12);
}

#[test]
fn each_turn_of_a_breaker_is_told_once() {
    let mut world = World::new(|sent: &Sent| status(QUICK, if sent.at < at(600) { 500 } else { 204 }));
    let lane = world.lane(1, &settings(per_second(100, 20, 1)), 1_000);
    world.run(Nanos::from_secs(2_000));
    let told: Vec<_> = world.shell.turned.iter().map(|(of, breaker)| (*of, *breaker)).collect();
    let [
        (_, Standing::Open { until: first, opened }),
        (_, Standing::Open { until: second, opened: still }),
        (_, Standing::Closed),
    ] = told[..]
    else {
        panic!("{told:?}")
    };
    assert!(told.iter().all(|(of, _)| *of == lane));
    assert_eq!((still, opened.cause), (opened, Cause::Answered(500)));
    assert_eq!(first.since(opened.since), Nanos::from_secs(300));
    // Ten failures within a few seconds; then five minutes, and ten after the first probe.
    assert!(first > at(300) && first < at(310) && second > first + Nanos::from_secs(600), "{told:?}");
}

fn at(secs: u64) -> StoreTime {
    StoreTime(1) + Nanos::from_secs(secs)
}

#[test]
fn a_recovered_endpoint_gets_its_backlog_within_the_contract() {
    let recovery = StoreTime(1) + Nanos::from_secs(20);
    let mut world = World::new(move |sent: &Sent| status(QUICK, if sent.at < recovery { 503 } else { 204 }));
    let contract = settings_with(per_second(50, 5, 5), no_breaker(), Default::default());
    let lane = world.lane(1, &contract, 500);
    world.run(Nanos::HOUR);
    assert_eq!(fates(&world).len(), 500);
    let sent = world.sent_to(lane);
    for window in sent.windows(6) {
        assert!(window[5].at.since(window[0].at) >= Nanos::from_millis(20), "six at once: {window:?}");
    }
}

#[test]
fn a_lane_with_nothing_to_do_has_no_timer() {
    let mut world = World::new(always(204));
    for lane in 0..100 {
        world.lane(lane, &settings(per_second(10, 2, 2)), 5);
    }
    assert_eq!(world.shell.engine.next_wake(), None);
    world.run(Nanos::MINUTE);
    assert_eq!(world.sent.len(), 500);
    assert_eq!(world.shell.engine.next_wake(), None);
}

#[test]
fn work_that_comes_while_a_claim_is_out_is_not_forgotten() {
    let mut world = World::new(always(204));
    let lane = world.lane(1, &settings(per_second(10, 5, 5)), 0);
    world.pump();
    world.handle(Input::Work { lane, due: world.now });
    let claim = world.shell.engine.poll();
    // The burst, and the rate's share of the next second.
    assert_eq!(claim, Some(Output::Claim { lane, term: Term(1), max: 15 }));
    world.offer(lane, 1);
    world.handle(Input::Claimed { lane, term: Term(1), due: vec![], next: None });
    world.run(Nanos::SECOND);
    assert_eq!(fates(&world), [Fate::Delivered]);
}

#[test]
fn an_answer_without_deliveries_that_promises_some_makes_no_hot_loop() {
    let mut world = World::new(always(204));
    let lane = world.lane(1, &settings(per_second(10, 5, 5)), 0);
    world.pump();
    world.handle(Input::Work { lane, due: world.now });
    assert!(matches!(world.shell.engine.poll(), Some(Output::Claim { .. })));
    world.handle(Input::Claimed { lane, term: Term(1), due: vec![], next: Some(StoreTime::START) });
    assert_eq!(world.shell.engine.poll(), None);
    assert!(world.shell.engine.next_wake().is_some_and(|at| at > world.now));
}

#[test]
fn a_lease_that_ran_out_stops_the_lane_until_it_is_renewed() {
    let mut world = World::new(always(204));
    let lane = world.lane(1, &settings(per_second(10, 1, 1)), 20);
    world.handle(Input::Renew { lane, term: Term(1), until: world.now + Nanos::SECOND });
    world.run(Nanos::HOUR);
    assert!(world.sent.iter().all(|sent| sent.at < StoreTime(1) + Nanos::SECOND));
    let before = world.sent.len();
    world.handle(Input::Renew { lane, term: Term(7), until: StoreTime::NEVER });
    world.run(Nanos::HOUR);
    assert_eq!(world.sent.len(), before, "another owner's renewal is none of ours");
    world.handle(Input::Renew { lane, term: Term(1), until: StoreTime::NEVER });
    world.run(Nanos::HOUR);
    assert_eq!(world.sent.len(), 20);
}

#[test]
fn a_lost_lane_reports_its_successes_and_nothing_else() {
    let mut world = World::new(|sent: &Sent| status(QUICK, if sent.delivery.0 == 0 { 204 } else { 500 }));
    let lane = world.lane(1, &settings(per_second(10, 2, 2)), 2);
    world.pump();
    world.handle(Input::Lose { lane, term: Term(1) });
    world.run(Nanos::MINUTE);
    assert_eq!(fates(&world), [Fate::Delivered]);
    assert_eq!(world.shell.store.waiting(lane), 1);
    assert_eq!(world.sent.len(), 2);
}

#[test]
fn a_stopped_engine_ends_what_is_under_way_and_gives_its_lanes_back() {
    let mut world = World::new(|_: &Sent| status(Nanos::SECOND, 204));
    let lanes: Vec<_> = (0..3).map(|lane| world.lane(lane, &settings(per_second(10, 4, 4)), 10)).collect();
    world.pump();
    world.handle(Input::Stop);
    world.run(Nanos::from_millis(500));
    assert!(!world.shell.engine.is_at_rest());
    world.run(Nanos::MINUTE);
    assert!(world.shell.engine.is_at_rest());
    assert_eq!((world.sent.len(), fates(&world).len()), (12, 12));
    assert!(lanes.iter().all(|lane| world.shell.records[lane].is_final()));
}

#[test]
fn a_clean_stop_keeps_the_burst_and_a_crash_does_not() {
    let contract = settings(per_second(1, 10, 10));
    let sent_at_once = |origin: Origin| {
        let mut world = World::new(always(204));
        world.now = StoreTime(1) + Nanos::HOUR;
        world.shell.take(world.now, LaneId(1), 2, &contract, origin);
        world.offer(LaneId(1), 20);
        world.run(Nanos::from_millis(500));
        world.sent.len()
    };
    let mut first = World::new(always(204));
    let lane = first.lane(1, &contract, 4);
    first.run(Nanos::from_millis(500));
    first.handle(Input::Stop);
    first.pump();
    let record = first.shell.records[&lane].clone();
    let resumed = |downtime| Origin::Resumed { record: record.clone(), downtime };
    assert_eq!(sent_at_once(resumed(Nanos::ZERO)), 6);
    assert_eq!(sent_at_once(resumed(Nanos::from_secs(2))), 8);
    let seized = Origin::Seized { record: Some(record), downtime: Nanos::ZERO, ended: vec![] };
    assert_eq!(sent_at_once(seized), 0);
}

#[test]
fn words_that_come_too_late_change_nothing() {
    let mut world = World::new(always(204));
    let lane = world.lane(1, &settings(per_second(10, 1, 1)), 1);
    world.pump();
    let attempt = world.sent[0].attempt;
    world.run(Nanos::SECOND);
    world.handle(Input::Ended { attempt, outcome: Outcome::Silent });
    world.handle(Input::Lose { lane, term: Term(0) });
    world.handle(Input::Claimed { lane, term: Term(0), due: vec![], next: Some(StoreTime::START) });
    world.handle(Input::Work { lane: LaneId(99), due: StoreTime::START });
    world.handle(Input::Leave { lane: LaneId(99) });
    world.shell.take(world.now, lane, 1, &settings(per_second(1, 1, 1)), Origin::Fresh);
    assert_eq!(world.shell.engine.poll(), None);
    world.offer(lane, 1);
    world.run(Nanos::SECOND);
    assert_eq!(fates(&world), [Fate::Delivered; 2]);
    assert_eq!(world.shell.store.settled_before, 0);
}

#[test]
fn time_that_runs_backwards_stands_still() {
    let mut world = World::new(always(204));
    let contract = Arc::clone(&settings(per_second(10, 1, 1)));
    world.now = StoreTime(1) + Nanos::HOUR;
    world.lane(1, &contract, 3);
    world.pump();
    world.shell.engine.handle(StoreTime(5), Input::Tick);
    world.run(Nanos::SECOND);
    assert_eq!(fates(&world), [Fate::Delivered; 3]);
}

#[test]
fn pressure_slows_a_lane_down_within_its_contract() {
    let mut world = World::new(always(429));
    let contract = settings_with(per_second(100, 100, 1), no_breaker(), Default::default());
    world.lane(1, &contract, 1_000);
    world.run(Nanos::from_secs(10));
    let early = world.sent.len();
    world.run(Nanos::from_secs(50));
    let late = world.sent.len() - early;
    assert!(late < 10, "{early} in ten seconds, then {late} in fifty, where the contract allows 5,000");
}

#[test]
fn a_waiting_lane_gets_room_although_others_were_woken_in_vain() {
    let limits = Limits::new(4, 1_000).unwrap();
    let mut world = World::with_engine(Engine::new(1, limits), |sent: &Sent| match sent.lane.0 {
        4 => status(Nanos::MINUTE, 204),
        lane => status(Nanos::from_millis(lane * 100), 204),
    });
    let contract = settings(per_second(1_000, 100, 100));
    for lane in 1..=3 {
        world.lane(lane, &contract, 1);
    }
    let busy = world.lane(4, &contract, 100);
    world.run(Nanos::SECOND);
    assert_eq!(world.sent_to(busy).len(), 4, "all the room there is");
}

#[test]
fn a_paused_lane_gives_back_its_window_though_there_is_no_room() {
    let limits = Limits::new(1, 1_000).unwrap();
    let mut world = World::with_engine(Engine::new(1, limits), |_: &Sent| status(Nanos::MINUTE, 204));
    let lane = world.lane(1, &settings(per_second(10, 10, 10)), 10);
    world.shell.outputs = Some(vec![]);
    world.pump();
    world.handle(Input::Pause { lane });
    world.pump();
    let released = world.shell.outputs.iter().flatten().filter_map(|output| match output {
        Output::Settle { settlements, .. } => Some(settlements.len()),
        _ => None,
    });
    assert_eq!(released.sum::<usize>(), 9);
}

#[test]
fn batches_are_cut_and_releases_hold_nothing_up() {
    let mut world = World::with_engine(Engine::new(1, Limits::new(100, 10).unwrap()), |_: &Sent| {
        status(Nanos::MINUTE, 204)
    });
    world.shell.outputs = Some(vec![]);
    let lanes: Vec<_> =
        (0..20).map(|lane| world.lane(lane, &settings(per_second(1_000, 1_000, 1)), 300)).collect();
    world.pump();
    world.shell.store_is_stuck = true;
    lanes.iter().for_each(|lane| world.handle(Input::Pause { lane: *lane }));
    world.pump();
    let batches = world.shell.outputs.iter().flatten().filter_map(|output| match output {
        Output::Settle { settlements, .. } => Some(settlements.len()),
        _ => None,
    });
    let batches: Vec<_> = batches.collect();
    assert!(batches.len() > 1 && batches.iter().all(|batch| *batch <= 1_024), "{batches:?}");
    let healthy = world.lane(99, &settings(per_second(1_000, 1_000, 1)), 1);
    world.pump();
    assert_eq!(world.sent_to(healthy).len(), 1);
}

#[test]
fn a_retry_after_to_one_owner_binds_the_next() {
    let mut replies = vec![busy(QUICK, 429, "3600")];
    let mut world = World::new(move |_: &Sent| replies.pop().unwrap_or_else(|| status(QUICK, 204)));
    let contract = settings(per_second(10, 4, 1));
    let lane = world.lane(1, &contract, 2);
    world.pump();
    world.handle(Input::Lose { lane, term: Term(1) });
    world.shell.store.let_go(lane);
    world.shell.take(
        world.now,
        lane,
        2,
        &contract,
        Origin::Seized { record: None, downtime: Nanos::ZERO, ended: vec![] },
    );
    world.run(Nanos::DAY);
    assert_eq!(world.sent[1].at, StoreTime(1) + QUICK + Nanos::HOUR);
}
