mod reference;

use super::*;

const SMALL: &str = r#"
name = "small"
[[traffic]]
shape = "steady"
rate  = "20/s"
lasts = "5s"
[[subscriber]]
name = "a"
"#;

#[track_caller]
fn refused(text: &str, expected: &str) {
    let problems = Scenario::from_text(text, "s.toml").expect_err("a mistake");
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|one| one.contains(expected)), "expected {expected:?} in {said:#?}");
}

fn with(line: &str) -> String {
    format!("{SMALL}{line}\n")
}

#[test]
fn a_small_scenario_has_every_default() {
    let scenario = Scenario::from_text(SMALL, "s.toml").expect("valid");
    assert_eq!(scenario.seed, 1);
    assert_eq!(scenario.drain, Duration::from_secs(60));
    assert_eq!(scenario.subscribers[0].limit, Limit::default());
    assert_eq!(scenario.subscribers[0].retry, Retry::default());
    assert_eq!(scenario.text, SMALL);
}

#[test]
fn every_key_that_the_interface_names_is_read() {
    let text = include_str!("tests/everything.toml");
    let scenario =
        Scenario::from_text(text, "everything.toml").unwrap_or_else(|problems| panic!("{problems:#?}"));
    let ingest = &scenario.subscribers[0];
    assert_eq!(ingest.limit.bucket.map(|bucket| bucket.burst), Some(20));
    assert_eq!(ingest.limit.windows, [Window { count: 60, length: Duration::from_secs(1) }]);
    assert_eq!(ingest.behaviours.len(), 16);
    assert_eq!(scenario.faults.iter().filter(|fault| fault.action == FaultAction::Kill).count(), 3);
    assert!(scenario.faults.is_sorted_by_key(|fault| fault.at));
    let [first, rest, whole] = scenario.expect.speeds.latency.as_slice() else { panic!("three bounds") };
    assert_eq!((whole.name.as_str(), whole.most.p95), ("ingest", Some(Duration::from_millis(500))));
    let second = 1_000_000_000;
    assert!(whole.covers(0) && first.covers(0) && !first.covers(20 * second) && rest.covers(20 * second));
    assert_eq!(scenario.expect.queue_rows.min, Some(10));
    assert_eq!(scenario.traffic[0].key.as_deref(), Some("the-clip"));
    assert_eq!(scenario.expect.known["retry.after-503"].why, "vendor ticket 4711");
}

#[test]
fn several_of_a_kind_are_numbered_from_one() {
    let scenario = Scenario::from_text(&with("count = 3"), "s.toml").expect("valid");
    let names: Vec<_> = scenario.subscribers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a-1", "a-2", "a-3"]);
    assert!(scenario.subscribers.iter().all(|one| one.group == "a"));
}

fn parted(more: &str) -> String {
    let fault = format!("[[fault]]\nat = \"1s\"\ndo = \"partition\"\nlasts = \"1s\"\n{more}");
    with(&format!("[sender]\nstore = \"postgres\"\n{fault}"))
}

#[test]
fn a_partition_is_read_in_each_of_its_forms() {
    let delay = Partition::Delay(Duration::from_millis(200));
    for (more, how) in [
        ("", Partition::Silence),
        ("how = \"silence\"", Partition::Silence),
        ("how = \"cut\"", Partition::Cut),
        ("how = \"delay\"\nby = \"200ms\"", delay),
        ("how = \"half-open\"", Partition::HalfOpen),
    ] {
        let read = Scenario::from_text(&parted(more), "s.toml").expect(more);
        assert_eq!(read.faults[0].action, FaultAction::Partition(how), "{more}");
    }
}

#[test]
fn mistakes_in_a_partition_are_told() {
    refused(&parted("how = \"half-opn\""), "did you mean \"half-open\"?");
    refused(&parted("how = \"delay\""), "missing; expected the delay, such as \"200ms\"");
    refused(&parted("how = \"delay\"\nby = 200"), "fault[0].by: expected text");
    refused(&parted("how = \"delay\"\nby = \"-200ms\""), "fault[0].by: expected \"200ms\":");
    refused(&parted("how = \"delay\"\nby = \"200\""), "fault[0].by: expected \"200ms\":");
    refused(&parted("how = \"delay\"\nby = \"0s\""), "fault[0].by: expected 1ms to 1min");
    refused(&parted("how = \"delay\"\nby = \"2min\""), "fault[0].by: expected 1ms to 1min");
    for how in ["", "how = \"cut\"", "how = \"half-open\""] {
        refused(
            &parted(&format!("{how}\nby = \"200ms\"")),
            "fault[0].by: `by` does not apply to `partition`",
        );
    }
    let kill = "[[fault]]\nat = \"1s\"\ndo = \"kill\"\nhow = \"delay\"";
    refused(&with(kill), "fault[0].how: `how` does not apply to `kill`");
}

