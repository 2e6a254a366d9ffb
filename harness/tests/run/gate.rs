use std::path::{Path, PathBuf};
use std::process::Command;

use hookproof_judge::trace::Trace;

fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces").join(name)
}

fn hookproof(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hookproof")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[track_caller]
fn check(name: &str, arguments: &[&str], code: i32, said: &str) {
    let path = trace(name);
    let (got, text) = hookproof(&[&["check", path.to_str().unwrap()], arguments].concat());
    assert!(
        got == Some(code) && text.contains(said),
        "{name} {arguments:?}: {got:?}, expected {said:?} in {text}"
    );
}

#[track_caller]
fn check_expecting(expect: &str, arguments: &[&str], code: i32, said: &str) {
    let scenario = Trace::open(&trace("good.jsonl")).unwrap().header.scenario_toml;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{scenario}\n[expect]\n{expect}\n")).unwrap();
    check("good.jsonl", &[&["--scenario", file.path().to_str().unwrap()], arguments].concat(), code, said);
}

#[test]
fn only_the_selected_checks_decide() {
    check("over-rate.jsonl", &[], 1, "2 failed: rate.envelope, recovery.no-storm; 26 passed, 1 inconclusive");
    check("over-rate.jsonl", &["--skip", "rate.envelope,recovery"], 0, "golden: PASS: 25 passed");
    check("over-rate.jsonl", &["--only", "rate.envelope"], 1, "golden: FAIL: 1 failed: rate.envelope");
    // The harness's own schedule affects every check: only its name excludes it.
    check("over-rate.jsonl", &["--only", "rate.window"], 0, "golden: PASS: 2 passed");
    check("over-rate.jsonl", &["--only", "rate.window", "--skip", "harness"], 0, "golden: PASS: 1 passed");
}

#[test]
fn a_pattern_that_no_check_matches_is_refused_with_the_nearest_id() {
    check("good.jsonl", &["--only", "rate.envlope"], 64, "the nearest id is rate.envelope");
    check("good.jsonl", &["--skip", "sig.valid"], 64, "no check or case matches \"sig.valid\"");
    let (code, said) = hookproof(&["run", "no-such-file.toml", "--only", "rat.envelope"]);
    assert!(code == Some(64) && said.contains("the nearest id is rate.envelope"), "{code:?}: {said}");
}

#[test]
fn nothing_selected_is_inconclusive() {
    check("good.jsonl", &["--only", "rate", "--skip", "rate"], 2, "no check was selected");
    check("good.jsonl", &["--only", "breaker"], 2, "no check could be judged");
    check("good.jsonl", &["--only", "retry.backoff-jitter"], 2, "retry.backoff-jitter (retry delays");
}

#[test]
fn the_headline_counts_everything_and_quotes_the_thin_evidence() {
    let said = "golden: PASS: 28 passed, 1 inconclusive: retry.backoff-jitter (retry delays to judge: 0; needed: 200)";
    check("good.jsonl", &[], 0, said);
}

fn ended(folder: &Path, name: &str, how: &str) -> String {
    let text = std::fs::read_to_string(trace(name)).unwrap();
    let other = text.replace("\"ended\":\"done\"", &format!("\"ended\":\"{how}\""));
    assert_ne!(text, other);
    let path = folder.join(format!("{how}-{name}"));
    std::fs::write(&path, other).unwrap();
    path.display().to_string()
}

#[test]
fn a_run_that_did_not_come_to_its_end_has_not_passed() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        ("good.jsonl", "interrupted", "rate.window", 2),
        ("good.jsonl", "sender-gone", "rate.window", 4),
        ("over-rate.jsonl", "interrupted", "rate.envelope", 1),
        ("over-rate.jsonl", "sender-gone", "rate.envelope", 1),
    ];
    for (name, how, only, code) in rows {
        let path = ended(folder.path(), name, how);
        let (got, said) = hookproof(&["check", &path, "--only", only]);
        let is_told = said.contains("the run is incomplete");
        assert!(got == Some(code) && is_told, "{name} {how}: {got:?}, expected {code}: {said}");
    }
}

