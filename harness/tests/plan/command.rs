use std::path::Path;
use std::process::{Command, Output, Stdio};

use hookproof::clock::Clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::plan::shipped;

fn hookproof(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").output().unwrap()
}

fn plan(more: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let scenario = shipped().join("capacity-launch.toml");
    let all = [&["plan", scenario.to_str().unwrap(), "--no-measure", "--seeds", "1"], more].concat();
    let output = hookproof(&all, folder);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn lane(value: &Value, name: &str) -> Value {
    let lanes = value["lanes"].as_array().unwrap();
    lanes.iter().find(|lane| lane["name"] == name).unwrap().clone()
}

#[test]
fn the_answer_comes_first_and_the_page_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (code, told, _) = plan(&["--no-headroom", "--out", "plans"], folder.path());
    assert_eq!(code, Some(0));
    assert!(told.lines().next().unwrap().contains("partner-c"), "{told}");
    assert!(told.contains("capacity of a sender here: not measured"), "{told}");
    let page = std::fs::read_to_string(folder.path().join("plans/capacity-launch/plan.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
}

fn has_arrivals(place: &Path) -> bool {
    let traces = place.read_dir().unwrap().filter_map(Result::ok).map(|one| one.path().join("trace.jsonl"));
    let texts = traces.filter_map(|trace| std::fs::read_to_string(trace).ok());
    texts.into_iter().any(|text| text.contains("\"k\":\"arrival\""))
}

#[test]
fn a_measurement_that_is_interrupted_is_none() {
    let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.arg("plan").arg(shipped().join("capacity-launch.toml")).args(["--no-headroom", "--seeds", "1"]);
    command.current_dir(folder.path()).env("TMPDIR", place.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let clock = Clock::begun();
    while !has_arrivals(place.path()) {
        assert!(clock.now() < 60_000_000_000, "nothing is measured");
        std::thread::yield_now();
    }
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.code() == Some(130) && !told.contains("measured here"), "{told}");
}

#[test]
fn objectives_count_without_the_headroom() {
    let folder = tempfile::tempdir().unwrap();
    let (code, told, _) = plan(&["--no-headroom", "--slo", "partner-c.p95<1ms"], folder.path());
    assert_eq!(code, Some(1));
    let sentence = told.lines().next().unwrap();
    let begins = "does not meet its objectives: partner-c (partner-c.p95<1ms: ";
    assert!(sentence.starts_with(begins) && sentence.contains("; the slowest backlog, of "), "{sentence}");
    let (code, told, _) =
        plan(&["--no-headroom", "--slo", "drain<1s", "--times", "4", "--set", "drain=10s"], folder.path());
    assert_eq!(code, Some(1));
    let sentence = told.lines().next().unwrap();
    assert!(sentence.contains("deliveries still waiting when the run ends: "), "{sentence}");
    assert!(sentence.contains(", for partner-c"), "{sentence}");
}

#[test]
fn three_times_the_traffic_is_three_times_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let owed = |times: &str| {
        let (_, told, _) = plan(&["--no-headroom", "--json", "--times", times], folder.path());
        let value: Value = serde_json::from_str(&told).unwrap();
        value["lanes"].as_array().unwrap().iter().map(|lane| lane["owed"].as_u64().unwrap()).sum::<u64>()
    };
    let (one, three) = (owed("1"), owed("3"));
    assert!((one * 3).abs_diff(three) * 50 < three, "{one} and {three}");
}

#[test]
fn recorded_traffic_takes_the_place_of_the_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|at| format!("{}.5,video.published,k{at},300\n", at / 20)).collect();
    std::fs::write(folder.path().join("real.csv"), format!("time,type,key,bytes\n{rows}")).unwrap();
    let (code, told, why) = plan(&["--no-headroom", "--json", "--recorded", "real.csv"], folder.path());
    assert_eq!(code, Some(0), "{why}");
    let value: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(lane(&value, "partner-c")["owed"], 40);
    assert_eq!(lane(&value, "partner-b")["owed"], 0);
}

