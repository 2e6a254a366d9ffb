use std::process::{Command, Output};

use hookproof_judge::check::Status;

use crate::sim::{read, reduced};

fn hookproof(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hookproof")).args(arguments).env("NO_COLOR", "1").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn check_named(text: &str, beginning: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(beginning))?;
    Some(line.split(": ").next()?.to_owned())
}

#[test]
fn the_printed_command_repeats_what_was_found() {
    let file = reduced();
    for mutant in ["charged-on-send", "lease-not-fenced", "settle-lost", "pause-forgotten"] {
        let sweep = hookproof(&["sim", file.to_str().unwrap(), "--seeds", "1000", "--mutant", mutant]);
        let told = stdout(&sweep);
        assert_eq!(sweep.status.code(), Some(1), "{told}");
        let repeat =
            told.lines().find_map(|line| line.trim_start().strip_prefix("repeat: hookproof ")).unwrap();
        let seed = told.split("seed ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let found = check_named(&told, &format!("reduced-viral-spike: seed {seed} fails: ")).unwrap();
        let arguments: Vec<&str> = repeat.split(' ').collect();
        let again = hookproof(&arguments);
        assert_eq!(again.status.code(), Some(1), "{repeat}");
        assert!(stdout(&again).contains(&format!("FAIL {found}: ")), "{repeat} does not repeat {found}");
    }
}

#[test]
fn reports_are_written_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [json, junit, html] = ["report.json", "junit.xml", "report.html"].map(file);
    let scenario = reduced().display().to_string();
    let mutant = ["--seed", "4", "--mutant", "charged-on-send"];
    let forms = ["--json", &json, "--junit", &junit, "--html", &html];
    let (code, text) = code_and_output(&[&["sim", &scenario][..], &mutant, &forms].concat());
    assert_eq!(code, Some(1), "{text}");
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let report: hookproof_judge::report::Report = serde_json::from_str(&read(&json)).unwrap();
    let failed = check_named(&text, "FAIL ").unwrap();
    assert!(
        report.judgement.verdicts.iter().any(|one| one.id == failed && one.status == Status::Fail),
        "{failed}"
    );
    assert!(read(&junit).contains("<failure message=\"fail: ") && read(&html).contains(&failed));
    let again: Vec<&str> = report.repeat.split(' ').skip(1).collect();
    assert_eq!(check_named(&code_and_output(&again).1, "FAIL "), Some(failed), "{}", report.repeat);
}

#[test]
fn an_unwritable_report_is_refused_and_an_unplayable_scenario_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("junit.xml").display().to_string();
    let scenario = reduced().display().to_string();
    let cases: [(&[&str], &str); 3] = [
        (&["sim", &scenario, "--seeds", "2", "--junit", &junit], "leave out --figures and --seeds"),
        (&["sim", &scenario, "--json", "-"], "--json needs a file"),
        (&["sim", &scenario, "--set", "nothing=1", "--junit", &junit], "nothing"),
    ];
    for (arguments, said) in cases {
        let (code, text) = code_and_output(arguments);
        assert!(code == Some(64) && text.contains(said), "{arguments:?}: {code:?} {text}");
    }
    assert!(std::fs::read_to_string(&junit).unwrap().contains("errors=\"1\""));
}

#[test]
fn a_seed_that_fails_nothing_exits_with_0_and_says_how_it_went() {
    let output = hookproof(&["sim", reduced().to_str().unwrap(), "--seeds", "40"]);
    assert_eq!(
        (output.status.code(), stdout(&output).contains("seeds: 40, judged: 32, in")),
        (Some(0), true)
    );
    let nonsense = hookproof(&["sim", "nowhere.toml"]);
    assert_eq!(nonsense.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&nonsense.stderr).contains("nowhere.toml cannot be read"));
}

