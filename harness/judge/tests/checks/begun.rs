use hookproof_judge::check::Status;
use hookproof_judge::trace::{Cut, CutKind, Public, SharedSecret, Stray, StrayKind, Trace};

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;

/// `count` requests come at 2.5 s, and break off or are malformed.
fn broken_off(count: u64, how: CutKind) -> impl Fn(&mut Trace) {
    move |trace| {
        let began = Some(5 * SECOND / 2);
        let cut =
            |_| Cut { t: 7 * SECOND / 2, endpoint: "a".into(), n: None, how, began, token: None, why: None };
        trace.cuts.extend((0..count).map(cut));
    }
}

#[test]
fn requests_that_were_not_read_whole_are_charged_all_the_same() {
    let capped = "limit = { rate = \"10/s\", burst = 5, windows = [\"5 per 1s\"], in_flight = 5 }";
    let text = build::scenario("rate = \"10/s\", burst = 5").text;
    let capped = build::named(&text.replace("limit = { rate = \"10/s\", burst = 5 }", capped));
    for how in [CutKind::PeerGone, CutKind::Malformed, CutKind::Reset] {
        for (count, expected) in [(4, Status::Pass), (6, Status::Fail)] {
            let mut trace = build::trace(&capped, &[SECOND, 2 * SECOND - 1, 3 * SECOND]);
            broken_off(count, how)(&mut trace);
            for id in ["rate.envelope", "rate.window", "rate.in-flight"] {
                build::verdict(id, &capped, &trace, expected);
            }
        }
    }
}

#[test]
fn a_request_comes_to_its_subscribers_own_path() {
    check("path.own", "", |_| {}, Status::Pass);
    check("path.own", "", |trace| trace.arrivals[1].head = build::head("/"), Status::Fail);
}

#[test]
fn a_public_url_says_which_path_is_a_subscribers_own() {
    let public = |path: &str| Public { url: format!("https://h.example{path}"), path: path.to_owned() };
    let by_path = |trace: &mut Trace| {
        trace.reached.public = Some(public("/in/{endpoint}"));
        trace.arrivals.iter_mut().for_each(|arrival| arrival.head = build::head("/in/a"));
    };
    check("path.own", "", by_path, Status::Pass);
    let elsewhere = |trace: &mut Trace| {
        by_path(trace);
        trace.arrivals[1].head = build::head("/hooks/a");
    };
    check("path.own", "", elsewhere, Status::Fail);
    // A request to no endpoint is the sender's if it carries an event, and any program's otherwise.
    for (token, expected) in [(Some(1), Status::Fail), (None, Status::Pass)] {
        let strayed = |trace: &mut Trace| {
            by_path(trace);
            let said = "POST /out/a at h.example".to_owned();
            trace.reached.strays.push(Stray { t: 1, kind: StrayKind::Request, token, said, count: 1 });
        };
        check("path.own", "", strayed, expected);
    }
}

#[test]
fn a_secret_that_two_subscribers_have_is_nobodys_own() {
    let shared = |trace: &mut Trace| {
        let (endpoint, with) = ("a".to_owned(), "b".to_owned());
        trace.shared.push(SharedSecret { t: 0, endpoint, with });
    };
    check("identity.secret", "", shared, Status::Fail);
}

#[test]
fn memory_that_grows_without_need_is_told_where_no_bound_is_named() {
    let grown = |gib: u64| {
        move |trace: &mut Trace| {
            for (t, bytes) in [(0, 50 << 20), (SECOND, gib << 30)] {
                let mut depth = build::depth(t, None, 3);
                depth.resident_bytes = Some(bytes);
                trace.depths.push(depth);
            }
        }
    };
    check("queue.memory", "", grown(0), Status::Pass);
    check("queue.memory", "", grown(3), Status::Fail);
}

/// Of 3,500 events, one every 10 ms, every hundredth comes 8 s late (`some`), or every one (`all`).
fn late(some: bool, all: bool) -> Trace {
    let scenario = build::scenario("rate = \"1000/s\", burst = 100");
    let mut trace = build::trace(&scenario, &[]);
    let mut came: Vec<(u64, u64)> = Vec::new();
    for token in 0..3_500 {
        let t = token * SECOND / 100;
        build::offer(&mut trace, token, t, &["a"]);
        let late = all && token > 500 || some && token % 100 == 7;
        came.push((t + if late { 8 * SECOND } else { SECOND / 100 }, token));
    }
    came.sort_unstable();
    came.into_iter().for_each(|(t, token)| build::deliver(&mut trace, "a", token, t, 204));
    build::end(&mut trace, 60 * SECOND);
    trace
}

#[test]
fn a_few_that_come_late_while_all_others_do_not_are_told_of() {
    let scenario = build::scenario("rate = \"1000/s\", burst = 100");
    let rows = [((false, false), Status::Pass), ((true, false), Status::Warn), ((false, true), Status::Pass)];
    for ((some, all), expected) in rows {
        build::verdict("latency.first-attempt", &scenario, &late(some, all), expected);
    }
}

#[test]
fn a_request_that_is_repeated_at_once_after_a_reset_is_hidden() {
    let repeated = |gap: u64| {
        move |trace: &mut Trace| {
            let t = SECOND - gap;
            let (endpoint, how) = ("a".into(), CutKind::Reset);
            trace.cuts.push(Cut { t, endpoint, n: None, how, began: Some(t), token: Some(0), why: None });
        }
    };
    let resets = "retry = { backoff = \"equal-jitter\", base = \"500ms\" }\n[[subscriber.behaviour]]\nanswer = \"reset\"\nlasts = \"1s\"";
    check("retry.hidden", resets, repeated(1_000_000), Status::Fail);
    check("retry.hidden", resets, repeated(SECOND / 2), Status::Pass);
}
