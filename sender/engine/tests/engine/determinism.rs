use std::hash::{DefaultHasher, Hash, Hasher};

use hookproof_engine::engine::{Engine, Input, Limits, Nanos};

use crate::shell::{Sent, no_breaker, per_second, settings_with};
use crate::world::{Reply, World, busy, silent, status};

/// A busy minute of a hundred lanes.
fn outputs(seed: u64) -> String {
    let mut world = World::with_engine(Engine::new(seed, Limits::default()), eventful);
    world.shell.outputs = Some(vec![]);
    let settings = settings_with(per_second(20, 10, 5), no_breaker(), Default::default());
    let lanes: Vec<_> = (0..100).map(|lane| world.lane(lane, &settings, 50)).collect();
    for lane in lanes {
        world.run(Nanos::from_millis(500));
        world.handle(Input::Pause { lane });
        world.run(Nanos::from_millis(100));
        world.handle(Input::Resume { lane });
    }
    world.handle(Input::Stop);
    world.run(Nanos::MINUTE);
    assert!(world.shell.engine.is_at_rest());
    world.shell.outputs.iter().flatten().map(|output| format!("{output:?}\n")).collect()
}

fn eventful(sent: &Sent) -> Reply {
    let mut hasher = DefaultHasher::new();
    (sent.lane, sent.delivery, sent.number).hash(&mut hasher);
    let chance = hasher.finish();
    let after = Nanos::from_millis(chance / 100 % 400);
    match chance % 10 {
        0 => silent(after),
        1 => busy(after, 429, "2"),
        2 | 3 => status(after, 503),
        _ => status(after, 204),
    }
}

#[test]
fn the_same_seed_gives_the_same_outputs_byte_for_byte() {
    let first = outputs(1);
    assert!(first.lines().count() > 5_000);
    assert!(first == outputs(1));
}

#[test]
fn another_seed_gives_others() {
    assert!(outputs(1) != outputs(2));
}
