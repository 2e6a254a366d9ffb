use std::fs;
use std::process::Command;

use crate::gate::{root, succeeds, there_is};

#[test]
fn systemd_understands_the_units() {
    if !there_is("systemd-analyze", "the units") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("packaging/systemd")).unwrap() {
        let from = entry.unwrap().path();
        // systemd refuses a unit without its program, which is not installed yet.
        let text = fs::read_to_string(&from).unwrap();
        let to = folder.path().join(from.file_name().unwrap());
        fs::write(&to, text.replace("/usr/local/bin/hookproof", env!("CARGO_BIN_EXE_hookproof"))).unwrap();
        files.push(to);
    }
    assert_eq!(files.len(), 3, "{files:?}");
    let said = succeeds(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&files));
    assert_eq!(said, "", "systemd has something to say of them");
}
