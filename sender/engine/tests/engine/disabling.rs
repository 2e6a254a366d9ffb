//! A lane is disabled after days of nothing but failures, by a model that knows only the definition.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use hookproof_engine::engine::breaker::{BreakerPolicy, Cause, Disabled};
use hookproof_engine::engine::{Engine, Input, LaneId, Limits, Nanos, Origin, Retried, Settings, StoreTime};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::shell::{Sent, per_second, settings_with};
use crate::world::{Reply, World, busy, status};

const LANE: LaneId = LaneId(1);
const LIMIT: Nanos = Nanos::from_secs(6 * 3_600);
const FAILURES: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Answer(u16, Nanos),
    /// The delivery expires soon.
    Idle(u16, Nanos),
    Pause(Nanos),
    Ask,
    Restart {
        killed: bool,
        absent: Nanos,
        proved: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Success,
    Failure,
    Busy,
    Asked,
    Restarted { unproved: Nanos },
}

/// By the definition: after the failure that opens the breaker, each failure adds the time since the one before it, at
/// most `gap_max`.
fn is_over(facts: &[(StoreTime, Fact)], gap_max: Nanos) -> bool {
    let (mut in_a_row, mut since, mut sum) = (0, None::<StoreTime>, Nanos::ZERO);
    for (at, fact) in facts {
        match fact {
            Fact::Success => (in_a_row, since, sum) = (0, None, Nanos::ZERO),
            Fact::Busy => {}
            Fact::Asked => (since, sum) = (since.map(|_| *at), Nanos::ZERO),
            // A closed breaker counts anew. Time that cannot be proved does not pass.
            Fact::Restarted { unproved } => match &mut since {
                Some(since) => *since = *since + *unproved,
                None => in_a_row = 0,
            },
            Fact::Failure => {
                in_a_row += 1;
                match since {
                    Some(before) => (since, sum) = (Some(*at), sum + at.since(before).min(gap_max)),
                    None if in_a_row == FAILURES => since = Some(*at),
                    None => {}
                }
            }
        }
    }
    sum >= LIMIT && matches!(facts.last(), Some((_, Fact::Failure)))
}

struct Game<F> {
    world: World<F>,
    settings: Arc<Settings>,
    answer: Rc<Cell<u16>>,
    facts: Rc<RefCell<Vec<(StoreTime, Fact)>>>,
    term: u64,
    asked: u64,
    is_disabled: bool,
}

fn begin() -> Game<impl FnMut(&Sent) -> Reply> {
    let breaker = BreakerPolicy::new(FAILURES, FAILURES, Nanos::DAY, Nanos::MINUTE, Nanos::HOUR).unwrap();
    let breaker = breaker.with_disable_after(LIMIT).unwrap();
    let settings = settings_with(per_second(10, 10, 1), breaker, Default::default());
    let (facts, answer) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(500)));
    let (log, present) = (Rc::clone(&facts), Rc::clone(&answer));
    let mut world = World::new(move |sent: &Sent| {
        let (fact, reply) = match present.get() {
            200 => (Fact::Success, status(Nanos::ZERO, 200)),
            429 => (Fact::Busy, busy(Nanos::ZERO, 429, "600")),
            code => (Fact::Failure, status(Nanos::ZERO, code)),
        };
        log.borrow_mut().push((sent.at, fact));
        reply
    });
    world.shell.take(world.now, LANE, 1, &settings, Origin::Fresh);
    world.run(Nanos::ZERO);
    Game { world, settings, answer, facts, term: 1, asked: 0, is_disabled: false }
}

impl<F: FnMut(&Sent) -> Reply> Game<F> {
    fn step(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Answer(code, length) => {
                self.answer.set(code);
                world.offer(LANE, 3);
                world.run(length);
            }
            Step::Idle(code, length) => {
                self.answer.set(code);
                world.shell.offer(world.now, LANE, 1, Nanos::SECOND);
                world.run(length);
            }
            // The dispatcher neither resumes a disabled lane nor takes it over unpaused.
            Step::Pause(_) | Step::Restart { .. } if self.is_disabled => {}
            Step::Pause(length) => {
                world.handle(Input::Pause { lane: LANE });
                world.run(length);
                world.handle(Input::Resume { lane: LANE });
                world.run(Nanos::ZERO);
            }
            Step::Ask => {
                self.facts.borrow_mut().push((world.now, Fact::Asked));
                self.asked += 1;
                world.handle(Input::Resume { lane: LANE });
                let asked = Retried { asked: self.asked, insisted: self.asked };
                world.handle(Input::Retry { lane: LANE, asked });
                self.is_disabled = false;
                world.run(Nanos::ZERO);
            }
            Step::Restart { killed, absent, proved } => self.restart(killed, absent, proved),
        }
    }

    fn restart(&mut self, killed: bool, absent: Nanos, proved: bool) {
        let world = &mut self.world;
        if !killed {
            world.handle(Input::Stop);
            world.pump();
        }
        let record = world.shell.records[&LANE].clone();
        world.shell.replace(Engine::new(self.term, Limits::default()));
        world.shell.store.let_go(LANE);
        // A record may be older than its owner's end.
        let passed = absent + world.now.since(record.taken_at());
        world.now = world.now + absent;
        let (downtime, unproved) = if proved { (passed, Nanos::ZERO) } else { (Nanos::ZERO, passed) };
        self.facts.borrow_mut().push((world.now, Fact::Restarted { unproved }));
        let origin = if killed {
            Origin::Seized { record: Some(record), downtime, ended: vec![] }
        } else {
            Origin::Resumed { record, downtime }
        };
        self.term += 1;
        world.shell.take(world.now, LANE, self.term, &self.settings, origin);
        world.run(Nanos::ZERO);
    }
}

