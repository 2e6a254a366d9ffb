//! `HOOKPROOF_GOLDEN=write cargo test -p hookproof --test all page::golden` rewrites the outlines; review the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use hdrhistogram::Histogram;
use hookproof::load::{Bracket, Found, Search, Slo, Trial};
use hookproof::suite::{Bodies, LeftOut, Recorded, Report, Row};
use hookproof_judge::catalogue::{self, Verdict};
use hookproof_judge::check::{Strictness, judge};
use hookproof_judge::report;
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;
use hookproof_simulator::plan::machine::Machine;
use hookproof_simulator::plan::{PlanRequest, page, plan};

#[track_caller]
fn check(name: &str, html: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/golden").join(format!("{name}.txt"));
    let outline = outline(html);
    if std::env::var_os("HOOKPROOF_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, &outline).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = outline.lines().zip(kept.lines()).find(|(is, was)| is != was);
    assert!(outline == kept, "{name}: the page differs from {}, first in {differs:?}", path.display());
}

fn outline(html: &str) -> String {
    let main = html.split_once("<main>").and_then(|(_, rest)| rest.split_once("</main>")).expect("a page").0;
    let (mut lines, mut folded) = (String::new(), 0_u32);
    for piece in main.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("tags are closed");
        match tag.split_whitespace().next().unwrap_or_default() {
            "details" => folded += 1,
            "/details" => folded -= 1,
            "summary" => lines.push_str(&format!("▸ {text}\n")),
            "polyline" | "path" | "rect" | "line" if folded == 0 => lines.push_str(&format!("<{tag}>\n")),
            _ if folded == 0 && !text.trim().is_empty() => lines.push_str(&format!("{text}\n")),
            _ => {}
        }
    }
    lines
}

fn trace(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // The page then names no local folder.
    render_page(&root, "check", &PathBuf::from("scenarios/traces").join(name))
}

fn render_page(here: &Path, command: &str, file: &Path) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_hookproof"));
    program.current_dir(here).arg(command).arg(file).arg("--html").arg(&page).output().expect("it starts");
    std::fs::read_to_string(&page).expect("a page")
}

#[test]
fn pages_are_as_they_were() {
    for (name, html) in PAGES.iter() {
        check(name, html);
    }
}

pub(crate) static PAGES: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    vec![
        ("pass", trace("good.jsonl")),
        ("over-rate", trace("over-rate.jsonl")),
        ("live", live()),
        ("early-retry", trace("early-retry.jsonl")),
        ("inconclusive", trace("cut-short.jsonl")),
        ("after-the-end", trace("after-the-end.jsonl")),
        ("thousand", thousand()),
        ("receiver", receiver()),
        ("load", load()),
        ("plan", small_plan()),
        ("gallery", super::gallery::gallery()),
    ]
});

fn live() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces/good.jsonl");
    let trace = std::fs::read_to_string(path).expect("a trace");
    let begun: Vec<&str> = trace.lines().take(120).collect();
    let trace = Trace::read(begun.join("\n").as_bytes()).expect("a beginning");
    let scenario = Scenario::from_text(&trace.header.scenario_toml, "golden.toml").expect("valid");
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let report = report::Report::new(&scenario, &trace, judgement, String::new());
    report::html_live(&report, Path::new("reports/runs/golden/report.html"), false)
}

pub(crate) fn thousand() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "name = \"many\"\n[[traffic]]\nshape = \"steady\"\nrate = \"4/s\"\nlasts = \"1s\"\n[[subscriber]]\nname = \"many\"\n\
                count = 1000\n";
    std::fs::write(folder.path().join("many.toml"), text).expect("written");
    render_page(folder.path(), "sim", Path::new("many.toml"))
}

fn wrong_exchange() -> Recorded {
    Recorded {
        label: "a body <of another>".to_owned(),
        request: "POST / HTTP/1.1\n\n{}".to_owned(),
        wanted: "4xx".to_owned(),
        came: "200".to_owned(),
        answer: "HTTP/1.1 200".to_owned(),
        seconds: 0.0125,
        met: false,
        curl: Some("curl -sS -i 'http://127.0.0.1/'".to_owned()),
        no_curl: None,
    }
}

