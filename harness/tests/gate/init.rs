use std::fs;
use std::process::Command;

use crate::gate::{accuses_nobody, combined_output, succeeds};

fn init(folder: &std::path::Path) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_hookproof")).arg("init").arg(folder).output().unwrap()
}

#[test]
fn files_of_init_judge_a_sender_once_three_values_are_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let output = init(folder.path());
    assert!(output.status.success(), "{}", combined_output(&output));
    let driver = folder.path().join("hookproof/driver.toml");
    let text = fs::read_to_string(&driver).unwrap();
    let rows = [
        (
            r#"command = ["FILL-IN", "--listen", "127.0.0.1:{{ port }}", "--data", "{{ dir }}"]"#,
            r#"command = ["{{ hookproof }}", "sender", "serve", "--db", "{{ dir }}/s.db", "--listen", "127.0.0.1:{{ port }}", "--allow-private-targets"]"#,
        ),
        ("FILL-IN\"\n# headers", "v1/subscribers\"\n# headers"),
        ("FILL-IN\"\nbody", "v1/events\"\nbody"),
    ];
    let filled = rows.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    fs::write(&driver, filled).unwrap();
    let hookproof = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
        command.args(arguments).current_dir(folder.path());
        command
    };
    succeeds(&mut hookproof(&["driver", "check", "hookproof/driver.toml"]));
    succeeds(&mut hookproof(&["sim", "hookproof/first.toml"]));
    let asked = ["run", "hookproof/first.toml", "--driver", "hookproof/driver.toml", "--json", "report.json"];
    let output = hookproof(&asked).output().unwrap();
    accuses_nobody(&output, &folder.path().join("report.json"));
}

#[test]
fn nothing_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = folder.path().join(".github/workflows/hookproof.yml");
    fs::create_dir_all(workflow.parent().unwrap()).unwrap();
    fs::write(&workflow, "mine").unwrap();
    let output = init(folder.path());
    assert!(output.status.code() == Some(64) && combined_output(&output).contains("hookproof.yml exists"));
    assert_eq!(fs::read_to_string(&workflow).unwrap(), "mine");
    assert!(!folder.path().join("hookproof").exists(), "half of it was written");
}
