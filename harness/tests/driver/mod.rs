mod after;
mod apart;
mod check;
mod in_process;
mod own_signatures;
mod public;
mod python;
mod secure;

use std::path::{Path, PathBuf};
use std::process::Command;

fn hookproof(arguments: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    let output = command.args(arguments).envs(env.iter().copied()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn ours() -> String {
    std::fs::read_to_string(shipped("scenarios/drivers/hookproof.toml")).unwrap()
}
