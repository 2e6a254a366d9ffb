use hookproof_judge::check::Status;
use hookproof_judge::trace::{ClockSet, Depth, End, Ended, Lack, Record, Retained, Trace, Writer};

use crate::build::{self, check};
use crate::excuses::{empty, exchange};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn set(trace: &mut Trace, from: u64) {
    let (until, ns) = (from + 4 * MS, 10_000_000_000);
    trace.host.clock_sets.push(ClockSet { from, until, ns });
}

fn stamp(trace: &mut Trace, n: usize) {
    let seconds = trace.arrivals[n].t / SECOND + 10;
    trace.arrivals[n].signed.timestamp = Some(seconds.to_string().into());
}

#[test]
fn a_timestamp_says_nothing_from_then_on() {
    let id = "format.timestamp";
    let rows: [(&[usize], Option<u64>, Status); 6] = [
        (&[1, 2], None, Status::Fail),
        (&[1, 2], Some(3 * SECOND / 2), Status::Inconclusive),
        (&[0, 1, 2], Some(3 * SECOND / 2), Status::Fail),
        (&[2], Some(7 * SECOND / 2), Status::Fail),
        (&[], Some(3 * SECOND / 2), Status::Inconclusive),
        (&[], Some(7 * SECOND / 2), Status::Pass),
    ];
    for (stamped, at, expected) in rows {
        let change = |trace: &mut Trace| {
            stamped.iter().for_each(|n| stamp(trace, *n));
            at.into_iter().for_each(|at| set(trace, at));
        };
        check(id, "", change, expected);
    }
}

#[test]
fn timestamps_ahead_on_another_machine_are_inconclusive() {
    let remote = |trace: &mut Trace| {
        trace.declared.lacks = vec![Lack::Start];
        [1, 2].into_iter().for_each(|n| stamp(trace, n));
        set(trace, 3 * SECOND / 2);
    };
    check("format.timestamp", "", remote, Status::Inconclusive);
}

#[test]
fn a_pause_until_a_date_says_nothing_from_then_on() {
    let dated = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 503\nretry_after_date = \"4s\"";
    let scenario = build::scenario_with(dated);
    let rows = [(None, Status::Fail), (Some(2), Status::Inconclusive), (Some(4), Status::Fail)];
    for (at, expected) in rows {
        let mut trace = empty(&scenario);
        build::offer(&mut trace, 0, 0, &["a"]);
        exchange(&mut trace, (0, SECOND), SECOND, 503, Some("Thu, 01 Jan 1970 00:00:05 GMT"));
        exchange(&mut trace, (0, 3 * SECOND), 3 * SECOND, 204, None);
        build::end(&mut trace, 30 * SECOND);
        at.into_iter().for_each(|at| set(&mut trace, at * SECOND));
        build::verdict("retry.after-date", &scenario, &trace, expected);
    }
}

#[test]
fn an_age_says_nothing_from_then_on_and_a_size_does() {
    let bounds = "[expect]\nkept = { age = \"2s\", bytes = \"1MB\" }";
    let kept = |age: u64, bytes: u64, at: Option<u64>| {
        move |trace: &mut Trace| {
            let (t, oldest_unix_ns) = (6 * SECOND, Some(6 * SECOND - age * SECOND));
            let kept = Some(Retained { listed: true, oldest_unix_ns, disk_bytes: Some(bytes) });
            trace.depths.push(Depth { t, kept, ..Depth::default() });
            build::end(trace, t + SECOND);
            at.into_iter().for_each(|at| set(trace, at * SECOND));
        }
    };
    let id = "queue.retention";
    check(id, bounds, kept(3, 900_000, None), Status::Fail);
    check(id, bounds, kept(3, 900_000, Some(5)), Status::Inconclusive);
    check(id, bounds, kept(1, 900_000, Some(5)), Status::Inconclusive);
    check(id, bounds, kept(1, 900_000, Some(7)), Status::Pass);
    check(id, bounds, kept(1, 2_000_000, Some(5)), Status::Fail);
}

#[test]
fn that_it_was_set_is_written_and_read() {
    let scenario = build::scenario("rate = \"10/s\"");
    let mut trace = empty(&scenario);
    set(&mut trace, SECOND);
    let mut writer = Writer::new(Vec::new(), build::header(&scenario.text)).expect("memory");
    writer.write(&Record::ClockSet(trace.host.clock_sets[0].clone())).expect("memory");
    let end = End { t: 2 * SECOND, ended: Ended::Done, dead_listed: false, late: 0, dropped: 0 };
    let read = Trace::read(&writer.finish(end).expect("memory")[..]).expect("a trace");
    assert_eq!(read.host.clock_sets, trace.host.clock_sets);
}
