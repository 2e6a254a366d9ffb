//! `hookproof init`: writes a first scenario, the beginning of a driver file, and a CI workflow.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit::{HARNESS, USAGE, refuse};
use super::out::{line, quoted};

/// Paths below the folder, and texts.
const FILES: [(&str, &str); 3] = [
    (SCENARIO, include_str!("init/first.toml")),
    (DRIVER, include_str!("init/driver.toml")),
    (".github/workflows/hookproof.yml", include_str!("init/workflow.yml")),
];
const SCENARIO: &str = "hookproof/first.toml";
const DRIVER: &str = "hookproof/driver.toml";

#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The folder of your sender; no file in it is written over
    #[arg(default_value = ".")]
    folder: PathBuf,
}

/// Writes all of them, or none if one exists.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let folder = &arguments.folder;
    let paths = FILES.map(|(name, text)| (folder.join(name), text));
    if let Some((path, _)) = paths.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return refuse("init", format!("{} is there already: nothing was written", path.display()), USAGE);
    }
    for (path, text) in &paths {
        if let Err(error) = write_new(path, text) {
            let code = if error.kind() == ErrorKind::AlreadyExists { USAGE } else { HARNESS };
            return refuse("init", format!("writing {}: {error}", path.display()), code);
        }
        line(format_args!("wrote {}", path.display()));
    }
    let shown = |name: &str| quoted(&folder.join(name).display().to_string());
    line("\nTry it on the sender that comes with Hookproof:");
    line(format_args!("  hookproof run {}", shown(SCENARIO)));
    line(format_args!(
        "Then on yours, once the three values in {} are filled in; first try them, then run:",
        folder.join(DRIVER).display()
    ));
    line(format_args!("  hookproof driver check {}", shown(DRIVER)));
    line(format_args!("  hookproof run {} --driver {}", shown(SCENARIO), shown(DRIVER)));
    ExitCode::SUCCESS
}

/// Creates a new file, and the folders above it.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::FILES;
    use hookproof_judge::scenario::Scenario;

    #[test]
    fn the_first_scenario_is_valid() {
        Scenario::from_text(FILES[0].1, "first.toml").expect("valid");
    }

    #[test]
    fn the_driver_says_what_to_fill_in_at_three_places() {
        let asked = FILES[1].1.lines().filter(|line| !line.starts_with('#') && line.contains("FILL-IN"));
        assert_eq!(asked.count(), 3);
    }
}
