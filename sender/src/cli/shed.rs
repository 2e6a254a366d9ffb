//! `subscriber shed`: give up what waits for a subscriber.

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::Printer;
use super::session::{Look, with_session};
use crate::store::command::Shed as Step;
use crate::store::{Command, Reply};

/// Deliveries given up in one commit.
const STEP_ROWS: u64 = 500;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender subscriber shed --db sender.db shop --max 10000
  hookproof-sender subscriber shed --db sender.db shop

Those longest due go first. They become dead letters (overflow), which `dead redrive` has delivered after all. What a
running process holds already is still sent.")]
pub(super) struct Shed {
    /// Its name or id
    name: String,
    /// At most so many; all that wait, if none is given
    #[arg(long, value_name = "COUNT")]
    max: Option<u64>,
}

impl Shed {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let lane = Look::open(common.existing_database()?)?.subscriber(&self.name)?.lane;
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        let mut left = self.max.unwrap_or(u64::MAX);
        let mut shed = 0;
        with_session(options, |session| {
            session.in_steps(|| {
                let max = u32::try_from(left.min(STEP_ROWS)).unwrap_or(u32::MAX);
                match session.command(Command::Shed(Step { lane, max }))? {
                    Reply::Dropped { rows, more } => {
                        shed += rows;
                        left = left.saturating_sub(rows);
                        Ok(more && rows > 0 && left > 0)
                    }
                    other => Err(Failure::ours(format_args!("the store answered {other:?}"))),
                }
            })
        })?;
        if printer.json {
            return printer.object(&json!({ "name": self.name, "shed": shed }));
        }
        printer.line(format_args!("{shed} deliveries to {} are given up", self.name))
    }
}
