use std::fs;
use std::path::{Path, PathBuf};

use hookproof_judge::scenario::Scenario;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

fn shipped() -> Vec<(String, Scenario)> {
    let entries = fs::read_dir(folder()).expect("the folder of scenarios");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("text");
        let scenario = Scenario::from_text(&text, &name).unwrap_or_else(|problems| {
            panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        (name, scenario)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn every_shipped_scenario_is_valid_and_called_after_its_file() {
    for (file, scenario) in shipped() {
        assert_eq!(format!("{}.toml", scenario.name), file);
    }
}

#[test]
fn every_shipped_scenario_says_what_it_is_for() {
    for (file, scenario) in shipped() {
        assert!(scenario.about.len() > 40 && scenario.about.ends_with('.'), "{file}: {:?}", scenario.about);
    }
}

#[test]
fn the_promised_scenarios_are_all_there() {
    let names: Vec<String> = shipped().into_iter().map(|(_, scenario)| scenario.name).collect();
    let promised = [
        "viral-spike",
        "eurovision",
        "eurovision-mini",
        "skateboard",
        "skateboard-minutes",
        "skateboard-mini",
        "slow-endpoint",
        "lasting-slowdown",
        "dead-endpoint",
        "retry-after",
        "stall-then-flood",
        "recovery-storm",
        "crash-loop",
        "two-workers",
        "nodes-kill",
        "nodes-rolling",
        "nodes-partition",
        "nodes-clock",
        "scale-out",
        "database-restart",
        "rotated-credentials",
        "gone",
        "enforcing-partner",
        "hostile-answers",
        "burst-after-idle",
        "live-change",
        "hung-majority",
        "many-subscribers",
        "overflow",
        "throughput",
    ];
    for name in promised {
        assert!(names.iter().any(|have| have == name), "{name} is missing");
    }
}

#[test]
fn every_shipped_scenario_survives_being_changed_and_written_again() {
    for (file, scenario) in shipped() {
        let changed =
            Scenario::from_text_with(&scenario.text, &file, &["drain=7s".to_owned()]).expect("valid");
        let again = Scenario::from_text(&changed.text, &file).expect("what is written reads back");
        assert_eq!(again, changed, "{file}");
    }
}
