use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::{Printer, Table, ago, rough};
use super::session::{Look, user, with_session};
use crate::operate::nodes::{NodeStatus, find};
use crate::store::{Command, command};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender nodes --db sender.db
  hookproof sender nodes --db sender.db --json | jq 'select(.draining) | .name'

LANES: subscribers that the process delivers to now. HOME OF: subscribers that belong to it. A subscriber moves to its home within
moments, or when it has a due delivery.")]
pub(super) struct Nodes {}

impl Nodes {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let nodes = NodeStatus::all(look.reader.as_ref(), look.now)?;
        if printer.json {
            nodes.iter().try_for_each(|node| printer.object(&node.to_json()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table =
            Table::new(&["NAME", "SINCE", ">LANES", ">HOME OF", "LEASE", "DRAINING", "VERSION", "API"]);
        for status in &nodes {
            let said = &status.node.announced;
            let draining = if said.draining { "yes" } else { "no" };
            table.row([
                said.name.to_string(),
                ago(status.node.since, status.at),
                status.lanes.to_string(),
                status.home_of.to_string(),
                rough(status.lease()).to_string(),
                draining.to_owned(),
                said.version.to_string(),
                said.address.as_deref().unwrap_or_default().to_owned(),
            ]);
        }
        printer.table(&table, "no process is delivering from this database")?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Subcommand, Debug)]
pub(super) enum Node {
    /// Have a process hand its subscribers to the others in order, and take no more
    Drain(Drain),
    /// Let it take subscribers again
    Resume(Resume),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender node drain --db sender.db web-1:4711

The process keeps running and answers its API. If no other process can take its subscribers, their deliveries wait until the
process is resumed or another one starts. The drain lasts until the process ends.")]
pub(super) struct Drain {
    /// Its name, or its id
    node: String,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender node resume --db sender.db web-1:4711")]
pub(super) struct Resume {
    /// Its name, or its id
    node: String,
}

impl Node {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let (name, draining) = match self {
            Self::Drain(Drain { node }) => (node, true),
            Self::Resume(Resume { node }) => (node, false),
        };
        let database = common.existing_database()?;
        let look = Look::open(&database)?;
        let nodes = look.reader.nodes()?;
        let owner = find(&nodes, &name, look.now).map_err(Failure::refused)?;
        let drain = Command::Drain(command::Drain { owner, draining }).by(&user(), Some(&name));
        with_session(operating(database, &Reach::default(), None)?, |session| session.command(drain))?;
        if printer.json {
            printer.object(&json!({ "name": name, "draining": draining }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let takes_over = |node: &&crate::store::node::Node| node.owner != owner && node.takes_lanes();
        let others = nodes.living(look.now).filter(takes_over).count();
        printer.line(match (draining, others) {
            (false, _) => format!("{name} takes subscribers again"),
            (true, 0) => format!(
                "{name} hands back its subscribers and takes no more; no other process can take them, so \
                 deliveries wait until one is resumed or another one starts"
            ),
            (true, 1) => format!("{name} hands its subscribers to the other process and takes no more"),
            (true, others) => {
                format!("{name} hands its subscribers to {others} other processes and takes no more")
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
