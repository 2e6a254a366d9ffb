use clap::Args;

use super::{name_of, names};
use crate::cli::failure::Failure;
use crate::cli::options::Common;
use crate::cli::print::{Printer, Table};
use crate::cli::session::Look;
use crate::cli::words::{moment, reason};
use crate::engine::{Nanos, StoreTime};
use crate::operate::dead::{GROUPS_MAX, LOOK_BACK_DAYS, analyse};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender dead analyse --db sender.db
  hookproof-sender dead analyse --db sender.db --since 1h --json")]
pub(in crate::cli) struct Analyse {
    /// How far to look back
    #[arg(long, value_name = "TIME", default_value_t = Nanos::DAY.times(LOOK_BACK_DAYS))]
    since: Nanos,
}

impl Analyse {
    pub(in crate::cli) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let since = StoreTime(look.now.0.saturating_sub(self.since.0));
        let found = analyse(&look.reader.dead_groups(since, GROUPS_MAX)?);
        let names = names(&look)?;
        if printer.json {
            return found
                .iter()
                .try_for_each(|(lane, found)| printer.object(&found.shown(Some(&name_of(&names, *lane)))));
        }
        let headings = &[
            ">ROWS",
            "SUBSCRIBER",
            "REASON",
            ">STATUS",
            ">TRIES EACH",
            "FIRST",
            "LAST",
            "POINTS TO",
            "ERROR",
        ];
        let mut table = Table::new(headings);
        let causes =
            found.iter().flat_map(|(lane, found)| found.causes.iter().map(move |cause| (*lane, cause)));
        for (lane, cause) in causes {
            table.row([
                cause.rows.to_string(),
                name_of(&names, lane),
                reason(cause.reason).to_owned(),
                cause.status.map_or_else(String::new, |status| status.to_string()),
                (cause.attempts / cause.rows.max(1)).to_string(),
                moment(cause.first),
                moment(cause.last),
                cause.points_to().to_owned(),
                cause.error.as_deref().unwrap_or_default().to_owned(),
            ]);
        }
        printer.table(&table, &format!("no dead letters in the last {}", self.since))?;
        found.iter().try_for_each(|(lane, found)| {
            found.findings.iter().try_for_each(|finding| {
                let (name, pattern) = (name_of(&names, *lane), finding.pattern);
                printer.line(format_args!(
                    "{name}: {} {}: {}; {}",
                    finding.rows,
                    pattern.name(),
                    pattern.meaning(),
                    pattern.advice()
                ))
            })
        })
    }
}