#[test]
fn mistakes_are_told_with_key_line_and_what_was_meant() {
    refused(
        &with("limt = { rate = \"5/s\" }"),
        "s.toml:9: subscriber[0].limt: unknown key; did you mean \"limit\"?",
    );
    refused(&with("timeout = 8"), "s.toml:9: subscriber[0].timeout: expected a duration with its unit");
    refused(&with("limit = { rate = \"5\" }"), "s.toml:9: subscriber[0].limit.rate");
    refused(&with("limit = { burst = 5 }"), "a burst needs a rate");
    refused(&with("sign = \"standard-webhook\""), "did you mean \"standard-webhooks\"?");
    refused(&with("events = [\"video*\"]"), "is not a pattern");
    refused(&SMALL.replace("rate  = \"20/s\"", ""), "traffic[0].rate: missing; this shape requires it");
    refused(
        &SMALL.replace("lasts", "key = \"\"\nlasts"),
        "traffic[0].key: expected a text that is not empty",
    );
    refused(&SMALL.replace("steady", "steddy"), "did you mean \"steady\"?");
    refused("name = \"x\"", "traffic: missing");
    refused("name = ", "s.toml:1: invalid TOML");
}

#[test]
fn a_key_that_its_answer_does_not_go_by_is_refused() {
    refused(
        &with("[[subscriber.behaviour]]\nanswer = \"reset\"\nretry_after = \"3s\""),
        "does not apply to this answer",
    );
    refused(&with("[[subscriber.behaviour]]\nanswer = 429\nretry_after = \"1500ms\""), "whole seconds");
    refused(&with("[[subscriber.behaviour]]\nanswer = 99"), "expected a status");
    refused(&with("[[subscriber.behaviour]]\nanswer = \"stall\""), "needs a length");
    refused(&with("[[subscriber.behaviour]]\nanswer = \"blakhole\""), "did you mean \"blackhole\"?");
    let twice = "[[subscriber.behaviour]]\nanswer = 429\nretry_after = \"3s\"\nretry_after_text = \"inf\"";
    refused(&with(twice), "one Retry-After");
    let wrong = "[[subscriber.behaviour]]\nanswer = \"wrong-certificate\"";
    refused(&with(wrong), "needs one of expired, other-name");
    refused(&with(&format!("{wrong}\ncertificate = \"expird\"")), "did you mean \"expired\"?");
    refused(&with(&format!("{wrong}\ncertificate = \"expired\"\nshare = 0.5")), "belongs to a connection");
    refused(&with("[[subscriber.behaviour]]\nanswer = 500\ncertificate = \"expired\""), "does not apply");
}

fn behaving(behaviours: &[&str]) -> String {
    with(&format!("behaviour = [{}]", behaviours.join(", ")))
}

#[test]
fn a_port_is_not_shut_while_a_behaviour_that_comes_before_holds() {
    let busy = "{ at = \"5s\", lasts = \"2s\", answer = 503 }";
    let away = "{ lasts = \"20s\", answer = \"refuse\" }";
    let whole = "s.toml:9: subscriber[0].behaviour[1].answer: it shuts the port to every request, but subscriber[0].behaviour[0] \
                 precedes it at the same time";
    refused(&behaving(&[busy, away]), whole);
    let unaccepting = "{ at = \"19s\", lasts = \"20s\", answer = \"no-accept\" }";
    refused(&behaving(&[away, unaccepting]), "subscriber[0].behaviour[1].answer: it shuts the port");
    let some = "{ share = 0.1, answer = 503 }";
    refused(&behaving(&[busy, some, unaccepting]), "but subscriber[0].behaviour[1] precedes it");
    for fine in [
        [away, busy],
        [busy, "{ at = \"7s\", answer = \"refuse\" }"],
        ["{ lasts = \"5s\", answer = \"refuse\" }", busy],
        [busy, "{ share = 0.5, answer = \"refuse\" }"],
        [busy, "{ at = \"6s\", lasts = \"0s\", answer = \"refuse\" }"],
    ] {
        assert_eq!(Scenario::from_text(&behaving(&fine), "s.toml").map(drop), Ok(()), "{fine:?}");
    }
}

