use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hookproof::endpoint::{Reach, Tls};
use hookproof::run::{Options, play};
use hookproof_judge::catalogue;
use hookproof_judge::check::{Judgement, Status, Strictness, Verdict, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;
use tokio::sync::{Semaphore, watch};

use crate::sender_mutants::scenarios::{ALONE, BUGS, Bug, SCENARIOS};
use crate::sender_mutants::strangers::excused;

const AT_ONCE: usize = 10;
const PLAYS_MAX: usize = 10;

/// On a busy machine no sender reaches the rate of its contract.
const OF_THE_MACHINE: &str = "rate.utilisation";

const SOFTENED: [&str; 2] = ["; but the harness's own endpoints stalled", "; but the machine stalled"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) thin: &'static [&'static str],
}

struct Row {
    bug: &'static str,
    about: &'static str,
    scenario: &'static str,
    expected: Option<&'static str>,
    /// In the catalogue's order.
    broken: Vec<String>,
    notes: String,
    is_stalled: bool,
}

pub(crate) struct Matrix(Vec<Row>);

pub(crate) async fn play_all() -> Matrix {
    let only = std::env::var("HOOKPROOF_BUG").ok();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let right =
        SCENARIOS.iter().map(|stage| Bug { name: "", about: "none", check: "", scenario: stage.name });
    let rows = right
        .chain(BUGS)
        .filter(|bug| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == bug.name)))
        .map(|bug| {
            let permits = Arc::clone(&permits);
            tokio::spawn(async move {
                let _permit = permits.acquire().await.unwrap();
                let mut played = row(bug).await;
                // A run in which the harness itself stalled acquits nobody.
                for _ in 1..PLAYS_MAX {
                    if !played.is_acquitted_by_a_stall() {
                        break;
                    }
                    played = row(bug).await;
                }
                played
            })
        });
    let mut all = Vec::new();
    for row in rows.collect::<Vec<_>>() {
        all.push(row.await.unwrap());
    }
    Matrix(all)
}

