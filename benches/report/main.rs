//! Runs the benches and writes `BENCHMARKS.md`: `cargo run -p hookproof-benches --bin bench-report [FILE]`.
//!
//! Each figure comes once, with its unit and, where it has one, its ratio to the ceiling measured beside it. PostgreSQL
//! is measured if `HOOKPROOF_POSTGRES` names a server. Run it on a quiet machine; it takes some ten minutes.

mod figures;
mod page;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};

use figures::{FIGURES, Figure};
use page::Machine;

fn main() -> ExitCode {
    let file = std::env::args().nth(1).unwrap_or_else(|| "BENCHMARKS.md".to_owned());
    match written(&file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench-report: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn written(file: &str) -> Result<(), String> {
    let machine = machine()?;
    let mut outputs: BTreeMap<&str, String> = BTreeMap::new();
    for bench in FIGURES.iter().map(|figure| figure.bench) {
        if !outputs.contains_key(bench) {
            eprintln!("bench-report: {bench}");
            outputs.insert(
                bench,
                command_output("cargo", &["bench", "-p", "hookproof-benches", "--bench", bench])?,
            );
        }
    }
    let read = |figure: &'static Figure| figure.read(&outputs[figure.bench]).map(|row| (figure, row));
    let rows = FIGURES.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    std::fs::write(file, page::page(&machine, &rows)).map_err(|error| format!("writing {file}: {error}"))
}

fn command_output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("starting {program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {} ended with {}", arguments.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn machine() -> Result<Machine, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"));
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.split_once(':'));
        line.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let line = |text: String| text.trim().to_owned();
    let memory = value(&read("/proc/meminfo")?, "MemTotal");
    let kib: Option<u64> = memory.strip_suffix(" kB").and_then(|number| number.parse().ok());
    Ok(Machine {
        processor: value(&read("/proc/cpuinfo")?, "model name"),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        memory: kib.map_or(memory, |kib| format!("{} GiB of memory", (kib + (1 << 19)) >> 20)),
        kernel: line(read("/proc/sys/kernel/osrelease")?),
        date: line(command_output("date", &["-u", "+%F"])?),
        commit: line(command_output("git", &["describe", "--always", "--abbrev=12", "--dirty"])?),
    })
}
