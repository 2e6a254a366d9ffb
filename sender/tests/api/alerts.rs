//! Without `promtool`, its checks are skipped unless `HOOKPROOF_DEMANDS` names it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

pub(crate) const ALERTS: &str = include_str!("../../alerts.yml");
const CASES: &str = include_str!("../../alerts_test.yml");
const GUIDE: &str = include_str!("../../../docs/alerts.md");
pub(crate) const DASHBOARD: &str = include_str!("../../dashboard.json");

fn alerts() -> BTreeSet<&'static str> {
    ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Cases {
    firing: usize,
    silent: usize,
}

/// A case must state that it expects nothing: promtool takes a forgotten list for an empty one.
fn cases(text: &str) -> BTreeMap<&str, Cases> {
    let mut found: BTreeMap<&str, Cases> = BTreeMap::new();
    for case in text.split("alertname: ").skip(1) {
        let name = case.split([',', '\n']).next().unwrap();
        let (_, expected) = case.split_once("exp_alerts:").unwrap_or_else(|| panic!("{name}: no exp_alerts"));
        let counts = found.entry(name).or_default();
        match expected.trim_start() {
            list if list.starts_with("[]") => counts.silent += 1,
            list if list.starts_with("- exp_labels:") => counts.firing += 1,
            list => panic!("{name}: neither a list nor none: {list}"),
        }
    }
    found
}

#[test]
fn each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() {
    let (alerts, cases) = (alerts(), cases(CASES));
    assert!(alerts.len() >= 19, "{alerts:?}");
    assert_eq!(cases.keys().copied().collect::<BTreeSet<_>>(), alerts);
    let untried: Vec<_> = cases.iter().filter(|(_, cases)| cases.firing == 0 || cases.silent == 0).collect();
    assert!(untried.is_empty(), "{untried:?}");
}

#[test]
fn cases_are_told_apart() {
    let text = "- { alertname: A, eval_time: 1m, exp_alerts: [] }\n- alertname: B\n  eval_time: 1m\n  exp_alerts:\n    \
                - exp_labels: { a: b }\n- { alertname: B, exp_alerts: [] }\n";
    let expected = [("A", Cases { firing: 0, silent: 1 }), ("B", Cases { firing: 1, silent: 1 })];
    assert_eq!(cases(text), BTreeMap::from(expected));
}

#[test]
fn each_alert_has_one_row_in_the_guide() {
    let rows = GUIDE.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    assert_eq!(rows, alerts().into_iter().collect::<Vec<_>>());
    let short = GUIDE.lines().filter(|line| line.starts_with("| `") && line.split(" | ").count() != 3);
    assert_eq!(short.collect::<Vec<_>>(), Vec::<&str>::new());
}

fn promtool(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("promtool")).find(|file| file.is_file());
    if found.is_none() {
        let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
        assert!(!demands.split(',').any(|demand| demand == "promtool"), "{test}: no promtool on the PATH");
        eprintln!("{test}: skipped: no promtool on the PATH");
    }
    found
}

#[track_caller]
fn passes(promtool: &Path, arguments: &[&str], file: &Path) {
    let output = Command::new(promtool).args(arguments).arg(file).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn the_rules_are_valid_and_fire_when_they_should() {
    let Some(promtool) = promtool("the_rules_are_valid_and_fire_when_they_should") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    passes(&promtool, &["check", "rules", "--lint=all", "--lint-fatal"], &folder.join("alerts.yml"));
    passes(&promtool, &["test", "rules"], &folder.join("alerts_test.yml"));
}

/// Without rows, which are only headings.
fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().filter(|panel| panel["type"] != "row").cloned().collect()
}

fn queries() -> Vec<String> {
    let panels = panels();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "5m")).collect()
}

#[test]
fn each_panel_says_what_it_shows() {
    let panels = panels();
    assert!(panels.len() >= 15, "{}", panels.len());
    let mut titles = BTreeSet::new();
    for panel in &panels {
        let title = panel["title"].as_str().unwrap();
        assert!(!title.is_empty() && titles.insert(title), "{title}");
        assert!(panel["description"].as_str().is_some_and(|told| told.len() > 20), "{title}");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title}");
    }
}

/// Each query becomes a rule. JSON is YAML.
#[test]
fn each_query_of_the_dashboard_is_valid() {
    let Some(promtool) = promtool("each_query_of_the_dashboard_is_valid") else { return };
    let rules: Vec<_> = queries()
        .iter()
        .enumerate()
        .map(|(n, expr)| json!({ "record": format!("query:{n}"), "expr": expr }))
        .collect();
    let text = json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard.yml");
    std::fs::write(&file, text).unwrap();
    passes(&promtool, &["check", "rules"], &file);
}
