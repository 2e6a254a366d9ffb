use std::collections::BTreeMap;

use clap::Args;

use super::failure::Failure;
use super::options::Common;
use super::print::{Printer, Table};
use super::session::{Look, PAGE_ROWS, each};
use super::words::{state, when};
use crate::operate::shown as form;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender subscriber list --db sender.db
  hookproof-sender subscriber list --db sender.db --json | jq -r 'select(.deliveries.waiting > 0) | .name'")]
pub(super) struct List {}

impl List {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let mut lanes = BTreeMap::new();
        each(
            |from| look.reader.lanes(from, PAGE_ROWS),
            |lane| Ok(lanes.insert(lane.lane, (lane.counts, lane.next)).is_none()),
        )?;
        let mut table =
            Table::new(&["NAME", "ID", "STATE", ">WAITING", ">DELIVERED", ">DEAD", "NEXT DUE", "ENDPOINT"]);
        each(
            |from| look.reader.subscribers(from, PAGE_ROWS),
            |subscriber| {
                let (counts, next) = lanes.get(&subscriber.lane).copied().unwrap_or_default();
                if printer.json {
                    let mut line = form::subscriber(&subscriber, None);
                    line["deliveries"] = form::counts(&counts);
                    printer.object(&line)?;
                    return Ok(!printer.is_closed());
                }
                table.row([
                    subscriber.name.to_string(),
                    subscriber.id.to_string(),
                    state(subscriber.state).to_owned(),
                    counts.waiting.to_string(),
                    counts.delivered.to_string(),
                    counts.dead_kept.to_string(),
                    next.map_or_else(String::new, |next| when(next, look.now)),
                    without_query(&subscriber.url),
                ]);
                Ok(true)
            },
        )?;
        if printer.json {
            return Ok(());
        }
        printer.table(&table, "no subscribers yet; `subscriber add NAME URL` adds one")
    }
}

/// Omits the query, which may hold tokens.
fn without_query(url: &str) -> String {
    url.split_once('?').map_or_else(|| url.to_owned(), |(path, _)| format!("{path}?…"))
}