fn receiver() -> String {
    let row = |id: &str, verdict: Verdict, came: &str, exchanges: Vec<Recorded>| {
        let entry = catalogue::find(id).expect("a case");
        let is_forged = !exchanges.is_empty();
        Row {
            id: id.to_owned(),
            section: entry.section().to_owned(),
            severity: entry.severity,
            verdict,
            expected: entry.requirement.clone(),
            came: came.to_owned(),
            is_accident: false,
            had_no_effect: false,
            remedy: entry.remedy.clone(),
            wrong: is_forged.then(|| "forged requests are accepted: 2xx where 4xx is due".to_owned()),
            cause: is_forged.then(|| "sig.wrong-secret".to_owned()),
            known: None,
            seconds: 0.0125,
            exchanges,
        }
    };
    let report = Report {
        version: "0".to_owned(),
        target: "http://127.0.0.1/".to_owned(),
        profile: "github".to_owned(),
        strict: false,
        interrupted: false,
        date: "2026-01-31".to_owned(),
        seconds: 12.0,
        rows: vec![
            row("sig.valid", Verdict::Pass, "204", Vec::new()),
            row("sig.truncated", Verdict::Fail, "a body <of another>: 200", vec![wrong_exchange()]),
            row("sig.encoding", Verdict::Warn, "a body <of another>: 200", vec![wrong_exchange()]),
            row("replay.exact", Verdict::Fail, "2 effects", Vec::new()),
            row("ack.fast", Verdict::Inconclusive, "nothing; needs --effects-url", Vec::new()),
        ],
        stale: vec!["time.old".to_owned()],
        left_out: LeftOut {
            skipped: vec!["limit.slow".to_owned(), "timing.remote".to_owned()],
            without: BTreeMap::from([(
                "--restart-command".to_owned(),
                vec!["replay.after-restart".to_owned()],
            )]),
            bodies: Bodies::All,
            unselected: 0,
        },
        is_command: false,
        again: "--profile github --secret-env HOOK_SECRET".to_owned(),
    };
    report.page()
}

fn load() -> String {
    let mut latency = Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds");
    latency.record_n(2_000, 990).expect("recorded");
    latency.record_n(150_000, 10).expect("recorded");
    let trial = Trial {
        per_second: 500.0,
        due: 1_000,
        missed: 0,
        statuses: BTreeMap::from([(204, 1_000)]),
        unanswered: BTreeMap::new(),
        latency,
        lag: Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds"),
        took: Duration::from_secs(2),
    };
    let slo: Slo = "p99<100ms".parse().expect("an objective");
    let mut search = Search::new(slo);
    search.add(&trial);
    search.add(&Trial { per_second: 250.0, ..trial.clone() });
    let statuses = BTreeMap::from([(204, 900), (503, 60)]);
    let mut slow = trial.latency.clone();
    slow.record_n(400_000, 500).expect("recorded");
    search.add(&Trial { per_second: 1_000.0, missed: 40, statuses, latency: slow.clone(), ..trial.clone() });
    search.add(&Trial { per_second: 750.0, missed: 5, latency: slow, ..trial.clone() });
    let bracket = Bracket { holds: 500, breaks: Some(750), confirmed: true, ..Bracket::default() };
    let found = Found { bracket, best: Some(trial.clone()), trials: 4 };
    trial.page("http://127.0.0.1/", "2026-01-31", Some(&search), found.verdict(&slo))
}

fn small_plan() -> String {
    let text = "name = \"small\"\n[[traffic]]\nshape = \"burst\"\nevents = 40\n[[subscriber]]\nname = \"partner\"\ncount = 3\n\
                limit = { rate = \"10/s\", burst = 5 }\n[[subscriber]]\nname = \"slow\"\n\
                limit = { rate = \"4/s\", burst = 2 }\n";
    let scenario = Scenario::from_text(text, "small.toml").expect("valid");
    let asked = PlanRequest {
        slos: vec!["p95<5s".parse().expect("an objective")],
        carry: None,
        headroom: true,
        seeds: 1,
        machine: Machine {
            ceiling_per_second: Some(10_000),
            carries_per_second: Some(3_000),
            source: "given".to_owned(),
            ..Machine::default()
        },
        conditions: Vec::new(),
        options: hookproof_simulator::sim::Options::default(),
    };
    page(&plan(&scenario, &asked).expect("a plan"))
}