async fn row(bug: Bug) -> Row {
    let stage = SCENARIOS.iter().find(|stage| stage.name == bug.scenario).unwrap();
    let scenario = Scenario::from_text(stage.text, stage.name).unwrap_or_else(|problems| {
        panic!("{}: {}", stage.name, problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    });
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("driver.toml");
    std::fs::write(&driver, driver_file(bug.name)).unwrap();
    let options = Options {
        seed: None,
        driver: Some(driver),
        out: folder.path().to_owned(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_hookproof")),
        folder: PathBuf::new(),
        show: false,
        live: None,
        reach: Reach { tls: if secure(stage.text) { Tls::OfTheRun } else { Tls::None }, ..Reach::default() },
    };
    let (_tell, told) = watch::channel(false);
    let mut row = Row {
        bug: bug.name,
        about: bug.about,
        scenario: bug.scenario,
        expected: (!bug.check.is_empty()).then_some(bug.check),
        broken: Vec::new(),
        notes: String::new(),
        is_stalled: false,
    };
    let trace = match play(&scenario, &options, told).await {
        Ok(played) => Trace::open(&played.trace),
        Err(error) => {
            let log = std::fs::read_to_string(folder.path().join("sender-0.log")).unwrap_or_default();
            row.notes = format!("{error}\n{log}");
            return row;
        }
    };
    match trace {
        Ok(trace) => {
            let judgement = judge(&scenario, &trace, Strictness::Strict);
            row.read(bug, &judgement);
        }
        Err(error) => row.notes = error.to_string(),
    }
    if let Ok(keep) = std::env::var("HOOKPROOF_KEEP") {
        let _ = std::fs::copy(
            options.out.join("trace.jsonl"),
            format!("{keep}/{}-{}.jsonl", bug.name, bug.scenario),
        );
    }
    row
}

/// Whether its endpoints speak TLS. The driver has no `trust`: the sender reads `SENDER_CA`.
fn secure(scenario: &str) -> bool {
    scenario.contains("wrong-certificate")
}

pub(crate) fn command(bug: &str, standard: &str) -> (Option<i32>, String) {
    let bug = BUGS.iter().find(|one| one.name == bug).unwrap();
    let stage = SCENARIOS.iter().find(|stage| stage.name == bug.scenario).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [scenario, driver, out] =
        ["scenario.toml", "driver.toml", "out"].map(|name| folder.path().join(name));
    std::fs::write(&scenario, stage.text).unwrap();
    std::fs::write(&driver, driver_file(bug.name)).unwrap();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_hookproof"));
    program.arg("run").arg(scenario).arg("--driver").arg(driver).arg("--out").arg(out);
    if secure(stage.text) {
        program.arg("--tls");
    }
    if !standard.is_empty() {
        program.args(["--standard", standard]);
    }
    let output = program.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The standard's signature, and the number of the attempt.
const NUMBERED: &str = r#"
[sign]
algorithm = "hmac-sha256"
encoding  = "base64"
key       = "whsec"
header    = "webhook-signature"
prefix    = "v1,"
separator = " "
signed    = ["{id}.{timestamp}.{body}"]
timestamp = "webhook-timestamp"
id        = "webhook-id"
attempt   = "x-attempt"
"#;

pub(crate) fn driver_file(bug: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let numbered = if bug == "sends-a-hidden-second-request" { NUMBERED } else { "" };
    format!(
        r#"
name = "mutant"
[start]
command = [{program:?}, "--exact", "sender_mutants::the_sender_itself", "--nocapture"]
env = {{ SENDER_PORT = "{{{{ port }}}}", SENDER_DIR = "{{{{ dir }}}}", SENDER_BUG = "{bug}", SENDER_CA = "{{{{ ca }}}}" }}
ready = "{{{{ base }}}}/ready"
database = "{{{{ dir }}}}/sender.db"
[subscribe]
request = "POST {{{{ base }}}}/subscribe"
body = '{{"name": {{{{ name | tojson }}}}, "url": {{{{ url | tojson }}}}, "events": {{{{ events }}}}, "limit": {{{{ limit }}}}, "queue": {{{{ queue }}}}, "retry": {{{{ retry }}}}, "breaker": {{{{ breaker }}}}, "permission": {{{{ permission }}}}, "ordered": {{{{ ordered }}}}, "coalesce": {{{{ coalesce }}}}, "timeout": {{{{ timeout | tojson }}}}, "secret": {{{{ secret | tojson }}}}}}'
save = {{ secret = "/secret" }}
[change]
request = "POST {{{{ base }}}}/change"
body = '{{"name": {{{{ name | tojson }}}}, "limit": {{{{ limit }}}}}}'
[emit]
request = "POST {{{{ base }}}}/emit"
body = '{{"id": {{{{ token | tojson }}}}, "type": {{{{ type | tojson }}}}, "key": {{{{ key | tojson }}}}, "data": {{{{ data }}}}}}'
batch = true
matched = "/deliveries"
status = "/status"
[depth]
request = "GET {{{{ base }}}}/stats"
pointer = "/waiting"
delivered = "/delivered"
dead = "/dead"
coalesced = "/coalesced"
[depth.each]
list = "/lanes"
name = "/name"
pointer = "/waiting"
delivered = "/delivered"
dead = "/dead"
coalesced = "/coalesced"
[depth.kept]
request = "GET {{{{ base }}}}/kept"
list = "/items"
delivered = "/delivered"
[dead]
request = "GET {{{{ base }}}}/dead"
list = "/items"
subscriber = "/subscriber"
reason = "/reason"
attempts = "/attempts"
{numbered}"#
    )
}

impl Matrix {
    pub(crate) fn alone(&self) -> Vec<&'static str> {
        let own = |row: &&Row| row.expected.is_some_and(|check| row.broke_only(check));
        self.0.iter().filter(own).map(|row| row.bug).collect()
    }

    /// Names the bugs that a busy machine hid in every play.
    fn hidden(&self) -> String {
        let hidden = self.0.iter().filter(|row| row.is_acquitted_by_a_stall()).map(|row| row.bug);
        hidden.collect::<Vec<_>>().join(", ")
    }

    /// Omits further broken checks, which depend on chance.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from(
            "# Senders that the harness catches\n\n\
             Each is a small, right sender (`harness/tests/sender_mutants/`) with one bug, played for a few seconds over real\n\
             sockets. It must fail the check that names its bug; the right one must fail none, in any of the scenarios.\n\
             Kept true by `cargo test -p hookproof --test all sender_mutants`.\n\n\
             | bug | behaviour | scenario | check | caught |\n|---|---|---|---|---|\n",
        );
        for row in &self.0 {
            let (name, check) =
                (if row.bug.is_empty() { "(none)" } else { row.bug }, row.expected.unwrap_or("all"));
            let verdict = match (row.expected, row.is_as_expected()) {
                (Some(_), true) => "yes",
                (Some(_), false) => "**no**",
                (None, true) => "passes",
                (None, false) => "**fails**",
            };
            let _ = writeln!(text, "| `{name}` | {} | {} | `{check}` | {verdict} |", row.about, row.scenario);
        }
        let bugs = self.0.iter().filter(|row| row.expected.is_some());
        let caught = bugs.clone().filter(|row| row.is_as_expected()).count();
        let _ = writeln!(text, "\n{caught} of {} bugs are caught.", bugs.count());
        self.by_check(&mut text);
        text
    }

    fn by_check(&self, text: &mut String) {
        text.push_str(
            "\n## By check\n\n\
             A bug in bold breaks no other check, and the test holds it to that. Further effects of the other bugs depend on chance.\n\
             A check without a bug is broken by a trace, in `harness/judge/tests/checks/broken.rs`: no sender can be made to break it\n\
             over real sockets. For each check, `kill-matrix-checks.md` has a break that only it catches.\n\n\
             | check | bugs |\n|---|---|\n",
        );
        for entry in catalogue::sender() {
            let own = self.0.iter().filter(|row| row.expected == Some(entry.id.as_str()));
            let name = |row: &Row| {
                let stars = if row.is_alone() { "**" } else { "" };
                format!("{stars}`{}`{stars}", row.bug)
            };
            let names: Vec<String> = own.map(name).collect();
            let names = if names.is_empty() { "(a trace)".to_owned() } else { names.join(", ") };
            let _ = writeln!(text, "| `{}` | {names} |", entry.id);
        }
    }

    pub(crate) fn check_or_bless(&self) {
        if std::env::var_os("HOOKPROOF_BUG").is_some() {
            return;
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/kill-matrix-senders.md");
        if std::env::var_os("HOOKPROOF_BLESS").is_some() {
            std::fs::write(&path, self.markdown()).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let hidden = self.hidden();
        if !hidden.is_empty() {
            eprintln!("not judged: the machine was too busy in each of {PLAYS_MAX} plays: {hidden}");
        }
        let stale = kept != self.markdown();
        assert!(!stale, "the kept matrix is stale; {}", self.complaints().join("\n"));
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        let wrong = self.0.iter().filter(|row| !row.is_as_expected());
        wrong
            .map(|row| format!("{:?} in {}: {:?}\n{}", row.bug, row.scenario, row.broken, row.notes))
            .collect()
    }
}

impl Row {
    /// A violated `may` is a warning even in the strict reading.
    fn read(&mut self, bug: Bug, judgement: &Judgement) {
        let broken = |status: Status| matches!(status, Status::Fail | Status::Warn);
        for verdict in &judgement.verdicts {
            // A check softened because of a stall says that it was broken.
            let softened =
                verdict.id == bug.check && SOFTENED.iter().any(|words| verdict.sentence.contains(words));
            if broken(verdict.status) || softened {
                self.broken.push(verdict.id.clone());
                let witness = verdict.witness.first();
                let witness = witness.map(|witness| format!("{witness:?}")).unwrap_or_default();
                let _ = writeln!(self.notes, "{}: {} {witness}", verdict.id, verdict.sentence);
            } else if verdict.id == bug.check {
                let _ = writeln!(self.notes, "{} is {:?}: {}", verdict.id, verdict.status, verdict.sentence);
            }
        }
        // It may be not applicable, see too little, or be the harness's own fault.
        let thin = SCENARIOS.iter().find(|stage| stage.name == bug.scenario).map_or(&[][..], |one| one.thin);
        let own =
            |verdict: &Verdict| verdict.id.starts_with("harness.") && verdict.status == Status::Inconclusive;
        self.is_stalled = judgement.verdicts.iter().any(own);
        let is_own = self.broken.is_empty() && self.is_stalled;
        if bug.check.is_empty() && !is_own && !excused(judgement, thin) {
            let _ = writeln!(self.notes, "{}: {}", judgement.status, judgement.sentence);
        }
    }

    fn is_acquitted_by_a_stall(&self) -> bool {
        self.is_stalled && self.expected.is_some_and(|check| !self.broken.iter().any(|id| id == check))
    }

    fn broke_only(&self, check: &str) -> bool {
        self.broken.iter().filter(|id| *id == check || *id != OF_THE_MACHINE).eq([check])
    }

    fn is_alone(&self) -> bool {
        ALONE.contains(&self.bug)
    }

    fn is_as_expected(&self) -> bool {
        match self.expected {
            _ if self.is_acquitted_by_a_stall() => true,
            Some(check) if self.is_alone() => self.broke_only(check),
            Some(check) => self.broken.iter().any(|id| id == check),
            None => self.broken.is_empty() && self.notes.is_empty(),
        }
    }
}
