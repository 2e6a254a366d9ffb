use hookproof_engine::engine::{Engine, LaneId, Limits, Nanos, StoreTime};

use crate::shell::{Sent, per_second, settings};
use crate::world::{Reply, World, silent, status};

const HUNG: u64 = 1;
const QUICK: Nanos = Nanos::from_millis(10);
const TIMEOUT: Nanos = Nanos::from_secs(8);

fn some_hang(hung: u64) -> impl FnMut(&Sent) -> Reply {
    move |sent| if sent.lane.0 <= hung { silent(TIMEOUT) } else { status(QUICK, 204) }
}

/// When a lane sent its attempts: alone, and beside `hung` hung lanes.
fn healthy_alone_and_beside(hung: u64, backlog: u64, limits: Limits) -> [Vec<StoreTime>; 2] {
    [0, hung].map(|hung| {
        let mut world = World::with_engine(Engine::new(1, limits), some_hang(hung));
        let settings = settings(per_second(50, 20, 10));
        for lane in 1..=hung {
            world.lane(lane, &settings, backlog);
        }
        let healthy = world.lane(hung + 1, &settings, 500);
        world.run(Nanos::from_secs(12));
        world.sent_to(healthy).iter().map(|sent| sent.at).collect()
    })
}

#[test]
fn a_million_deliveries_to_a_hung_endpoint_delay_no_other_lane() {
    let [alone, beside] = healthy_alone_and_beside(HUNG, 1_000_000, Limits::default());
    assert_eq!(alone.len(), 500);
    assert_eq!(alone, beside);
}

#[test]
fn hundreds_of_hung_endpoints_delay_no_other_lane() {
    let [alone, beside] = healthy_alone_and_beside(500, 100, Limits::default());
    assert_eq!(alone, beside);
}

#[test]
fn at_the_bound_on_all_attempts_every_lane_still_has_one() {
    let limits = Limits::new(20, 1_000).unwrap();
    let mut world = World::with_engine(Engine::new(1, limits), some_hang(30));
    let settings = settings(per_second(50, 20, 10));
    for lane in 1..=30 {
        world.lane(lane, &settings, 100);
    }
    world.run(Nanos::from_millis(1));
    let healthy = world.lane(31, &settings, 200);
    world.run(Nanos::from_secs(5));
    assert!(world.shell.engine.attempts() <= 20 + 31);
    assert_eq!(world.sent_to(healthy).len(), 200, "one at a time, each answered before the next");
    assert!((1..=30).all(|lane| !world.sent_to(LaneId(lane)).is_empty()));
}

#[test]
fn lanes_take_turns() {
    let mut world = World::new(|_: &Sent| status(QUICK, 204));
    let settings = settings(per_second(1_000, 100, 100));
    for lane in 1..=10 {
        world.lane(lane, &settings, 50);
    }
    world.pump();
    let lanes: Vec<_> = world.sent.iter().map(|sent| sent.lane.0).collect();
    for turn in lanes.chunks(10) {
        let mut turn = turn.to_vec();
        turn.sort_unstable();
        assert_eq!(turn, (1..=10).collect::<Vec<_>>());
    }
}

#[test]
fn a_stuck_store_stops_the_engine_at_a_bound_and_lets_it_go_on() {
    let limits = Limits::new(1_000, 100).unwrap();
    let mut world = World::with_engine(Engine::new(1, limits), |_: &Sent| status(QUICK, 204));
    let lane = world.lane(1, &settings(per_second(10_000, 5_000, 64)), 5_000);
    world.shell.store_is_stuck = true;
    world.run(Nanos::MINUTE);
    let made = world.sent_to(lane).len();
    assert!((100..=100 + 64).contains(&made), "{made} attempts without a word from the store");
    world.shell.store_is_stuck = false;
    world.answer_settled();
    world.run(Nanos::MINUTE);
    assert_eq!(world.sent_to(lane).len(), 5_000);
}
