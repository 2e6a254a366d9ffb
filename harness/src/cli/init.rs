//! `hookproof init`: a first scenario, to run and to change.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::exit::{USAGE, refuse};
use super::out::line;

/// The scenario that it writes: short, valid, and with the line that most people change first at the top.
pub(crate) const FIRST: &str = r#"name  = "first"
about = "Ten seconds of traffic, one spike, and a partner who asks for a pause."
seed  = 1
drain = "20s"

[[traffic]]
shape = "spike"
rate  = "10/s"
to    = "200/s"
lasts = "10s"

[events]
types = { "video.trending" = 2, "video.rank_updated" = 1 }
keys  = 20

[[subscriber]]
name   = "partner"
events = ["video.*"]
limit  = { rate = "100/s", burst = 50, in_flight = 10 }

[[subscriber.behaviour]]
at          = "4s"
lasts       = "2s"
answer      = 429
retry_after = "2s"

[expect]
latency.partner = { p95 = "15s" }
"#;

/// Where to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The file to write; it must not be there yet
    #[arg(default_value = "first.toml")]
    file: PathBuf,
}

/// Writes it, and never over another file.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let path = &arguments.file;
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(FIRST.as_bytes()));
    if let Err(error) = written {
        return refuse("init", format!("writing {}: {error}", path.display()), USAGE);
    }
    line(format_args!("hookproof run {}", path.display()));
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::FIRST;
    use crate::scenario::Scenario;

    #[test]
    fn the_first_scenario_is_valid() {
        Scenario::from_text(FIRST, "first.toml").expect("valid");
    }
}
