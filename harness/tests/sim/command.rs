//! The command line: what a sweep prints is the command that repeats it.

use std::process::{Command, Output};

use crate::reduced;

fn hookproof(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hookproof")).args(arguments).env("NO_COLOR", "1").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The check that the line with this beginning names.
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
        assert!(stdout(&again).contains(&format!("fail {found}: ")), "{repeat} does not repeat {found}");
    }
}

#[test]
fn a_seed_that_fails_nothing_exits_with_0_and_says_how_it_went() {
    let output = hookproof(&["sim", reduced().to_str().unwrap(), "--seeds", "3"]);
    assert_eq!((output.status.code(), stdout(&output).contains("3 seeds in")), (Some(0), true));
    let nonsense = hookproof(&["sim", "nowhere.toml"]);
    assert_eq!(nonsense.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&nonsense.stderr).contains("nowhere.toml cannot be read"));
}