/// No terminal control, and no line with a command to a CI runner.
#[track_caller]
fn is_harmless(text: &str) {
    let is_command = |line: &&str| line.trim_start().starts_with("::");
    assert_eq!(text.split(['\n', '\r']).find(is_command), None, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn text_of_a_scenario_is_escaped_for_terminal_and_markdown() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, markdown) = (folder.path().join("x.toml"), folder.path().join("x.md"));
    let (scenario, markdown) = (scenario.display().to_string(), markdown.display().to_string());
    let id = r"no\n::error ::a\u001b[2J|b`<img>@c";
    let text = Trace::open(&trace("good.jsonl")).unwrap().header.scenario_toml;
    let known = format!("{text}\n[expect]\nknown.\"{id}\" = {{ why = \"x\" }}\n");
    std::fs::write(&scenario, known).unwrap();
    let good = trace("good.jsonl").display().to_string();
    let (code, said) = hookproof(&["check", &good, "--scenario", &scenario, "--markdown", &markdown]);
    assert_eq!(code, Some(1), "{said}");
    is_harmless(&said);
    let row = r"| FAIL | `` no ::error ::a\u{1b}[2J\|b`<img>@c `` | expect.known names an unknown check";
    let written = std::fs::read_to_string(&markdown).unwrap();
    assert!(written.contains(row), "{written}");
}

#[test]
fn text_of_a_report_does_not_control_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (base, new, other) = (file("base.json"), file("new.json"), file("other.json"));
    check("good.jsonl", &["--json", &new], 0, "");
    let mut report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&new).unwrap()).unwrap();
    report["scenario"] = "::error ::a\n::error ::b\u{1b}[2J".into();
    std::fs::write(&new, report.to_string()).unwrap();
    let verdicts = report["judgement"]["verdicts"].as_array_mut().unwrap();
    let mut lost = verdicts[0].clone();
    lost["id"] = "c\n::error ::d\u{1b}[2J".into();
    verdicts.push(lost);
    std::fs::write(&base, report.to_string()).unwrap();
    report["scenario"] = "another\n::error ::e\u{1b}[2J".into();
    std::fs::write(&other, report.to_string()).unwrap();
    for (base, new) in [(&base, &new), (&other, &new), (&new, &other)] {
        let (code, said) = hookproof(&["compare", base, new]);
        assert_eq!(code, Some(3), "{said}");
        is_harmless(&said);
    }
}

#[test]
fn a_figure_that_somebody_wrote_fails_the_run_and_one_that_nobody_wrote_does_not() {
    // Half of the deliveries wait for a pause that the endpoint asked for.
    check_expecting("latency.a = { p50 = \"1ms\" }", &[], 1, "1 failed: latency.first-attempt");
    check_expecting("latency.a = { p50 = \"10s\" }", &[], 0, "golden: PASS: 29 passed");
    check_expecting("efficiency_min = 0.5", &[], 2, "efficiency (the machine's ceiling was not measured)");
    check_expecting("gap_max = \"1h\"", &[], 0, "golden: PASS: 28 passed");
}

#[test]
fn a_run_of_more_than_an_hour_is_refused_before_anything_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, lasts: &str| {
        let path = folder.path().join(name);
        let text = format!(
            "name = \"x\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"{lasts}\"\n[[subscriber]]\nname = \"one\"\n"
        );
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (short, day) = (file("short.toml", "1s"), file("day.toml", "24h"));
    let out = folder.path().join("out").display().to_string();
    let (code, said) = hookproof(&["run", &short, &day, "--out", &out]);
    assert!(code == Some(64) && said.contains("--yes-it-takes 1d"), "{code:?}: {said}");
    let (code, said) = hookproof(&["run", &day, "--yes-it-takes", "23h", "--out", &out]);
    assert!(code == Some(64) && said.contains("--yes-it-takes 1d"), "{code:?}: {said}");
    assert!(!Path::new(&out).exists(), "something was played");
}

#[test]
fn a_form_that_cannot_be_written_is_told_before_anything_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, out, json, junit) = (file("x.toml"), file("out"), file("none/r.json"), file("junit.xml"));
    let text = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"one\"\n";
    std::fs::write(&scenario, text).unwrap();
    std::fs::write(&junit, "of before").unwrap();
    let good = trace("good.jsonl").display().to_string();
    let commands: [&[&str]; 3] = [&["run", &scenario, "--out", &out], &["sim", &scenario], &["check", &good]];
    for command in commands {
        let (code, said) = hookproof(&[command, &["--json", &json, "--junit", &junit]].concat());
        let why = format!("--json {json} cannot be written: No such file or directory");
        assert!(code == Some(64) && said.contains(&why), "{command:?}: {code:?}: {said}");
        assert_eq!(std::fs::read_to_string(&junit).unwrap(), "of before", "{command:?}");
    }
    assert!(!Path::new(&out).exists(), "something was played");
}