#[test]
fn an_instantaneous_fault_accepts_no_duration() {
    let fault = |done: &str| format!("[sender]\nworkers = 2\n[[fault]]\nat = \"1s\"\n{done}\n");
    for done in
        ["do = \"limit\"\nlimit = { rate = \"5/s\" }", "do = \"redrive\"", "do = \"start\"\nworker = 1"]
    {
        let read = Scenario::from_text(&with(&fault(done)), "s.toml").expect(done);
        assert_eq!(read.faults[0].lasts, Duration(0), "{done}");
        let ended = with(&fault(&format!("{done}\nlasts = \"5s\"")));
        refused(&ended, "fault[0].lasts: `lasts` does not apply to");
    }
    let rotated = with(&fault("do = \"rotate\"\nlasts = \"5s\""));
    assert_eq!(Scenario::from_text(&rotated, "s.toml").map(drop), Ok(()), "the older secret is retired then");
}

#[test]
fn a_name_is_that_of_a_folder_of_its_own() {
    for name in ["", ".", "..", "...", "a/b", "../a"] {
        refused(&SMALL.replace("\"small\"", &format!("{name:?}")), "s.toml:2: name: expected letters");
    }
    assert!(Scenario::from_text(&SMALL.replace("small", "v1.2"), "s.toml").is_ok());
}

#[test]
fn names_must_exist_and_be_unique() {
    refused(&with("[[subscriber]]\nname = \"a\""), "two subscribers have the name \"a\"");
    refused(
        &with("[[fault]]\nat = \"1s\"\ndo = \"rotate\"\nsubscriber = \"b\""),
        "there is no subscriber \"b\"",
    );
    refused(&with("[[fault]]\nat = \"1s\"\ndo = \"kill\"\nworker = 1"), "there is no worker 1");
    refused(&with("[sender]\nstore = \"postgre\""), "did you mean \"postgres\"?");
    let partition = |more: &str| format!("[[fault]]\nat = \"1s\"\ndo = \"partition\"\n{more}");
    refused(
        &with(&partition("lasts = \"1s\"")),
        "partition needs a database server: set store = \"postgres\"",
    );
    refused(&with(&partition("")), "missing; this fault needs a length");
    refused(
        &with(&partition("lasts = \"1s\"\nhow = \"slow\"")),
        "expected one of silence, cut, delay, half-open, got \"slow\"",
    );
    let skew = |by: &str| format!("[[fault]]\nat = \"1s\"\ndo = \"clock-skew\"\n{by}");
    refused(&with(&skew("")), "missing; expected the error of the clock");
    refused(&with(&skew("by = \"-14s\"")), "expected at least 15s");
    let start = |more: &str| format!("[sender]\nworkers = 2\n[[fault]]\nat = \"1s\"\ndo = \"start\"\n{more}");
    refused(&with(&start("")), "expected a number from 1");
    refused(&with(&start("worker = 0")), "expected a number from 1");
    refused(
        &with(&start("worker = 1\ntimes = 2\nevery = \"1s\"")),
        "expected a number from 1, without `times`",
    );
    let restart = "[[fault]]\nat = \"1s\"\ndo = \"database-restart\"";
    refused(&with(restart), "database-restart needs a database server: set store = \"postgres\"");
    let on_a_server = format!("[sender]\nstore = \"postgres\"\n{restart}");
    let read = Scenario::from_text(&with(&on_a_server), "s.toml").expect("valid");
    assert_eq!((read.sender.store, &read.faults[0].action), (Store::Postgres, &FaultAction::DatabaseRestart));
    assert_eq!(Scenario::from_text(SMALL, "s.toml").expect("valid").sender.store, Store::Sqlite);
    refused(&with("[expect]\nlatency.b = { p95 = \"1s\" }"), "there is no subscriber \"b\"");
    refused(&with("[expect]\nlatency.b = [{ p95 = \"1s\" }]"), "there is no subscriber \"b\"");
    refused(
        &with("[expect]\nlatency.a = [{ p59 = \"1s\" }]"),
        "expect.latency.a[0].p59: unknown key; did you",
    );
    refused(&with("[expect]\nlatency.a = { lasts = \"1s\" }"), "latency.a.p95: missing; expected p50, p95");
    refused(&with("[expect.known]\nx = [{ why = \"y\" }]"), "expect.known.x: expected a table, got");
}

