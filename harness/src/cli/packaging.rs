//! `hookproof packaging FOLDER`: completions and manual pages of all commands, for a release archive.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::exit::{HARNESS, refuse};

#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The folder that gets `completions` and `man`
    folder: PathBuf,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let folder = &arguments.folder;
    if let Err(error) = write(program(), folder) {
        return refuse("packaging", format!("writing into {}: {error}", folder.display()), HARNESS);
    }
    ExitCode::SUCCESS
}

/// The whole command line, with the commands of sender and receiver, which parse their arguments themselves
/// at run time.
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
    // A page for each command (`man hookproof-run`). The pages come first: completions add `help` to each
    // command.
    clap_mangen::generate_to(program.clone(), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut program, "hookproof", &completions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