#[test]
fn a_recording_keeps_its_own_names_for_columns() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|at| format!("video.published,2026-11-27T20:00:{:02}Z\n", at)).collect();
    std::fs::write(folder.path().join("real.csv"), format!("event,created_at\n{rows}")).unwrap();
    let named = |columns: &str| {
        plan(&["--no-headroom", "--json", "--recorded", "real.csv", "--columns", columns], folder.path())
    };
    let (code, told, why) = named("time=created_at,type=event");
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(lane(&value(&told), "partner-c")["owed"], 40);
    let (code, _, why) = named("time=creatd_at,type=event");
    assert_eq!((code, why.contains("real.csv:1: no column")), (Some(64), true), "{why}");
    assert!(why.contains("did you mean time=created_at?"), "{why}");
    let (code, _, why) = named("when=created_at");
    assert_eq!((code, why.contains("\"when\" is no column")), (Some(64), true), "{why}");
}

#[test]
fn a_recording_says_which_events_nobody_receives_and_where_its_gap_is() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = |rows: &str| {
        std::fs::write(folder.path().join("real.csv"), format!("time,type\n{rows}")).unwrap();
        let arguments = ["plan", "narrow.toml", "--no-measure", "--no-headroom", "--recorded", "real.csv"];
        let output = hookproof(&arguments, folder.path());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let narrow = "name = \"narrow\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
                  events = [\"video.*\"]\n";
    std::fs::write(folder.path().join("narrow.toml"), narrow).unwrap();
    let (code, why) = recorded("0,video.published\n1,page.seen\n2,page.seen\n3,page.left\n");
    assert_eq!(code, Some(0), "{why}");
    assert!(
        why.contains("no subscriber receives 3 of the recorded events: page.seen (2), page.left (1)\n"),
        "{why}"
    );
    let (code, why) = recorded("0,video.published\n5,video.published\n3153600005,video.published\n");
    assert_eq!(code, Some(64), "{why}");
    let parts =
        ["the longest pause of the traffic is ", ", from 5 s on: cut it; ", "; or add --yes-it-takes"];
    parts.iter().for_each(|part| assert!(why.contains(part), "{part}: {why}"));
}

const DOWN: &str = "name = \"down\"\ndrain = \"5s\"\n[[traffic]]\nshape = \"steady\"\nrate = \"20/s\"\nlasts = \"5s\"\n\
                    [[subscriber]]\nname = \"well\"\ncount = 20\n[[subscriber]]\nname = \"dead\"\ncount = 3\n\
                    [[subscriber.behaviour]]\nanswer = \"refuse\"\n";

#[test]
fn endpoints_that_never_recover_are_reported_apart() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("down.toml"), DOWN).unwrap();
    let asked = |slo: &str| {
        let arguments = ["plan", "down.toml", "--no-measure", "--seeds", "1", "--no-headroom", "--slo", slo];
        let output = hookproof(&arguments, folder.path());
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), output.stderr)
    };
    let (code, told, why) = asked("p95<2s");
    assert_eq!(code, Some(0), "{told}{}", String::from_utf8_lossy(&why));
    assert!(told.starts_with("meets its objectives; the slowest backlog, of well-"), "{told}");
    assert!(told.contains("3 endpoints never recover: 300 dead letters at 24 h"), "{told}");
    // Like subscribers are one row.
    assert!(
        told.contains("\n20 × well ") && told.contains("\n3 × dead ") && !told.contains("\nwell-7 "),
        "{told}"
    );
    let why = String::from_utf8_lossy(&why);
    assert!(why.contains("down.toml: 100 events → 2300 deliveries to 23 subscribers"), "{why}");
    assert!(why.contains("3 × dead: 100 deliveries each; no bound: it fails permanently"), "{why}");
    let first = told.lines().next().unwrap();
    assert!(first.ends_with("; 3 endpoints are down by the plan"), "{first}");
    let (code, told, _) = asked("dead.p95<2s");
    assert_eq!(code, Some(1), "{told}");
}

#[test]
fn subscribers_are_taken_from_a_live_senders_database() {
    let folder = tempfile::tempdir().unwrap();
    let add = [
        "sender",
        "subscriber",
        "add",
        "--db",
        "sender.db",
        "live-one",
        "http://127.0.0.1:9/",
        "--allow-private-targets",
    ];
    let added = hookproof(&add, folder.path());
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let (code, told, why) = plan(&["--no-headroom", "--json", "--from", "sender.db"], folder.path());
    assert_eq!(code, Some(0), "{why}");
    let value: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(value["lanes"].as_array().unwrap().len(), 1);
    assert!(lane(&value, "live-one")["owed"].as_u64().unwrap() > 500, "{told}");
    let (code, _, why) = plan(&["--from", "nowhere.db"], folder.path());
    assert_eq!(code, Some(64));
    assert!(why.contains("nowhere.db"), "{why}");
}

