use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::gate::{
    accuses_nobody, archive, combined_output, path, root, succeeds, there_is, verdicts, was_late,
};

fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            inside = !inside && fence == language;
            found.extend(inside.then(String::new));
        } else if let Some(block) = found.last_mut().filter(|_| inside) {
            *block += &format!("{line}\n");
        }
    }
    assert!(!found.is_empty(), "docs/{page} has no block of {language}");
    found
}

fn commands(block: &str) -> Vec<String> {
    let whole = block.replace("\\\n", "");
    whole.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

fn shell(commands: &str, folder: &Path, variables: &[(&str, &str)]) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-euc", commands]).current_dir(folder).env("PATH", path()).envs(variables.iter().copied());
    shell
}

#[track_caller]
fn run(commands: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    succeeds(&mut shell(commands, folder, variables))
}

fn port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn the_page_on_ci_works_in_any_shell() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("reports/runs/first/report.json");
    for command in commands(&blocks("ci.md", "sh").concat()) {
        let output = shell(&command, folder.path(), &[]).output().unwrap();
        match command.split(' ').nth(1).unwrap() {
            "run" => accuses_nobody(&output, &report),
            // If one of two runs was late, it is worse than the other.
            "compare" if was_late(&verdicts(&report)) => {
                assert!(combined_output(&output).contains(" worse, "), "{}", combined_output(&output));
            }
            _ => assert!(output.status.success(), "{command}: {}", combined_output(&output)),
        }
    }
    let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    let expected = if was_late(&verdicts(&report)) { "## first: INCONCLUSIVE" } else { "## first: PASS" };
    assert!(summary.starts_with(expected), "{summary}");
}

#[test]
fn the_page_on_ci_works_in_gitlab() {
    if !there_is("curl", "the recipe for GitLab") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let releases = folder.path().join("releases/latest/download");
    archive::releases(&releases);
    fs::copy(root().join("packaging/install"), releases.join("install")).unwrap();
    let work = folder.path().join("work");
    succeeds(Command::new(env!("CARGO_BIN_EXE_hookproof")).arg("init").arg(&work));

    let job = blocks("ci.md", "yaml").concat();
    let script =
        job.split_once("  script:\n").unwrap().1.lines().map_while(|line| line.strip_prefix("    - "));
    let script: Vec<&str> = script.collect();
    assert!(script.len() >= 3, "{job}");
    let (judging, before) = script.split_last().unwrap();
    let tools = archive::curl_for("https://code.example", folder.path(), &folder.path().join("tools"));
    let path = format!("{}:{}", tools.display(), path().display());
    let variables = [("RELEASES", "https://code.example/releases"), ("PATH", path.as_str())];
    run(&before.join("\n"), &work, &variables);
    accuses_nobody(&shell(judging, &work, &variables).output().unwrap(), &work.join("report.json"));
    let junit = fs::read_to_string(work.join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"0\""), "{junit}");
}

struct Receiver<'a>(&'a Path);

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        let kill = "[ ! -e pid ] || kill -9 \"$(cat pid)\" 2>/dev/null || true";
        let _ = shell(kill, self.0, &[]).status();
    }
}

#[test]
fn the_page_for_partners_judges_a_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let [inbox, effects] = [port(), port()];
    let blocks = blocks("partner.md", "sh");
    let [start, judge, load, keys] = blocks.as_slice() else { panic!("{blocks:?}") };
    let elsewhere = |text: &str| text.replace("127.0.0.1:9000", &format!("127.0.0.1:{inbox}"));
    let elsewhere = |text: &str| elsewhere(text).replace("127.0.0.1:9001", &format!("127.0.0.1:{effects}"));
    // An exported variable holds for later commands.
    let exported = |line: &str| Some(line.strip_prefix("export ")?.split_once('=')?.1.to_owned());
    let secret = start.lines().find_map(exported).unwrap();
    let variables = [("HOOK_SECRET", secret.as_str())];
    let _receiver = Receiver(folder.path());
    run(&elsewhere(start), folder.path(), &variables);

    let [judge, explain] = commands(&elsewhere(judge)).try_into().unwrap();
    let output = shell(&format!("{judge} --json=report.json"), folder.path(), &variables).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 2)), "{}", combined_output(&output));
    let report = fs::read(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["counts"]["fail"], 0, "{}", combined_output(&output));
    for case in ["sig.base64-junk", "replay.after-restart", "replay.after-failure"] {
        let row = report["rows"].as_array().unwrap().iter().find(|row| row["id"] == case).unwrap();
        assert_eq!(row["verdict"], "pass", "{case}: {}", combined_output(&output));
    }
    assert!(folder.path().join("report/receiver.html").exists());
    assert!(run(&explain, folder.path(), &[]).contains("sig.base64-junk"));

    let [load, end] = commands(&elsewhere(load)).try_into().unwrap();
    let output = shell(&load, folder.path(), &variables).output().unwrap();
    let (code, told) = (output.status.code(), combined_output(&output));
    // The machine's load decides how late the generator is.
    assert!(code == Some(0) || code == Some(2) && told.contains("\ngenerator-limited: "), "{code:?}: {told}");
    let all = ["100 due, 0 missed, 0 unanswered\n", "answers    100 × 204\n"];
    assert!(all.iter().all(|part| told.contains(part)), "{told}");
    run(&end, folder.path(), &[]);
    if there_is("openssl", "a pair of keys") {
        assert!(run(keys, folder.path(), &[]).starts_with("MFkw"), "a public key");
    }
}

