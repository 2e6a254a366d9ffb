use hookproof_engine::engine::{Input, LaneId, Nanos, Origin, Outcome, StoreTime};
use proptest::prelude::*;

use crate::shell::{Sent, no_breaker, per_second, settings, settings_with};
use crate::world::{Reply, World, answer, busy, status};

const QUICK: Nanos = Nanos::from_millis(10);

fn first_then_well(mut first: Option<Reply>) -> impl FnMut(&Sent) -> Reply {
    move |_| first.take().unwrap_or_else(|| status(QUICK, 204))
}

fn sent_after(first: Reply, run: Nanos) -> Vec<StoreTime> {
    let mut world = World::new(first_then_well(Some(first)));
    world.lane(1, &settings(per_second(10, 1, 10)), 50);
    world.run(run);
    world.sent[1..].iter().map(|sent| sent.at).collect()
}

/// A world begins at 1 ns, and its first answer comes 10 ms later.
fn answered() -> StoreTime {
    StoreTime(1) + QUICK
}

#[test]
fn retry_after_is_kept_to_the_nanosecond() {
    let rows = [
        (429, "3", Nanos::from_secs(3)),
        (503, "3", Nanos::from_secs(3)),
        (429, "3600", Nanos::HOUR),
        // The wall clock of these worlds starts at Fri, 15 Jan 2027 08:00:00.
        (503, "Fri, 15 Jan 2027 08:00:07 GMT", Nanos::from_secs(7)),
        (429, "Friday, 15-Jan-27 08:00:07 GMT", Nanos::from_secs(7)),
        (429, "Fri Jan 15 08:00:07 2027", Nanos::from_secs(7)),
        (429, "99999999999999999999", Nanos::DAY),
    ];
    for (code, value, pause) in rows {
        let sent = sent_after(busy(QUICK, code, value), Nanos::DAY + Nanos::HOUR);
        assert_eq!(sent[0], answered() + pause, "{code} with Retry-After: {value}");
    }
}

#[test]
fn without_a_pause_that_makes_sense_the_endpoint_is_not_paused() {
    let rows = [(429, "0"), (429, "inf"), (429, "-5"), (503, "1e300"), (503, ""), (500, "3"), (301, "3")];
    for (code, value) in rows {
        let sent = sent_after(busy(QUICK, code, value), Nanos::MINUTE);
        assert!(sent[0] < answered() + Nanos::SECOND, "{code} with Retry-After: {value}");
        assert_eq!(sent.len(), 50, "{code} with Retry-After: {value}: all others, and this one again");
    }
}

#[test]
fn the_pause_covers_the_endpoint_and_no_other() {
    let mut world = World::new(|sent: &Sent| match sent.lane {
        LaneId(1) => busy(QUICK, 429, "30"),
        _ => status(QUICK, 204),
    });
    let settings = settings(per_second(10, 1, 10));
    let paused = world.lane(1, &settings, 50);
    let other = world.lane(2, &settings, 50);
    world.run(Nanos::from_secs(20));
    assert_eq!((world.sent_to(paused).len(), world.sent_to(other).len()), (1, 50));
}

#[test]
fn a_shorter_pause_does_not_cut_a_longer_one() {
    let mut answers = vec![busy(Nanos::from_millis(20), 429, "1"), busy(QUICK, 429, "60")];
    let mut world = World::new(move |_: &Sent| answers.pop().unwrap_or_else(|| status(QUICK, 204)));
    world.lane(1, &settings(per_second(10, 2, 10)), 2);
    world.run(Nanos::HOUR);
    assert_eq!(world.sent[2].at, StoreTime(1) + QUICK + Nanos::MINUTE);
}

#[test]
fn a_pause_outlives_its_process_in_order_or_not() {
    let settings = settings_with(per_second(10, 20, 1), no_breaker(), Default::default());
    for (how, kill) in [("stopped", false), ("killed", true)] {
        let mut world = World::new(|_: &Sent| busy(QUICK, 429, "60"));
        let lane = world.lane(1, &settings, 5);
        world.run(Nanos::SECOND);
        if !kill {
            world.handle(Input::Stop);
            world.pump();
            assert!(world.shell.engine.is_at_rest());
        }
        let record = world.shell.records[&lane].clone();
        assert_eq!(record.is_final(), !kill);
        // Twenty seconds pass between checkpoint and takeover; fifteen of them are proved.
        let downtime = Nanos::from_secs(15);
        let origin = if kill {
            Origin::Seized { record: Some(record), downtime, ended: vec![] }
        } else {
            Origin::Resumed { record, downtime }
        };
        let mut next = World::new(|_: &Sent| status(QUICK, 204));
        next.shell.take(next.now, lane, 2, &settings, origin);
        next.offer(lane, 1);
        next.run(Nanos::HOUR);
        let waited = next.sent[0].at.since(StoreTime(1));
        let left = if kill { Nanos::from_secs(45) } else { Nanos::from_millis(59_010 - 15_000) };
        assert_eq!(waited, left, "{how}");
    }
}

proptest! {
    /// No request starts while a pause lasts that the sender knew.
    #[test]
    fn no_request_goes_out_during_a_pause(
        answers in prop::collection::vec((1_u64..3_000, prop::option::of(0_u64..90)), 1..40),
        burst in 1_u32..10,
    ) {
        let mut turn = answers.iter().cycle();
        let mut pauses = vec![];
        let mut world = World::new(|sent: &Sent| {
            let (millis, pause) = turn.next().unwrap();
            let after = Nanos::from_millis(*millis);
            let Some(seconds) = pause else { return status(after, 204) };
            let known = sent.at + after;
            pauses.push((known, known + Nanos::from_secs(*seconds)));
            let outcome = Outcome::Answered(answer(429, Some(&seconds.to_string())));
            Reply { after, outcome }
        });
        world.lane(1, &settings(per_second(5, burst, 10)), 100);
        world.run(Nanos::HOUR);
        let sent = std::mem::take(&mut world.sent);
        drop(world);
        for request in sent {
            for (known, until) in &pauses {
                prop_assert!(request.at < *known || request.at >= *until, "{request:?} in {known:?} to {until:?}");
            }
        }
    }
}