#[test]
fn every_mistake_is_told_at_once() {
    let problems =
        Scenario::from_text(&with("timeout = 8\nsign = 5\nbanana = 1"), "s.toml").expect_err("three");
    assert_eq!(problems.len(), 3, "{problems:#?}");
}

#[test]
fn a_value_can_be_set_from_outside_and_the_whole_is_written_again() {
    let changes = ["drain=10s".to_owned(), "subscriber.a.limit.rate=9/s".to_owned()];
    let scenario = Scenario::from_text_with(SMALL, "s.toml", &changes).expect("valid");
    assert_eq!(scenario.drain, Duration::from_secs(10));
    let again = Scenario::from_text(&scenario.text, "again.toml").expect("what is written reads back");
    assert_eq!(again, scenario);
    let problems = Scenario::from_text_with(SMALL, "s.toml", &["drian=10s".to_owned()]).expect_err("a slip");
    assert!(problems[0].to_string().contains("did you mean \"drain\"?"), "{problems:?}");
}

#[test]
fn an_oversized_scenario_is_refused_before_it_is_allocated() {
    refused(&with("[events]\nkeys = 4000000000"), "s.toml:10: events.keys: expected 1 to 1000000");
    let groups = format!("{}[[subscriber]]\nname = \"b\"\n", with("count = 100000"));
    refused(&groups, "subscriber[1].count: expected at most 100000, all groups together");
    let deep = format!("{}=1", vec!["a"; 60_000].join("."));
    let problems = Scenario::from_text_with(SMALL, "s.toml", &[deep]).expect_err("too deep");
    assert!(problems[0].to_string().contains("60000 parts"), "{}", problems[0]);
}

#[test]
fn a_fault_goes_by_a_process_or_by_what_it_owns() {
    let read = |action: &str, worker: &str| {
        let text = format!(
            "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[sender]\nworkers = 2\n[[subscriber]]\nname = \"a\"\n\
             count = 2\n[[fault]]\nat = \"1s\"\nlasts = \"1s\"\ndo = {action:?}\nworker = {worker}\n"
        );
        Scenario::from_text(&text, "x.toml").map(|scenario| scenario.faults[0].worker.clone())
    };
    assert_eq!(read("kill", "1"), Ok(Some(FaultTarget::Worker(1))));
    assert_eq!(read("stop", "\"owner of a-2\""), Ok(Some(FaultTarget::OwnerOf("a-2".to_owned()))));
    let rows = [
        ("kill", "2", "no worker 2"),
        ("kill", "\"owner of a\"", "no such subscriber; did you mean \"a-1\"?"),
        ("kill", "\"a-1\"", "owner of NAME"),
        ("disk-full", "\"owner of a-1\"", "is for kill, stop, restart and partition"),
    ];
    for (action, worker, part) in rows {
        let problems = read(action, worker).unwrap_err();
        assert!(problems.iter().any(|one| one.what.contains(part)), "{worker}: {problems:?}");
    }
}

#[test]
fn the_schema_names_every_key_and_refuses_others() {
    let schema = schema();
    let limit = &schema["properties"]["subscriber"]["items"]["properties"]["limit"];
    assert_eq!(limit["properties"]["rate"]["type"], "string");
    assert_eq!(limit["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["name", "traffic", "subscriber"]));
}

#[test]
fn a_slip_of_the_finger_finds_the_key_that_was_meant() {
    let known = ["rate", "burst", "windows", "in_flight"];
    for (given, meant) in [
        ("brust", Some("burst")),
        ("inflight", Some("in_flight")),
        ("window", Some("windows")),
        ("banana", None),
    ] {
        assert_eq!(nearest(given, known), meant, "{given}");
    }
}

#[test]
fn a_problem_names_its_place() {
    let problem = Problem {
        file: "a.toml".to_owned(),
        line: Some(3),
        key: "events.keys".to_owned(),
        what: "expected a whole number".to_owned(),
    };
    assert_eq!(problem.to_string(), "a.toml:3: events.keys: expected a whole number");
    assert_eq!(Problem { line: None, ..problem }.to_string(), "a.toml: events.keys: expected a whole number");
}
