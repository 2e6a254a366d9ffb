//! `hookproof init` writes a first scenario, the beginning of a driver file, and a CI workflow, or a launch to plan; also
//! `packaging`.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::out::{HARNESS, USAGE, line, quoted, refuse};

const FILES: [(&str, &str); 3] = [
    (SCENARIO, include_str!("init/first.toml")),
    (DRIVER, include_str!("init/driver.toml")),
    (".github/workflows/hookproof.yml", include_str!("init/workflow.yml")),
];
const LAUNCHES: [(&str, &str); 1] = [(LAUNCH, include_str!("init/launch.toml"))];
const SCENARIO: &str = "hookproof/first.toml";
const DRIVER: &str = "hookproof/driver.toml";
const LAUNCH: &str = "hookproof/launch.toml";

#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The folder of your sender; no file in it is written over
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Write a launch for `hookproof plan` instead, with the questions to answer
    #[arg(long)]
    launch: bool,
}

/// Writes all of them, or none if one exists.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let folder = &arguments.folder;
    let files: &[(&str, &str)] = if arguments.launch { &LAUNCHES } else { &FILES };
    let paths: Vec<(PathBuf, &str)> = files.iter().map(|(name, text)| (folder.join(name), *text)).collect();
    if let Some((path, _)) = paths.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return refuse(
            "init",
            format!("{} exists, so no file was written; remove it, or name another folder", path.display()),
            USAGE,
        );
    }
    for (path, text) in &paths {
        if let Err(error) = write_new(path, text) {
            let code = if error.kind() == ErrorKind::AlreadyExists { USAGE } else { HARNESS };
            return refuse("init", format!("writing {}: {error}", path.display()), code);
        }
        line(format_args!("wrote {}", path.display()));
    }
    let shown = |name: &str| quoted(&folder.join(name).display().to_string());
    if arguments.launch {
        line("\nAnswer the questions in its comments, or plan it as it stands:");
        line(format_args!("  hookproof plan {} --slo 'p95<60s' --seeds 1", shown(LAUNCH)));
        return ExitCode::SUCCESS;
    }
    line("\nTry it on the sender that comes with Hookproof:");
    line(format_args!("  hookproof run {}", shown(SCENARIO)));
    line(format_args!(
        "Then fill in the three values in {} and run your sender; check the driver first:",
        folder.join(DRIVER).display()
    ));
    line(format_args!("  hookproof driver check {}", shown(DRIVER)));
    line(format_args!("  hookproof run {} --driver {}", shown(SCENARIO), shown(DRIVER)));
    ExitCode::SUCCESS
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Packaging {
    /// The folder that gets `completions` and `man`
    folder: PathBuf,
}

pub(crate) fn package(arguments: &Packaging) -> ExitCode {
    let folder = &arguments.folder;
    if let Err(error) = write(program(), folder) {
        return refuse("packaging", format!("writing into {}: {error}", folder.display()), HARNESS);
    }
    ExitCode::SUCCESS
}

/// Includes the commands of sender and receiver, which parse their arguments themselves at run time.
fn program() -> Command {
    super::Arguments::command()
        .name("hookproof")
        .mut_subcommand("sender", |_| hookproof_sender::cli::command().name("sender"))
        .mut_subcommand("receiver-server", |_| hookproof_receiver::cli::command().name("receiver-server"))
}

fn write(mut program: Command, folder: &Path) -> io::Result<()> {
    let (completions, man) = (folder.join("completions"), folder.join("man"));
    fs::create_dir_all(&completions)?;
    fs::create_dir_all(&man)?;
    // The pages come first: completions add `help` to each command.
    clap_mangen::generate_to(program.clone(), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut program, "hookproof", &completions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::{Scenario, Shape};

    use super::*;

    #[test]
    fn the_first_scenario_is_valid() {
        Scenario::from_text(FILES[0].1, "first.toml").expect("valid");
    }

    #[test]
    fn the_launch_has_the_traffic_and_the_subscribers_of_its_sentence() {
        let launch = Scenario::from_text(LAUNCHES[0].1, "launch.toml").expect("valid");
        assert_eq!(launch.subscribers.len(), 300);
        let (Shape::Steady { rate }, Shape::Spike { to, .. }) =
            (&launch.traffic[0].shape, &launch.traffic[1].shape)
        else {
            panic!("{:?}", launch.traffic);
        };
        assert_eq!(rate.count * 86_400 / 100_000, 60, "six million events a day");
        // One event in 400 goes to each of 300 subscribers.
        assert_eq!(to.count * 60 * 300 / 400 / 1_000, 13, "about 14,000 deliveries a minute at the peak");
    }

    #[test]
    fn the_driver_says_what_to_fill_in_at_three_places() {
        let asked = FILES[1].1.lines().filter(|line| !line.starts_with('#') && line.contains("FILL-IN"));
        assert_eq!(asked.count(), 3);
    }

    #[test]
    fn every_command_can_be_completed_and_looked_up() {
        let folder = tempfile::tempdir().unwrap();
        write(program(), folder.path()).unwrap();
        for page in [
            "hookproof.1",
            "hookproof-run.1",
            "hookproof-sender-serve.1",
            "hookproof-receiver-server-relay.1",
        ] {
            assert!(folder.path().join("man").join(page).exists(), "{page} is missing");
        }
        assert!(!folder.path().join("man/hookproof-help-run.1").exists(), "help of help is no page");
        for file in ["hookproof.bash", "_hookproof", "hookproof.fish"] {
            let text = fs::read_to_string(folder.path().join("completions").join(file)).unwrap();
            assert!(
                text.contains("redrive") && text.contains("allow-private-targets"),
                "{file} lacks the sender's"
            );
        }
    }
}
