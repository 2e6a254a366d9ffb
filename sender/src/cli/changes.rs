use std::sync::Arc;

use clap::Args;

use super::failure::Failure;
use super::options::Common;
use super::print::{Printer, moment};
use super::session::{Look, PAGE_ROWS, each};
use crate::operate::changes::{in_words, page, to_json};
use crate::store::read::ChangesOf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender changes --db sender.db --subscriber shop
  hookproof sender changes --db sender.db --by ann --max 100 --json

Each change by the API, the command line or MCP is here, with the values before and after, but for `encrypt`, `move`, `doctor` and
`vacuum`. Secrets and tokens are not here, and of headers the names alone. 100,000 of subscribers and 100,000 others are kept, for 365 days (`serve --keep-changes`).")]
pub(super) struct Changes {
    /// Only of this subscriber, by its name or id; of a removed one too
    #[arg(long, value_name = "NAME")]
    subscriber: Option<Arc<str>>,
    /// Only by this one: a token's name, the operating system's user, or as it is shown
    #[arg(long, value_name = "WHO")]
    by: Option<Arc<str>>,
    /// Show so many at most, the newest last
    #[arg(long, value_name = "COUNT", default_value = "20")]
    max: usize,
}

impl Changes {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let of = ChangesOf { subscriber: self.subscriber, by: self.by, within: None };
        let mut found = Vec::new();
        let add = |change| {
            found.push(change);
            Ok(found.len() < self.max)
        };
        if self.max > 0 {
            each(|from| page(&*look.reader, &of, from, PAGE_ROWS), add)?;
        }
        for change in found.iter().rev() {
            if printer.json {
                printer.object(&to_json(change))?;
                continue;
            }
            let name = change.subscriber.as_ref().map(|(_, name)| &**name);
            let parts = [Some(&*change.operation), name, change.subject.as_deref()];
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            let (at, by, words) = (moment(change.at), &change.by, in_words(change));
            printer.line(format!("{at}  {by}  {}  {words}", parts.join(" ")).trim_end())?;
        }
        if found.is_empty() && !printer.json { printer.line("no such changes") } else { Ok(()) }
    }
}
