//! `subscriber retry`, `subscriber replay`, `delivery retry` and `delivery resend`.

use std::fmt::Display;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::jobs;
use super::options::{self, Common, Reach, operating};
use super::print::Printer;
use super::session::{Look, user, with_session};
use super::settings::patterns;
use crate::engine::{DeliveryId, Nanos, StoreTime};
use crate::event::{Pattern, PublicId};
use crate::operate;
use crate::operate::retry::Steps;
use crate::store::Reply;
use crate::store::command::{Command, ToRetry};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber retry --db sender.db shop
  hookproof sender subscriber retry --db sender.db shop --ignore-retry-after

For an endpoint that was mended. Its retries are due now, and an open circuit breaker lets one probe through: a success
closes the breaker, a failure starts the same cooldown again. A throttled lane goes on at half of its contract or more, and
after a good answer at all of it. Every limit holds.")]
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
        with_session(options, |session| {
            session.command(Command::Resend(delivery).by(&user(), Some(id.as_str())))
        })?;
        if printer.json {
            return printer.object(&json!({ "id": id.as_str(), "state": "waiting" }));
        }
        printer.line(format_args!("{id} waits to be sent again"))
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber replay --db sender.db shop --since 2h --events 'order.*,refund.made'
  hookproof sender subscriber replay --db sender.db shop --since 2026-05-17T14:00:00Z --before 2026-05-17T15:00:00Z --yes

For a receiver that lost what it accepted. Without --yes it only prints how many deliveries that would be. Each waits again,
within the limits, with the same id and body: a receiver that knows its id takes it for a repetition. Delivered ones are kept
for a day (`serve --keep-delivered`).")]
pub(super) struct Replay {
    /// Its name or id
    name: String,
    /// Only what was delivered since then: 2026-05-17T20:00:00Z, seconds since 1970, or a length back, such as 10min
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    since: Moment,
    /// Only what was delivered before then; by default, before now
    #[arg(long, value_name = "MOMENT", value_parser = moment, default_value = "0s", hide_default_value = true)]
    before: Moment,
    /// Only events of these types: *, video.trending, video.*; all, if left out
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    events: Vec<Pattern>,
    /// Send them
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, Debug)]
enum Moment {
    Ago(Nanos),
    At(StoreTime),
}

impl Moment {
    fn by(self, now: StoreTime) -> StoreTime {
        match self {
            Self::Ago(length) => StoreTime(now.0.saturating_sub(length.0)),
            Self::At(at) => at,
        }
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(length) = text.parse() {
        return Ok(Moment::Ago(length));
    }
    let at = options::moment(text).map(Moment::At);
    at.map_err(|expected| format!("{expected}, or a length such as 10min or 2h"))
}

impl Replay {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane = look.subscriber(&self.name)?.lane;
        let (since, before) = (self.since.by(look.now), self.before.by(look.now));
        let events = (!self.events.is_empty()).then(|| patterns(&self.events)).transpose()?;
        let replay =
            operate::jobs::Replay::new(lane, since, before, events, look.now).map_err(Failure::usage)?;
        if !self.yes {
            let plan = replay.plan(&*look.reader, &*look.roster(&Reach::default())?)?;
            if printer.json {
                return printer.object(&plan.to_json());
            }
            return printer.line(format_args!("{plan}; repeat with --yes to do it"));
        }
        let task = replay.task(&*look.reader, user())?;
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        with_session(options, |session| jobs::carry_out(session, task, Some(&self.name), printer)).map(drop)
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
        retry((ToRetry::Of(lane), None), &self.name, &self.insist, &look, common, printer)
    }
}

impl RetryDelivery {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let (id, delivery) = (&self.delivery, find(&look, &self.delivery)?);
        retry((ToRetry::This(delivery), Some(id.as_str())), id, &self.insist, &look, common, printer)
    }
}

fn retry(
    (which, delivery): (ToRetry, Option<&str>),
    name: &impl Display,
    insist: &Insist,
    look: &Look,
    common: &Common,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut steps = Steps::read(&*look.reader, which, insist.ignore_retry_after, look.now)?;
    let (options, by) = (operating(common.existing_database()?, &Reach::default(), None)?, user());
    with_session(options, |session| {
        session.in_steps(|| match session.command(steps.command(&by, delivery))? {
            Reply::Retried { rows, more, .. } => Ok(steps.done(rows, more)),
            other => Err(Failure::ours(format_args!("the database answered {other:?}"))),
        })
    })?;
    let retried = steps.result();
    if printer.json {
        let mut value = retried.to_json();
        value["name"] = json!(name.to_string());
        return printer.object(&value);
    }
    printer.line(format_args!("{name}: {retried}"))
}
