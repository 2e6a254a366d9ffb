use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::gate::api::Api;
use crate::gate::{archive, combined_output, path, root, succeeds, there_is};

const SCENARIO: &str = r#"
name = "gate"
drain = "20s"
linger = "500ms"
[[traffic]]
shape = "burst"
events = 40
[[subscriber]]
name = "partner"
limit = { rate = "20/s", burst = 5, in_flight = 5 }
"#;

const BOT: &str = "github-actions[bot]";

const BRANCH: &str = "main$(touch pwned)`touch pwned`<b>@everyone";

struct Job {
    folder: tempfile::TempDir,
    variables: BTreeMap<&'static str, String>,
}

struct Step {
    code: Option<i32>,
    log: String,
    summary: String,
    outputs: BTreeMap<String, String>,
}

impl Job {
    fn new(api: &Api) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in ["work space/ba se", "temp"] {
            fs::create_dir_all(file(name)).unwrap();
        }
        fs::write(file("event.json"), r#"{"pull_request": {"number": 7}}"#).unwrap();
        fs::write(file("work space/sce nario $(touch pwned).toml"), SCENARIO).unwrap();
        let text = |name: &str| file(name).display().to_string();
        let variables = BTreeMap::from([
            ("RUNNER_TEMP", text("temp")),
            ("GITHUB_STEP_SUMMARY", text("summary.md")),
            ("GITHUB_OUTPUT", text("output")),
            ("GITHUB_PATH", text("path")),
            ("GITHUB_EVENT_PATH", text("event.json")),
            ("GITHUB_API_URL", api.url.clone()),
            ("GITHUB_SERVER_URL", "https://code.example".to_owned()),
            ("GITHUB_REPOSITORY", "owner/shop".to_owned()),
            ("GITHUB_RUN_ID", "42".to_owned()),
            ("GITHUB_BASE_REF", BRANCH.to_owned()),
            ("GITHUB_TOKEN", "a-token".to_owned()),
            ("GATE_NAME", "hookproof".to_owned()),
            ("GATE_SCENARIOS", "sce nario $(touch pwned).toml\n".to_owned()),
            ("GATE_DRIVER", "dri ver.toml".to_owned()),
            ("GATE_BASE", "ba se".to_owned()),
            ("GATE_BASELINE", String::new()),
            ("GATE_ALLOW", "figure".to_owned()),
            ("GATE_TIMES", "1".to_owned()),
            // Checks that do not depend on the machine's load.
            ("GATE_ARGUMENTS", "--only\nrate.envelope,loss,identity\n--skip\nharness".to_owned()),
            ("GATE_AUTHOR", BOT.to_owned()),
            ("GATE_SUMMARY", text("temp/hookproof/summary.md")),
        ]);
        let job = Self { folder, variables };
        job.driver("ba se/dri ver.toml", |text| text);
        job.driver("dri ver.toml", |text| text);
        job
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("work space").join(name)
    }

    fn driver(&self, name: &str, change: fn(String) -> String) {
        let ours = fs::read_to_string(root().join("scenarios/drivers/hookproof.toml")).unwrap();
        fs::write(self.file(name), change(ours)).unwrap();
    }

