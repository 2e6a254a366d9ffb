use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;
use crate::inbox;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof receiver-server effects --db inbox.db
  hookproof receiver-server effects --db inbox.db --last 10

One id on each line, in the order in which they were processed. Safe beside a running `serve`.")]
pub(super) struct Effects {
    /// The inbox's file
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// List only the last so many
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    last: u32,
}

impl Effects {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        if !self.db.exists() {
            let path = self.db.display();
            return Err(Failure::Usage(format!("there is no inbox {path}; expected one made by `serve`")));
        }
        let effects = inbox::Effects::open(&self.db)?;
        let ids = effects.processed(self.last).map_err(|error| Failure::Ours(error.to_string()))?;
        let mut lines = ids.join("\n");
        if !lines.is_empty() {
            lines.push('\n');
        }
        match std::io::stdout().write_all(lines.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}