#[test]
fn the_page_for_planners_plans_a_launch() {
    let folder = tempfile::tempdir().unwrap();
    // The same load for each of fewer partners.
    let init = "hookproof init --launch\n";
    let smaller = "sed -i 's/= 296/= 6/; s/= 399/= 39/; s,70/s,7/s,; s,310/s,31/s,' hookproof/launch.toml\n";
    let script = blocks("planner.md", "sh").concat();
    assert!(script.contains(init), "{script}");
    let said = run(&script.replace(init, &format!("{init}{smaller}")), folder.path(), &[]);
    let both = ["× today's traffic", "today's traffic: "];
    assert!(both.iter().all(|part| said.contains(part)), "{said}");
}

/// Inconclusive checks count too. Only a slow machine has the backlog that `rate.utilisation` judges.
#[track_caller]
fn the_page_counts_the_checks(page: &str, name: &str, report: &Path) {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let begin = format!("{name}: PASS: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&begin)).unwrap();
    let (counts, _) = line.split_once(':').unwrap_or((line, ""));
    let counted: usize = counts.split(' ').filter_map(|word| word.parse::<usize>().ok()).sum();
    let judged: Vec<String> = verdicts(report)
        .into_iter()
        .filter(|(_, status)| status != "not-applicable")
        .map(|(id, _)| id)
        .collect();
    let by_load = usize::from(judged.iter().any(|id| id == "rate.utilisation"));
    assert!((judged.len() - by_load..=judged.len()).contains(&counted), "{page}: {line}: {judged:?}");
}

#[test]
fn the_main_command_of_the_readme_judges_as_many_checks_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("scenarios"), folder.path().join("scenarios")).unwrap();
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let command = text.lines().find_map(|line| line.strip_prefix("cargo run --release -- run ")).unwrap();
    let output = shell(&format!("hookproof run {command}"), folder.path(), &[]).output().unwrap();
    let report = folder.path().join("reports/runs/viral-spike/report.json");
    accuses_nobody(&output, &report);
    the_page_counts_the_checks("README.md", "viral-spike", &report);
}

#[test]
fn the_quick_start_shows_a_pass_a_bug_and_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("reports/runs/first/report.json");
    for command in commands(&blocks("quick-start.md", "sh").concat()) {
        let output = shell(&command, folder.path(), &[]).output().unwrap();
        let (code, said) = (output.status.code(), combined_output(&output));
        match command.split(' ').nth(1).unwrap() {
            "run" => {
                accuses_nobody(&output, &report);
                the_page_counts_the_checks("docs/quick-start.md", "first", &report);
            }
            "sim" => assert!(code == Some(1) && said.contains("retry.after-429"), "{code:?}: {said}"),
            "plan" => assert!(code == Some(0) && said.contains("× today's traffic"), "{code:?}: {said}"),
            _ => assert_eq!(code, Some(0), "{command}: {said}"),
        }
    }
    assert!(folder.path().join("page.html").exists());
}

#[test]
fn the_pages_for_operators_make_a_delivery_a_copy_and_a_diagnosis() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = format!("127.0.0.1:{}", port());
    let first = blocks("operator.md", "sh").concat().replace("127.0.0.1:9000", &elsewhere);
    let said = run(&first, folder.path(), &[]);
    assert!(said.contains("secret  whsec_") && said.contains("waiting                1 ("), "{said}");
    let copied = run(&blocks("backup.md", "sh").concat(), folder.path(), &[]);
    assert!(copied.contains("waiting                1 ("), "{copied}");
    for command in commands(&blocks("troubleshooting.md", "sh").concat()) {
        let output = shell(&command, folder.path(), &[]).output().unwrap();
        let code = output.status.code();
        // A delivery is due and no process delivers: `doctor` ends with 1.
        let is_expected = code == Some(0) || code == Some(1) && command.contains(" doctor ");
        assert!(is_expected, "{command}: {}", crate::gate::combined_output(&output));
    }
}

#[test]
fn a_command_of_a_page_that_fails_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let output = shell("hookproof run no-such.toml\ntrue", folder.path(), &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{}", combined_output(&output));
}
