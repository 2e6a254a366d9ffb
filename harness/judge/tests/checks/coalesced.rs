use hookproof_judge::check::Status;
use hookproof_judge::trace::Trace;

use crate::build;

const MILLI: u64 = 1_000_000;
const RULE: &str = "coalesce = [{ type = \"video.rank\", window = \"1s\" }]";

/// An event: its key, when it was offered and acknowledged, and whether it arrived.
struct Event(&'static str, u64, u64, bool);

#[track_caller]
fn none_is_lost(events: &[Event], expected: Status) {
    build::check("loss.none", RULE, run(events), expected);
}

fn run(events: &[Event]) -> impl Fn(&mut Trace) {
    move |trace| {
        for (token, Event(key, offered, acknowledged, came)) in (3..).zip(events) {
            build::offer(trace, token, offered * MILLI, &["a"]);
            let offer = trace.offers.last_mut().expect("an offer");
            (offer.kind, offer.key) = ("video.rank".into(), (*key).into());
            trace.accepted.last_mut().expect("its answer").t = acknowledged * MILLI;
            if *came {
                build::deliver(trace, "a", token, 20_000 * MILLI, 204);
            }
        }
        build::end(trace, 30_000 * MILLI);
    }
}

#[track_caller]
fn check(events: &[Event], more: &str, expected: Status) {
    build::check("coalesce.window", &format!("{RULE}\n{more}"), run(events), expected);
}

#[test]
fn of_events_within_one_window_two_may_come_and_not_three() {
    let at = |ms: u64, came: bool| Event("v", 5_000 + ms, 5_000 + ms, came);
    check(&[at(0, false), at(300, true), at(500, true)], "", Status::Pass);
    check(&[at(0, true), at(300, true), at(500, true)], "", Status::Warn);
    // The events may fall into three windows, or are too few to tell.
    check(&[at(0, true), at(300, true), at(1_001, true)], "", Status::Inconclusive);
    check(&[at(0, true), at(300, true)], "", Status::Inconclusive);
}

#[test]
fn each_key_has_windows_of_its_own() {
    let at = |key: &'static str, ms: u64| Event(key, 5_000 + ms, 5_000 + ms, true);
    check(&[at("v", 0), at("w", 10), at("v", 20), at("w", 30)], "", Status::Inconclusive);
    check(&[at("v", 0), at("w", 10), at("v", 20), at("v", 30)], "", Status::Warn);
}

#[test]
fn an_event_may_have_been_taken_as_late_as_it_was_acknowledged() {
    let early = || [Event("v", 5_000, 5_000, true), Event("v", 5_100, 5_100, true)];
    let [one, two] = early();
    check(&[one, two, Event("v", 5_200, 5_700, true)], "", Status::Warn);
    let [one, two] = early();
    check(&[one, two, Event("v", 5_200, 6_100, true)], "", Status::Inconclusive);
}

#[test]
fn nothing_is_asked_where_nobody_coalesces_or_a_clock_steps() {
    let three = || [0, 1, 2].map(|ms| Event("v", 5_000 + ms, 5_000 + ms, true));
    build::check("coalesce.window", "", run(&three()), Status::NotApplicable);
    let step = "[[fault]]\nat = \"1s\"\ndo = \"clock-step\"\nby = \"-1h\"";
    check(&three(), step, Status::NotApplicable);
}

#[test]
fn of_events_that_were_offered_at_the_same_time_either_may_have_been_taken_last() {
    let second = || Event("v", 5_100, 5_200, false);
    // The first event arrived. It was acknowledged after the second was offered, or at that moment.
    none_is_lost(&[Event("v", 5_000, 5_900, true), second()], Status::Pass);
    none_is_lost(&[Event("v", 5_000, 5_100, true), second()], Status::Pass);
    none_is_lost(&[Event("v", 5_000, 5_099, true), second()], Status::Fail);
    none_is_lost(&[Event("v", 5_000, 5_900, false), second()], Status::Fail);
    none_is_lost(&[Event("w", 5_000, 5_900, true), second()], Status::Fail);
    // An unacknowledged event may have been accepted long before.
    let unanswered = |trace: &mut Trace| {
        run(&[Event("v", 5_000, 5_900, true), second()])(trace);
        trace.accepted.retain(|one| one.t != 5_900 * MILLI);
    };
    build::check("loss.none", RULE, unanswered, Status::Fail);
    none_is_lost(&[second(), Event("v", 5_900, 7_000, true)], Status::Pass);
    none_is_lost(&[second(), Event("v", 6_900, 7_000, true)], Status::Fail);
}