#[test]
fn an_error_before_the_first_request_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, driver, out) = (file("x.toml"), file("driver.toml"), file("out"));
    let text = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"one\"\n";
    std::fs::write(&scenario, text).unwrap();
    let unset = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/{{ env.HOOKPROOF_NO_SUCH_VARIABLE }}\" }\n\
                 emit = { request = \"POST {{ base }}/\", body = \"\" }\n";
    std::fs::write(&driver, unset).unwrap();
    let trace = folder.path().join("out/x/trace.jsonl");
    std::fs::create_dir_all(trace.parent().unwrap()).unwrap();
    std::fs::write(&trace, "of a run before").unwrap();
    let rows: [(&[&str], &str); 2] = [
        (&["--driver", &driver], "the environment variable HOOKPROOF_NO_SUCH_VARIABLE is not set"),
        (&["--bind", "192.0.2.1"], "cannot listen on 192.0.2.1: "),
    ];
    for (more, why) in rows {
        let (code, said) = hookproof(&[&["run", &scenario, "--out", &out], more].concat());
        assert!(code == Some(64) && said.contains(why) && !said.contains("open files"), "{code:?}: {said}");
        assert_eq!(std::fs::read_to_string(&trace).unwrap(), "of a run before", "{more:?}");
    }
}

/// Sums `name` over all suites of a JUnit file.
fn counted(xml: &str, name: &str) -> u64 {
    let suites = xml.split("<testsuite ").skip(1).map(|suite| suite.split('>').next().unwrap());
    let count = |tag: &str| -> u64 {
        let (_, value) = tag.split_once(&format!(" {name}=\"")).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    };
    suites.map(count).sum()
}

#[track_caller]
fn junit_fits(file: &str, code: i32, shown: &str) {
    let xml = std::fs::read_to_string(file).unwrap();
    let (errors, failures) = (counted(&xml, "errors"), counted(&xml, "failures"));
    assert!(xml.contains("name=\"run\"") && xml.contains(shown), "expected {shown:?} in {xml}");
    assert_eq!(errors + failures > 0, code != 0, "{code}: {errors} errors, {failures} failures in {xml}");
    assert_eq!(failures > 0, [1, 3].contains(&code), "{code}: {failures} failures in {xml}");
}

#[test]
fn junit_says_what_the_exit_code_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("junit.xml").display().to_string();
    let rows: [(&str, &[&str], i32, &str); 7] = [
        ("good.jsonl", &[], 0, "<skipped message=\"inconclusive: retry delays"),
        ("good.jsonl", &["--only", "breaker"], 2, "<error message=\"inconclusive: no check could be judged"),
        ("good.jsonl", &["--only", "rate", "--skip", "rate"], 2, "no check was selected"),
        ("good.jsonl", &["--only", "retry.backoff-jitter"], 2, "no check could be judged"),
        ("over-rate.jsonl", &[], 1, "<failure message=\"fail: 1 of 1 rate limits"),
        ("cut-short.jsonl", &[], 2, "<error message=\"the trace was cut short\""),
        ("empty.jsonl", &[], 64, "errors=\"1\""),
    ];
    for (name, more, code, shown) in rows {
        check(name, &[&["--junit", &file], more].concat(), code, "");
        junit_fits(&file, code, shown);
    }
}

#[test]
fn a_baseline_gates_by_what_was_compared() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, base, out, junit) = (file("x.toml"), file("base.json"), file("out"), file("junit.xml"));
    let text = "name = \"x\"\nlinger = \"100ms\"\n[[traffic]]\nshape = \"burst\"\nevents = 5\n\
                [[subscriber]]\nname = \"one\"\n";
    std::fs::write(&scenario, text).unwrap();
    let run = ["run", &scenario, "--out", &out, "--only", "loss"];
    let (code, said) = hookproof(&[&run[..], &["--json", &base]].concat());
    assert_eq!(code, Some(0), "{said}");
    let mut report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&base).unwrap()).unwrap();
    let allowed = ["--allow", "figure"];
    let against = [&run[..], &["--baseline", &base, "--junit", &junit], &allowed].concat();
    let mut expect = |change: &dyn Fn(&mut serde_json::Value), code: i32, shown: &str| {
        change(&mut report);
        std::fs::write(&base, report.to_string()).unwrap();
        let (got, said) = hookproof(&against);
        assert_eq!(got, Some(code), "{said}");
        junit_fits(&junit, code, shown);
    };
    expect(&|_| {}, 0, "name=\"x\"");
    let added = |report: &mut serde_json::Value| {
        let verdicts = report["judgement"]["verdicts"].as_array_mut().unwrap();
        let mut one = verdicts[0].clone();
        one["id"] = "loss.of-old".into();
        verdicts.push(one);
    };
    expect(&added, 3, "<failure message=\"worse than before: loss.of-old");
    expect(&|report| report["scenario"] = "another".into(), 2, "no run was compared");
}