/// Returns whether the lane was ever disabled, and fails where the model decides otherwise.
fn play(steps: &[Step], gap_max: Nanos) -> Result<bool, String> {
    let (mut game, mut times) = (begin(), 0);
    for step in steps {
        let seen = game.facts.borrow().len();
        game.step(*step);
        let disabled = &game.world.shell.store.disabled;
        let last = Disabled { after: LIMIT, last: Cause::Answered(500) };
        assert!(disabled.iter().all(|disabled| *disabled == last));
        let found = disabled.len() - times;
        let facts = game.facts.borrow();
        let ends: Vec<_> = (seen..facts.len()).filter(|end| is_over(&facts[..=*end], gap_max)).collect();
        let expected = usize::from(!ends.is_empty());
        if found != expected || ends.first().is_some_and(|end| *end + 1 != facts.len()) {
            return Err(format!(
                "{step:?}: disabled {found} times, by the model {ends:?} of {}",
                facts.len()
            ));
        }
        times += found;
        game.is_disabled |= found > 0;
    }
    Ok(times > 0)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = || (1_u64..10_000).prop_map(Nanos::from_secs);
    let long = || (1_u64..1_000_000).prop_map(Nanos::from_secs);
    let code = || prop_oneof![1 => Just(200), 20 => Just(500), 2 => Just(429)];
    let step = prop_oneof![
        8 => (code(), length()).prop_map(|(code, length)| Step::Answer(code, length)),
        3 => (code(), long()).prop_map(|(code, length)| Step::Idle(code, length)),
        1 => long().prop_map(Step::Pause),
        1 => Just(Step::Ask),
        2 => (any::<bool>(), long(), any::<bool>())
            .prop_map(|(killed, absent, proved)| Step::Restart { killed, absent, proved }),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn a_lane_is_disabled_exactly_when_the_definition_says_so(steps in steps()) {
        if let Err(problem) = play(&steps, Nanos::HOUR) {
            return Err(TestCaseError::fail(problem));
        }
    }
}

#[test]
fn histories_disable_and_a_rule_that_counts_idle_time_disagrees() {
    let mut runner = TestRunner::deterministic();
    let histories: Vec<_> = (0..100).map(|_| steps().new_tree(&mut runner).unwrap().current()).collect();
    let disabled = histories.iter().filter(|steps| play(steps, Nanos::HOUR).unwrap()).count();
    let wrong = histories.iter().filter(|steps| play(steps, Nanos(u64::MAX)).is_err()).count();
    assert!((10..90).contains(&disabled), "{disabled}");
    assert!(wrong >= 10, "{wrong}");
}

#[test]
fn a_mended_endpoint_is_never_disabled_and_off_means_never() {
    let day = Nanos::DAY;
    let opened = [Step::Answer(500, Nanos::HOUR)];
    for silence in
        [Step::Pause(day.times(30)), Step::Restart { killed: true, absent: day.times(30), proved: true }]
    {
        let mended = [&opened[..], &[silence, Step::Answer(200, Nanos::HOUR)]].concat();
        assert_eq!(play(&mended, Nanos::HOUR), Ok(false), "{silence:?}");
        let once_more = [&opened[..], &[silence, Step::Answer(500, Nanos::HOUR)]].concat();
        assert_eq!(play(&once_more, Nanos::HOUR), Ok(false), "{silence:?}");
    }
    assert_eq!(play(&[Step::Answer(500, day)], Nanos::HOUR), Ok(true));
    let never = BreakerPolicy::default().with_disable_after(Nanos::ZERO).unwrap();
    let mut world = World::new(|_: &Sent| status(Nanos::ZERO, 500));
    world.lane(1, &settings_with(per_second(10, 10, 1), never, Default::default()), 500);
    world.run(day.times(20));
    assert_eq!(world.shell.store.disabled, []);
}