    fn step(&self, script: &str) -> Step {
        let [summary, output] = ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"].map(|name| &self.variables[name]);
        fs::write(summary, "").unwrap();
        fs::write(output, "").unwrap();
        let ended = Command::new("bash")
            .arg(root().join(".github/actions/hookproof").join(script))
            .current_dir(self.file("."))
            .env("PATH", path())
            .envs(&self.variables)
            .output()
            .unwrap();
        let outputs = fs::read_to_string(output).unwrap();
        let outputs = outputs.lines().map(|line| line.split_once('=').unwrap());
        assert!(!self.file("pwned").exists() && !self.file("ba se/pwned").exists(), "a name was executed");
        Step {
            code: ended.status.code(),
            log: combined_output(&ended),
            summary: fs::read_to_string(summary).unwrap(),
            outputs: outputs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }
}

fn generous(text: String) -> String {
    let changed = text
        .replace(r#""limit": {{ limit }},"#, r#""limit": {"rate": "200/s", "burst": 50, "in_flight": 50},"#);
    assert_ne!(changed, text);
    changed
}

#[test]
fn the_first_run_comments_the_second_updates_and_a_regression_fails_with_its_witness() {
    if !there_is("jq", "the gate") || !there_is("curl", "the gate") {
        return;
    }
    let api = Api::start();
    // Comments of other authors stay, with or without the marker; ours is on the second page.
    api.add("mallory", "<!-- hookproof gate: hookproof -->\nmine");
    (0..120).for_each(|n| api.add("somebody", &n.to_string()));
    let job = Job::new(&api);

    let passed = job.step("judge");
    let code = passed.outputs.get("exit-code").map(String::as_str);
    assert_eq!((passed.code, code), (Some(0), Some("0")), "{}", passed.log);
    assert!(passed.summary.starts_with("# Hookproof: passed\n"), "{}", passed.summary);
    assert!(passed.summary.contains("gate: 0 worse"), "{}", passed.summary);
    assert!(!passed.log.contains("::error"), "{}", passed.log);
    let comment = job.step("comment");
    assert_eq!(comment.code, Some(0), "{}", comment.log);
    let [first] = api.of(BOT).try_into().unwrap();
    assert!(first.starts_with("<!-- hookproof gate: hookproof -->\n# Hookproof: passed"), "{first}");
    let list = "GET /repos/owner/shop/issues/7/comments";
    assert_eq!(api.calls(), [list, list, "POST /repos/owner/shop/issues/7/comments"]);

    job.driver("dri ver.toml", generous);
    let failed = job.step("judge");
    assert_eq!(failed.code, Some(0), "the verdict is another step's: {}", failed.log);
    assert_eq!(failed.outputs["exit-code"], "1", "{}", failed.log);
    assert_eq!(failed.outputs["verdict"], "failed");
    let witness = "20/s with burst 5 allows";
    let row = failed
        .summary
        .lines()
        .find(|line| line.starts_with('|') && line.contains("`rate.envelope`"))
        .unwrap();
    assert!(row.starts_with("| FAIL | ") && row.contains(witness), "{row}");
    assert!(failed.summary.contains("rate.envelope: was PASS, is FAIL"), "{}", failed.summary);
    assert!(failed.summary.contains("arrivals █"), "a picture of the worst lane: {}", failed.summary);
    let error =
        failed.log.lines().find(|line| line.starts_with("::error ") && line.contains("rate.envelope"));
    assert!(error.is_some_and(|line| line.contains(witness)), "{}", failed.log);
    let expected = BRANCH.replace('<', "&lt;").replace('>', "&gt;");
    assert!(failed.summary.contains(&expected) && !failed.summary.contains("<b>"), "{}", failed.summary);
    job.step("comment");
    let [second] = api.of(BOT).try_into().unwrap();
    assert!(second.contains(witness), "{second}");
    assert_eq!(api.calls(), [list, list, "PATCH /repos/owner/shop/issues/comments/122"]);
    assert_eq!(api.of("mallory"), ["<!-- hookproof gate: hookproof -->\nmine"]);
}

#[test]
fn output_of_a_sender_is_neither_a_runner_command_nor_markup() {
    if !there_is("jq", "the gate") {
        return;
    }
    let api = Api::start();
    let mut job = Job::new(&api);
    job.variables.insert("GATE_BASE", String::new());
    let loud = r#"
name = "loud"
[start]
command = ["sh", "-c", "echo '::error::pwned @everyone <img src=x> `x`' >&2; exit 3"]
ready = "{{ base }}/"
within = "5s"
[subscribe]
request = "POST {{ base }}/"
[emit]
request = "POST {{ base }}/"
body = "{{ data }}"
"#;
    fs::write(job.file("dri ver.toml"), loud).unwrap();
    let step = job.step("judge");
    assert_eq!((step.code, step.outputs["exit-code"].as_str()), (Some(0), "4"), "{}", step.log);
    assert!(step.summary.starts_with("# Hookproof: sender not reached\n"), "{}", step.summary);
    assert!(step.summary.contains("## gate: not judged"), "{}", step.summary);
    assert!(!step.summary.contains("<img") && !step.summary.contains("@everyone"), "{}", step.summary);
    let mut stopped = None;
    for line in step.log.lines() {
        if let Some(token) = line.strip_prefix("::stop-commands::") {
            stopped = Some(format!("::{token}::"));
        } else if stopped.as_deref() == Some(line) {
            stopped = None;
        } else if stopped.is_none() {
            assert!(!line.contains("::error::pwned"), "the runner reads {line}");
        }
    }
    assert_eq!(stopped, None, "the runner listens again");
}

#[test]
fn a_token_that_may_only_read_is_told_and_fails_nothing() {
    if !there_is("jq", "the gate") || !there_is("curl", "the gate") {
        return;
    }
    let api = Api::start();
    let job = Job::new(&api);
    fs::create_dir_all(job.folder.path().join("temp/hookproof")).unwrap();
    let long = "é@\n".repeat(40_000);
    fs::write(&job.variables["GATE_SUMMARY"], long).unwrap();
    api.refuse_writes();
    let step = job.step("comment");
    assert!(
        step.code == Some(0) && step.log.contains("::warning") && step.log.contains("HTTP 403"),
        "{}",
        step.log
    );
    assert_eq!(api.of(BOT), Vec::<String>::new());
}

#[test]
fn a_comment_is_cut_before_it_is_too_long() {
    if !there_is("jq", "the gate") || !there_is("curl", "the gate") {
        return;
    }
    let api = Api::start();
    let job = Job::new(&api);
    fs::create_dir_all(job.folder.path().join("temp/hookproof")).unwrap();
    fs::write(&job.variables["GATE_SUMMARY"], "é\n".repeat(40_000)).unwrap();
    let step = job.step("comment");
    let [comment] = api.of(BOT).try_into().unwrap_or_else(|_| panic!("{}", step.log));
    assert!(comment.chars().count() < 65_536 && comment.ends_with("has all of it."), "{}", comment.len());
}

#[test]
fn a_gate_with_an_invalid_name_or_no_scenario_is_refused() {
    if !there_is("jq", "the gate") {
        return;
    }
    let api = Api::start();
    for (name, value) in [("GATE_NAME", "../x"), ("GATE_SCENARIOS", "\n")] {
        let mut job = Job::new(&api);
        job.variables.insert(name, value.to_owned());
        let step = job.step("judge");
        assert!(step.code == Some(64) && step.log.contains("::error"), "{name}: {}", step.log);
    }
    let mut job = Job::new(&api);
    job.variables.insert("GATE_SCENARIOS", "no-such.toml".to_owned());
    let step = job.step("judge");
    assert_eq!(step.outputs["exit-code"], "64", "{}", step.log);
    assert!(step.log.contains("the base was not judged"), "{}", step.log);
}

#[test]
fn a_job_uses_the_program_that_is_there() {
    let api = Api::start();
    let mut job = Job::new(&api);
    job.variables.insert("GATE_VERSION", "latest".to_owned());
    let step = job.step("install");
    assert!(step.code == Some(0) && step.log.contains("is here already"), "{}", step.log);
}

#[test]
fn a_job_installs_the_release_that_was_asked_for_or_none() {
    if !there_is("curl", "the gate") {
        return;
    }
    let api = Api::start();
    let mut job = Job::new(&api);
    let file = |name: &str| job.folder.path().join(name);
    for release in ["latest/download", "download/v0.0.1"] {
        archive::releases(&file("host/owner/hookproof/releases").join(release));
    }
    let host = "https://code.example".to_owned();
    let tools = archive::curl_for("https://code.example", &file("host"), &file("tools"));
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    job.variables.extend([
        ("GITHUB_SERVER_URL", host),
        ("GATE_REPOSITORY", "owner/hookproof".to_owned()),
        ("PATH", path),
    ]);

    job.variables.insert("GATE_VERSION", "latest".to_owned());
    let step = job.step("install");
    assert_eq!(step.code, Some(0), "{}", step.log);
    let folder = fs::read_to_string(&job.variables["GITHUB_PATH"]).unwrap();
    let version = succeeds(Command::new(PathBuf::from(folder.trim()).join("hookproof")).arg("--version"));
    assert_eq!(version.trim(), format!("hookproof {}", env!("CARGO_PKG_VERSION")));

    // A version that does not exist, and one whose list names another version's archive.
    for version in ["v9.9.9", "v0.0.1"] {
        job.variables.insert("GATE_VERSION", version.to_owned());
        let step = job.step("install");
        assert!(step.code == Some(1) && step.log.contains("::error"), "{version}: {}", step.log);
    }
}

#[test]
fn the_scripts_are_clean() {
    if !there_is("shellcheck", "the scripts") {
        return;
    }
    let scripts = [
        ".github/actions/hookproof/install",
        ".github/actions/hookproof/judge",
        ".github/actions/hookproof/comment",
        "packaging/archive",
        "packaging/install",
        "scenarios/drivers/peers/svix/judge",
        "scenarios/drivers/peers/svix/run",
        ".ci/run",
    ];
    succeeds(Command::new("shellcheck").args(scripts.map(|script| root().join(script))));
}
