//! `subscriber retry`, `delivery retry` and `delivery resend`.

use std::fmt::Display;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::Printer;
use super::session::{Look, with_session};
use crate::engine::DeliveryId;
use crate::event::PublicId;
use crate::operate::retry::Steps;
use crate::store::Reply;
use crate::store::command::{Command, ToRetry};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber retry --db sender.db shop
  hookproof sender subscriber retry --db sender.db shop --ignore-retry-after

For an endpoint that was mended. Its retries are due now, and an open circuit breaker lets one probe through: a success
closes the breaker, a failure starts the same cooldown again. Every limit holds.")]
pub(super) struct RetrySubscriber {
    /// Its name or id
    name: String,
    #[command(flatten)]
    insist: Insist,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  hookproof sender delivery retry --db sender.db dlv_01hf7yat00000000000000000a

Its retry is due now and waits its turn: every limit holds, and those that were due before go first. An open circuit breaker
lets one probe through, which is the first of them.")]
pub(super) struct RetryDelivery {
    /// Its id, which `delivery list` shows
    delivery: PublicId,
    #[command(flatten)]
    insist: Insist,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  hookproof sender delivery resend --db sender.db dlv_01hf7yat00000000000000000a

For a receiver that lost it. It waits again, within the limits, with all attempts and its full time to live. A receiver that
knows its id takes it for a repetition. Refused while an attempt is pending or under way. Delivered ones are kept for a day
(`serve --keep-delivered`).")]
pub(super) struct Resend {
    /// Its id, which `delivery list` and `dead list` show
    delivery: PublicId,
}

impl Resend {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let (id, delivery) = (&self.delivery, find(&look, &self.delivery)?);
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        with_session(options, |session| session.command(Command::Resend(delivery)))?;
        if printer.json {
            return printer.object(&json!({ "id": id.as_str(), "state": "waiting" }));
        }
        printer.line(format_args!("{id} waits to be sent again"))
    }
}

fn find(look: &Look, id: &PublicId) -> Result<DeliveryId, Failure> {
    let found = look.delivery_ids.find(id).filter(|found| i64::try_from(found.0).is_ok());
    let found = match found {
        Some(delivery) => look.reader.delivery(delivery)?.map(|_| delivery),
        None => None,
    };
    found.ok_or_else(|| {
        Failure::refused(format_args!(
            "there is no delivery {id}; expected an id that `delivery list` shows; its record may have expired"
        ))
    })
}

#[derive(Args, Debug)]
struct Insist {
    /// End the pause that the endpoint asked for by Retry-After
    #[arg(long)]
    ignore_retry_after: bool,
}

impl RetrySubscriber {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane = look.subscriber(&self.name)?.lane;
        retry(ToRetry::Of(lane), &self.name, &self.insist, &look, common, printer)
    }
}

impl RetryDelivery {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let (id, delivery) = (&self.delivery, find(&look, &self.delivery)?);
        retry(ToRetry::This(delivery), id, &self.insist, &look, common, printer)
    }
}

fn retry(
    which: ToRetry,
    name: &impl Display,
    insist: &Insist,
    look: &Look,
    common: &Common,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut steps = Steps::new(which, insist.ignore_retry_after);
    let options = operating(common.existing_database()?, &Reach::default(), None)?;
    let mut of = None;
    with_session(options, |session| {
        session.in_steps(|| match session.command(steps.command())? {
            Reply::Retried { lane, rows, more } => {
                of = Some(lane);
                Ok(steps.done(rows, more))
            }
            other => Err(Failure::ours(format_args!("the database answered {other:?}"))),
        })
    })?;
    let lane = of.ok_or_else(|| Failure::ours("the database named no subscriber"))?;
    let retried = steps.result(&*look.reader, lane, look.now)?;
    if printer.json {
        let mut value = retried.to_json();
        value["name"] = json!(name.to_string());
        return printer.object(&value);
    }
    printer.line(format_args!("{name}: {retried}"))
}
