use clap::Args;
use serde_json::json;

use super::delivery::Listing;
use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::Printer;
use super::session::{Look, PAGE_ROWS, each, user, with_session};
use crate::operate::forget::{Audited, Field, Forgetting, Subject};
use crate::store::read::{Filter, Lanes};

#[derive(Args, Debug)]
struct Which {
    /// The event's key
    #[arg(long, value_name = "KEY", required_unless_present = "field")]
    key: Option<String>,
    /// A field of the body, and its value
    #[arg(long, value_name = "/PATH=VALUE")]
    field: Option<Field>,
}

impl Which {
    fn subject(self) -> Subject {
        Subject { key: self.key, field: self.field }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender find --db sender.db --key customer-4711
  hookproof sender find --db sender.db --field /data/customer/email=ann@example.org --json

For each delivery: its event, its subscriber, its state. --field is a JSON pointer into the body as that subscriber gets it, and JSON or
text. With both options both must hold.

No index helps here: it reads all deliveries, in steps that hold up nothing. Rows of the outbox are not searched, nor events without a
delivery; these are deleted after `serve --keep-delivered`. `forget` takes the same options.")]
pub(super) struct Find {
    #[command(flatten)]
    which: Which,
    /// Show so many at most
    #[arg(long, value_name = "COUNT", default_value = "10000")]
    max: u64,
}

impl Find {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let (subject, mut listing) = (self.which.subject(), Listing::new(&look, self.max));
        each(
            |from| look.reader.deliveries(Filter { lanes: Lanes::All, place: None }, from, PAGE_ROWS),
            |delivery| {
                if subject.is_in(&*look.reader, &delivery)? {
                    listing.add(&delivery, printer)
                } else {
                    Ok(true)
                }
            },
        )?;
        listing.end(printer)?;
        if listing.is_full() {
            eprintln!("these are the {} of --max; there may be more", self.max);
        }
        Ok(())
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender forget --db sender.db --key customer-4711
  hookproof sender forget --db sender.db --key customer-4711 --yes
  hookproof sender forget --db sender.db --field /data/customer/email=ann@example.org --yes

Without --yes it only counts. It forgets whole events, with all their deliveries, whose deliveries `find` shows for the same
options: keys, bodies, signatures, answers and errors are deleted. What waits or is a dead letter is not claimed any more; what
`serve` has claimed may still go out once. Ids, types, times and outcomes stay until their retention ends, so an event that is offered
again is a duplicate.

Copies keep everything: backups, endpoints, logs of the server. So do answers and errors of deliveries that retention deleted already,
until their own retention ends; and events without a delivery are not found. See docs/operator.md.")]
pub(super) struct Forget {
    #[command(flatten)]
    which: Which,
    /// Forget them
    #[arg(long)]
    yes: bool,
}

impl Forget {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let (plan, look) = (!self.yes, Look::open(&common.existing_database()?)?);
        let mut audited = Audited(Forgetting::new(self.which.subject(), user(), plan, None));
        let forgetting = &mut audited.0;
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        let log_emptied = with_session(options, |session| {
            let steps = session.in_steps(|| {
                forgetting.read(&*look.reader)?;
                while let Some(erase) = forgetting.command() {
                    forgetting
                        .add(session.command(forgetting.attributed(erase))?)
                        .map_err(|other| Failure::ours(format_args!("the database answered {other:?}")))?;
                }
                Ok(!forgetting.is_over)
            });
            if plan {
                return steps.map(|()| None);
            }
            steps?;
            Ok(Some(session.wait(session.sender().empty_log())?))
        })?;
        if printer.json {
            let mut value = forgetting.to_json();
            value["log_emptied"] = json!(log_emptied);
            printer.object(&value)?;
        } else if plan {
            printer.line(format_args!("{}; repeat with --yes to forget them", forgetting.text()))?;
        } else {
            printer.line(format_args!("forgotten: {}", forgetting.text()))?;
        }
        if log_emptied == Some(false) {
            return Err(Failure::refused(
                "the file's log still holds the content as it was, since another program reads or writes the file; repeat \
                 the command to empty the log",
            ));
        }
        Ok(())
    }
}