#[test]
fn reports_are_compared_by_what_they_are_of_and_by_their_figures() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (good, slow, other) = (file("good.json"), file("slow.json"), file("other.json"));
    check("good.jsonl", &["--json", &good], 0, "");
    let mut report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&good).unwrap()).unwrap();
    assert!(report["lasted"].as_u64().is_some_and(|nanos| nanos > 1_000_000_000), "{report}");
    for latency in report["subscribers"][0]["latency"].as_array_mut().unwrap() {
        *latency = (latency.as_u64().unwrap() * 1_000).into();
    }
    std::fs::write(&slow, report.to_string()).unwrap();
    report["seed"] = 99.into();
    report["scenario"] = "renamed".into();
    std::fs::write(&other, report.to_string()).unwrap();
    let rows: [(&[&str], i32, &str); 7] = [
        (&[&good, &good], 0, "golden: 0 worse, 0 better, 0 inconclusive"),
        (&[&good, &slow], 3, "a latency p50: was"),
        (&[&good, &slow, "--allow", "figure"], 0, "golden: 0 worse"),
        (&[&slow, &good], 0, "golden: 0 worse, 4 better, 0 inconclusive"),
        (&[&good, &other], 3, "golden: ran before, but is missing now"),
        (&[&good, &other, "--allow", "missing-scenario"], 2, "not compared"),
        (&[&good, &slow, "--allow", "figures"], 64, "expected one of missing-scenario"),
    ];
    for (arguments, code, said) in rows {
        let (got, text) = hookproof(&[&["compare"], arguments].concat());
        assert!(
            got == Some(code) && text.contains(said),
            "{arguments:?}: {got:?}, expected {said:?} in {text}"
        );
    }
}

#[test]
fn a_fault_that_the_driver_cannot_aim_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("x.toml");
    let text = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"one\"\n\
                [[fault]]\nat = \"1s\"\ndo = \"kill\"\nworker = \"owner of one\"\n";
    std::fs::write(&scenario, text).unwrap();
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/drivers/svix.toml");
    let (scenario, driver, out) =
        (scenario.display().to_string(), driver.display().to_string(), folder.path().join("out"));
    let arguments = ["run", &scenario, "--driver", &driver, "--out", &out.display().to_string()];
    let (code, said) = hookproof(&arguments);
    assert!(code == Some(64) && said.contains("owner of one, which the driver"), "{code:?}: {said}");
}

/// The sender deletes its log at its stop, so it cannot be restarted.
#[test]
fn a_run_that_breaks_off_has_its_trace_and_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, driver, out, junit) =
        (file("x.toml"), file("driver.toml"), file("out"), file("junit.xml"));
    let text = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"one\"\n\
                [[fault]]\nat = \"100ms\"\ndo = \"restart\"\n";
    std::fs::write(&scenario, text).unwrap();
    let ours = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/drivers/hookproof.toml"),
    );
    let log = folder.path().join("out/x/sender-0.log");
    let script =
        format!("trap 'rm {0}; mkdir {0}; exit 0' TERM; \\\"$0\\\" \\\"$@\\\" & wait", log.display());
    let command = format!("command = [\n\"/bin/sh\", \"-c\", \"{script}\",");
    let text = ours.unwrap().replace("command = [", &command);
    std::fs::write(&driver, text).unwrap();
    let arguments = ["run", &scenario, "--driver", &driver, "--out", &out, "--junit", &junit];
    let (code, said) = hookproof(&arguments);
    assert!(code == Some(70) && said.contains("the run broke off"), "{code:?}: {said}");
    let trace = Trace::open(&folder.path().join("out/x/trace.jsonl")).unwrap();
    assert!(trace.trailer.is_some(), "the trace has its end");
    assert!(folder.path().join("out/x/report.json").exists());
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(counted(&xml, "errors") > 0, "{xml}");
}