fn written(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.toml"));
    std::fs::write(&path, format!("name = \"{name}\"\ndrain = \"5s\"\n{text}")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn code_and_output(arguments: &[&str]) -> (Option<i32>, String) {
    let output = hookproof(arguments);
    (output.status.code(), stdout(&output) + &String::from_utf8_lossy(&output.stderr))
}

const UNWANTED: &str = r#"
[[traffic]]
shape = "steady"
rate  = "20/s"
lasts = "2s"
[events]
types = { a = 1 }
[[subscriber]]
name   = "a"
events = ["b"]
"#;

#[test]
fn an_unjudged_run_has_not_passed() {
    let empty = tempfile::tempdir().unwrap();
    let (_folder, unwanted) = written("unwanted", UNWANTED);
    let (_folder, many) = written(
        "many",
        "[[traffic]]\nshape = \"burst\"\nevents = 400_001\n[events]\ntypes = { a = 1 }\n[[subscriber]]\nname = \"a\"\nevents = [\"b\"]\n",
    );
    let cases: [(&[&str], i32, &str); 6] = [
        (&["sim", empty.path().to_str().unwrap()], 2, "no scenarios"),
        (&["sim", &unwanted], 2, "INCONCLUSIVE"),
        (&["sim", &unwanted, "--seeds", "3"], 2, "INCONCLUSIVE"),
        (&["sim", &unwanted, "--seeds", "0"], 64, "0 is not in"),
        (&["sim", &many], 2, "not judged"),
        (&["sim", &unwanted, "--seeds", "3", "--figures"], 64, "cannot be used with"),
    ];
    for (arguments, code, said) in cases {
        let (exit, text) = code_and_output(arguments);
        assert_eq!(exit, Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn figures_are_weighed_by_the_stores_own_counts() {
    let steady =
        "[[traffic]]\nshape = \"steady\"\nrate = \"20/s\"\nlasts = \"3s\"\n[[subscriber]]\nname = \"a\"\n";
    let repeated = format!("{steady}[events]\nrepeated = 0.3\n");
    let coalesced = format!("{steady}coalesce = [{{ type = \"video.trending\", window = \"10s\" }}]\n");
    for (name, text) in [("repeated", repeated), ("coalesced", coalesced)] {
        let (_folder, path) = written(name, &text);
        let (exit, text) = code_and_output(&["sim", &path, "--figures"]);
        assert_eq!(exit, Some(0), "{text}");
    }
}

#[test]
fn the_trace_of_a_sweeps_failure_is_kept_where_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (reduced(), folder.path().to_str().unwrap());
    let sweep =
        ["sim", file.to_str().unwrap(), "--seeds", "100", "--mutant", "charged-on-send", "--out", out];
    let (exit, text) = code_and_output(&sweep);
    assert_eq!(exit, Some(1), "{text}");
    let trace = std::fs::read(folder.path().join(read(&file).name).join("trace.jsonl")).unwrap();
    let trace = hookproof_judge::trace::Trace::read(trace.as_slice()).unwrap();
    assert!(text.contains(&format!("--seed {} ", trace.header.seed)), "{text}");
}

#[cfg(target_os = "linux")]
const LONG: &str = "[[traffic]]\nshape = \"burst\"\nevents = 1\n[[traffic]]\nshape = \"pause\"\nlasts = \"100000h\"\n\
                    [[subscriber]]\nname = \"a\"\n";

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_simulation_says_so_and_leaves_nothing_behind() {
    let (_folder, path) = written("long", LONG);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    let said = crate::interrupted::interrupted(command.args(["sim", &path, "--figures", "--yes-it-takes"]));
    assert!(said.contains("interrupted after"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_second_interrupt_ends_a_simulation_at_once_and_leaves_nothing_behind() {
    let (folder, path) = written("long", LONG);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    // A folder where a core may be dumped.
    command.args(["sim", &path, "--figures", "--yes-it-takes"]).current_dir(folder.path());
    let (child, database) = crate::interrupted::in_its_midst(&mut command);
    // The process cannot end between them.
    ["-STOP", "-INT", "-TERM", "-CONT"].iter().for_each(|signal| crate::interrupted::send(&child, signal));
    child.wait_with_output().unwrap();
    assert!(!database.parent().unwrap().exists(), "{} is left behind", database.display());
}

#[test]
#[cfg(target_os = "linux")]
fn a_simulation_that_was_started_to_outlive_its_terminal_does_so() {
    let (_folder, path) = written("long", LONG);
    let mut command = Command::new("/bin/sh");
    let program = env!("CARGO_BIN_EXE_hookproof");
    command.args([
        "-c",
        "trap '' HUP; exec \"$0\" \"$@\"",
        program,
        "sim",
        &path,
        "--figures",
        "--yes-it-takes",
    ]);
    let (child, _) = crate::interrupted::in_its_midst(&mut command);
    // The second signal would have aborted it.
    ["-STOP", "-HUP", "-TERM", "-CONT"].iter().for_each(|signal| crate::interrupted::send(&child, signal));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_long_simulation_needs_a_confirmation() {
    let huge = "[[traffic]]\nshape = \"steady\"\nrate = \"1000/s\"\nlasts = \"1h\"\n[[subscriber]]\nname = \"many\"\n\
                count = 300\n";
    let year = "[[traffic]]\nshape = \"pause\"\nlasts = \"100000h\"\n[[subscriber]]\nname = \"a\"\n";
    let rows: [(&str, &str, &[&str], &[&str]); 3] = [
        (
            "huge",
            huge,
            &[],
            &[
                "huge: 3.6 M events → 1 G deliveries to 300 subscribers, about 3 h of one quiet core\n",
                "hookproof sim: huge: this takes about 3 h of one quiet core; 300 × many get 100 % of the deliveries: ",
                "; or add --yes-it-takes\n",
            ],
        ),
        (
            "year",
            year,
            &[],
            &["year: 0 events → 0 deliveries to 1 subscriber, about ", "shorten the traffic"],
        ),
        // Only the length of one simulation is asked for; a number of seeds is a choice.
        (
            "seeds",
            huge,
            &["--seeds", "3"],
            &["with each seed, about 9 h of one quiet core\n", "this takes about 3 h of"],
        ),
    ];
    for (name, scenario, options, parts) in rows {
        let (_folder, path) = written(name, scenario);
        let (exit, text) = code_and_output(&[&["sim", &path][..], options].concat());
        assert_eq!(exit, Some(64), "{text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
    }
}
