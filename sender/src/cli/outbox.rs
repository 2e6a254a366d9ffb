use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::Common;
use super::print::{Printer, Table, ago, moment};
use super::session::{Look, PAGE_ROWS, each};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender outbox --db sender.db
  hookproof sender outbox --db sender.db --json | jq .why

The newest first. Insert a corrected row into the outbox again, with a new number.")]
pub(super) struct Outbox {
    /// Show at most so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    max: usize,
}

impl Outbox {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let (mut table, mut shown) = (Table::new(&["ROW", "TYPE", "KEY", "SET ASIDE", "WHY"]), 0);
        each(
            |from| look.reader.outbox_rejected(from, PAGE_ROWS),
            |rejected| {
                if shown == self.max || printer.is_closed() {
                    return Ok(false);
                }
                shown += 1;
                let row = &rejected.row;
                if printer.json {
                    printer.object(&json!({
                        "row": row.id.0, "type": &*row.kind, "key": row.key.as_deref(), "id": row.event.as_deref(),
                        "data": &*row.data, "why": rejected.why, "set_aside": moment(rejected.at),
                    }))?;
                    return Ok(true);
                }
                table.row([
                    row.id.0.to_string(),
                    row.kind.to_string(),
                    row.key.as_deref().unwrap_or_default().to_owned(),
                    ago(rejected.at, look.now),
                    rejected.why,
                ]);
                Ok(true)
            },
        )?;
        if !printer.json {
            printer.table(&table, "no rows were rejected")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