#[test]
fn an_invalid_objective_is_refused_with_the_valid_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, why) = plan(&["--slo", "p90<1s"], folder.path());
    assert_eq!((code, why.contains("not one of p50, p95")), (Some(64), true), "{why}");
    let (code, _, why) = plan(&["--slo", "nobody.shed=0"], folder.path());
    assert_eq!((code, why.contains("names an unknown subscriber")), (Some(64), true), "{why}");
}

fn sender(arguments: &[&str], folder: &Path) {
    let done = hookproof(&[&["sender", "subscriber"], arguments, &["--db", "sender.db"]].concat(), folder);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn settings_of_a_live_database_are_used_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let add = |name: &str, more: &[&str]| {
        let one = ["add", name, "http://127.0.0.1:9/", "--allow-private-targets"];
        sender(&[&one[..], more].concat(), folder.path());
    };
    add("Partner C (EU)", &[r#"coalesce=[{"events":"*","window":"3s"}]"#]);
    add("Partner C [EU]", &[]);
    add("asleep", &[]);
    sender(&["pause", "asleep"], folder.path());
    let (code, told, why) = plan(&["--no-headroom", "--json", "--from", "sender.db"], folder.path());
    assert_eq!(code, Some(0), "{why}");
    let value: Value = serde_json::from_str(&told).unwrap();
    let names: Vec<&str> =
        value["lanes"].as_array().unwrap().iter().map(|lane| lane["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Partner-C--EU-", "Partner-C--EU--2"]);
    assert!(why.contains("\"Partner C (EU)\" is named Partner-C--EU- in this plan"), "{why}");
    assert!(why.contains("asleep is paused, so the plan leaves it out"), "{why}");
    // Coalescing delays all but one of a window.
    let waited = |name: &str| lane(&value, name)["latency_ns"][0].as_u64().unwrap();
    assert!(waited("Partner-C--EU-") > 1_000_000_000 && waited("Partner-C--EU--2") < 100_000_000, "{told}");
}

#[test]
fn a_recording_is_played_whole() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|at| format!("{}.5,video.published,k{at},300\n", at / 20)).collect();
    std::fs::write(folder.path().join("real.csv"), format!("time,type,key,bytes\n{rows}")).unwrap();
    let played = |more: &[&str]| plan(&[&["--recorded", "real.csv"], more].concat(), folder.path());
    for option in ["--times", "--carry"] {
        let (code, _, why) = played(&["--no-headroom", option, "1.5"]);
        assert_eq!(
            (code, why.contains("a recording is repeated a whole number of times")),
            (Some(64), true),
            "{why}"
        );
    }
    let (code, told, why) = played(&["--json", "--slo", "partner-c.p95<10s"]);
    assert_eq!(code, Some(0), "{why}");
    let value: Value = serde_json::from_str(&told).unwrap();
    let whole = |name: &str| value["headroom"][name].as_u64().unwrap() % 1_000;
    assert_eq!((whole("carries"), whole("fails")), (0, 0), "{told}");
    let (code, told, _) = played(&["--slo", "partner-c.p95<1ms"]);
    assert_eq!(code, Some(1));
    let sentence =
        "with --recorded real.csv: does not carry today's traffic; a recording cannot be scaled down";
    assert!(told.starts_with(sentence), "{told}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_plan_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    let long = "name = \"long\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[traffic]]\nshape = \"pause\"\n\
                lasts = \"100000h\"\n[[subscriber]]\nname = \"a\"\n";
    std::fs::write(&path, long).unwrap();
    let args = ["plan", path.to_str().unwrap(), "--no-measure", "--yes-it-takes"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    crate::interrupted::interrupted(command.args(args).current_dir(folder.path()));
}

fn value(told: &str) -> Value {
    serde_json::from_str(told).unwrap()
}

#[test]
fn a_patch_of_a_plan_carries_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"slow\"\nseed = 3\ndrain = \"60s\"\n[[traffic]]\nshape = \"burst\"\nevents = 60\n\
                [[subscriber]]\nname = \"a\"\nlimit = { rate = \"2/s\", burst = 2, in_flight = 2 }\n";
    std::fs::write(folder.path().join("slow.toml"), text).unwrap();
    let plan = |more: &[&str]| {
        let all = ["plan", "slow.toml", "--no-measure", "--seeds", "1", "--slo", "p95<10s"];
        let output = hookproof(&[&all[..], more].concat(), folder.path());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, told) = plan(&["--carry", "1", "--out", "plans"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("meet their objectives with 1 of 1 seeds"), "{told}");
    let patch = "plans/slow/patch.toml";
    let text = std::fs::read_to_string(folder.path().join(patch)).unwrap();
    assert!(text.contains("name = \"a\"") && told.contains(&text), "{text}");
    let (code, told) = plan(&["--no-headroom", "--out", "others"]);
    assert!(code == Some(1) && told.contains("No change was searched. Without --no-headroom"), "{told}");
    let (code, told) = plan(&["--no-headroom", "--out", "others", "--patch", patch]);
    assert!(code == Some(0) && !told.contains("No change was searched"), "{told}");
}

#[test]
fn the_machine_is_given_or_told_by_a_report_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = shipped().join("capacity-launch.toml");
    let scenario = scenario.to_str().unwrap();
    let asked = |more: &[&str]| {
        let all = [&["plan", scenario, "--json", "--no-headroom"], more].concat();
        let output = hookproof(&all, folder.path());
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    // Some seventy requests in the peak second.
    let (code, told, _) = asked(&["--machine", "60/s"]);
    assert_eq!(code, Some(1));
    let found = value(&told);
    assert_eq!(found["breaches"][0]["subscriber"], "this machine");
    assert!(found["machine"]["limits"]["memory_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(found["machine"]["limits"]["disk_bytes"].as_u64().is_some());
    assert_eq!(asked(&["--machine", "1000/s", "--disk", "1MiB"]).0, Some(1), "no room for the database");
    assert_eq!(asked(&["--machine", "1000/s", "--nodes", "2"]).0, Some(64), "a file is one machine's");
    let report = folder.path().join("report.json");
    let simulated = hookproof(&["sim", scenario, "--json", report.to_str().unwrap()], folder.path());
    assert!(simulated.status.success(), "{}", String::from_utf8_lossy(&simulated.stderr));
    let mut run: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    if let Value::Array(reports) = &mut run {
        run = reports.remove(0);
    }
    let write = |run: &Value| std::fs::write(&report, run.to_string()).unwrap();
    // Only a completed and judged run of our own sender counts.
    let ours = ["driver", "ended", "judgement", "delivered_per_second"];
    let values: [Value; 4] = ["hookproof".into(), "done".into(), run["judgement"].clone(), 3_000.into()];
    (run["ended"], run["judgement"]["status"]) = ("interrupted".into(), "inconclusive".into());
    for (key, value) in ours.into_iter().zip(values) {
        write(&run);
        let (code, _, why) = asked(&["--throughput", "report.json"]);
        let expected = match key {
            "driver" => "it was played with the driver sim",
            "ended" => "the run was interrupted",
            "judgement" => "the run was not judged",
            _ => "it has no efficiency",
        };
        assert_eq!((code, why.contains(expected)), (Some(64), true), "{key}: {why}");
        run[key] = value;
    }
    run["ceiling_per_second"] = 10_000.into();
    write(&run);
    let (_, told, why) = asked(&["--throughput", "report.json"]);
    let limits = &value(&told)["machine"]["limits"];
    let [ceiling, carries] =
        ["ceiling_per_second", "carries_per_second"].map(|key| limits[key].as_u64().unwrap());
    assert_eq!(carries, ceiling * 3 / 10, "{why}");
    assert!(limits["source"].as_str().unwrap().starts_with("30 % of a bare client's "), "{told}");
}

#[test]
fn a_report_of_the_last_run_that_does_not_count_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let last = folder.path().join("reports/runs/throughput");
    std::fs::create_dir_all(&last).unwrap();
    let scenario = shipped().join("capacity-launch.toml");
    let report = last.join("report.json");
    let simulated =
        hookproof(&["sim", scenario.to_str().unwrap(), "--json", report.to_str().unwrap()], folder.path());
    assert!(simulated.status.success(), "{}", String::from_utf8_lossy(&simulated.stderr));
    let output = hookproof(&["plan", scenario.to_str().unwrap(), "--json", "--no-headroom"], folder.path());
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{why}");
    assert!(why.contains("report.json is not used: it was played with the driver sim"), "{why}");
    let limits = &value(&String::from_utf8(output.stdout).unwrap())["machine"]["limits"];
    assert!(limits["source"].as_str().unwrap().starts_with("measured here: "), "{limits}");
}

#[test]
fn the_machine_is_measured_with_the_sender_itself() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = shipped().join("capacity-launch.toml");
    let output = hookproof(&["plan", scenario.to_str().unwrap(), "--json", "--no-headroom"], folder.path());
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{why}");
    assert!(why.contains("measuring the capacity of this machine"), "{why}");
    let limits = &value(&String::from_utf8(output.stdout).unwrap())["machine"]["limits"];
    let [ceiling, carries] =
        ["ceiling_per_second", "carries_per_second"].map(|key| limits[key].as_u64().unwrap());
    assert!(carries > 0 && ceiling > 0, "{limits}");
    assert!(limits["source"].as_str().unwrap().starts_with("measured here: "), "{limits}");
}

#[test]
fn every_form_of_the_plan_names_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let asked =
        ["--with", "kill@peak", "--with", "partner-b down 30s@20s", "--times", "2", "--set", "drain=4min"];
    let (_, told, why) = plan(&[&["--no-headroom", "--out", "plans"], &asked[..]].concat(), folder.path());
    let conditions = [
        "--set drain=4min: drain=4min by --set",
        "kill@peak: the sender is killed at the peak, 30.5 s after the traffic begins",
        "partner-b down 30s@20s: partner-b is down from 20 s after the traffic begins, for 30s",
        "--times 2: 2 times the traffic",
    ];
    assert!(
        told.starts_with("with --set drain=4min, kill@peak, partner-b down 30s@20s, --times 2: "),
        "{told}{why}"
    );
    let read =
        |name: &str| std::fs::read_to_string(folder.path().join("plans/capacity-launch").join(name)).unwrap();
    let (page, found) = (read("plan.html"), value(&read("plan.json")));
    for (place, condition) in conditions.into_iter().enumerate() {
        assert!(told.contains(&format!("with {condition}")), "{told}");
        assert!(page.contains(&format!("With {condition}.")), "{condition}");
        let (asked, means) = condition.split_once(": ").unwrap();
        assert_eq!(
            [&found["conditions"][place]["asked"], &found["conditions"][place]["means"]],
            [asked, means]
        );
    }
    let (theirs, anothers) = (read("partners/partner-b.md"), read("partners/partner-a.md"));
    assert!(theirs.contains("partner-b is down from 20 s after"), "{theirs}");
    assert!(anothers.contains("another subscriber is down") && !anothers.contains("partner-b"), "{anothers}");
    for part in ["the sender is killed at the peak, 30.5 s after", "2 times the traffic"] {
        assert!(theirs.contains(part) && anothers.contains(part), "{part}: {theirs}");
    }
}

#[test]
fn a_question_about_a_moment_after_the_end_is_refused_with_the_end() {
    let folder = tempfile::tempdir().unwrap();
    for late in ["kill@370s", "partner-b down 1min@2h"] {
        let (code, _, why) = plan(&["--no-headroom", "--with", late], folder.path());
        let end = "comes 370 s after the traffic begins, past the end of the run: the traffic lasts 70 s, the drain 300 s";
        assert_eq!((code, why.contains(end)), (Some(64), true), "{late}: {why}");
    }
}

#[test]
fn sheets_are_those_of_this_plan_and_no_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.toml");
    let planned = |count: u64, more: &[&str]| {
        let text = format!(
            "name = \"many\"\n[[traffic]]\nshape = \"burst\"\nevents = 3\n[[subscriber]]\nname = \"p\"\ncount = {}\n\
             [[subscriber]]\nname = \"worst\"\nlimit = {{ rate = \"1/s\", burst = 1 }}\n",
            count - 1
        );
        std::fs::write(&path, text).unwrap();
        let all =
            [&["plan", path.to_str().unwrap(), "--no-measure", "--no-headroom", "--out", "plans"], more];
        String::from_utf8(hookproof(&all.concat(), folder.path()).stdout).unwrap()
    };
    let partners = folder.path().join("plans/many/partners");
    let count = || partners.read_dir().unwrap().count();
    let told = planned(202, &[]);
    assert_eq!((count(), partners.join("worst.md").exists()), (200, true));
    assert!(told.contains("sheets for 200 of 202 partners; use --sheets 202 for all: "), "{told}");
    let told = planned(202, &["--sheets", "202"]);
    assert_eq!((count(), told.contains("a sheet for each partner: ")), (202, true), "{told}");
    // Files of other authors stay.
    std::fs::write(partners.join("notes.md"), "# many: what to tell them\n").unwrap();
    planned(3, &[]);
    let mut names: Vec<String> =
        partners.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["notes.md", "p-1.md", "p-2.md", "worst.md"]);
}
