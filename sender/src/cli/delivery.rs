use std::collections::BTreeMap;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach};
use super::print::{Printer, Table, moment, relative_time, rough};
use super::retry::{Resend, RetryDelivery};
use super::session::{Look, PAGE_ROWS, each};
use crate::engine::{LaneId, Nanos};
use crate::event::PublicId;
use crate::excerpt::is_hidden;
use crate::operate::deliveries::{self, Tracked, ending, outcome};
use crate::operate::json_forms::place;
use crate::store::paging::{Cursor, Page};
use crate::store::read::{self, Filter, Place, ReadError, SubscriberRef};

#[derive(Subcommand, Debug)]
pub(super) enum Delivery {
    /// Show them, the newest first; those that wait for one subscriber as they are due
    List(List),
    /// Show one with its attempts, and why it waits
    Show(Show),
    /// Make its retry due now
    Retry(RetryDelivery),
    /// Send a settled one again, with the same id and body
    Resend(Resend),
}

impl Delivery {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common, printer),
            Self::Show(show) => show.run(common, printer),
            Self::Retry(retry) => retry.run(common, printer),
            Self::Resend(resend) => resend.run(common, printer),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum InState {
    Waiting,
    Delivered,
    Dead,
    Coalesced,
    Forgotten,
}

impl From<InState> for Place {
    fn from(state: InState) -> Self {
        match state {
            InState::Waiting => Self::Waiting,
            InState::Delivered => Self::Delivered,
            InState::Dead => Self::Dead,
            InState::Coalesced => Self::Coalesced,
            InState::Forgotten => Self::Forgotten,
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender delivery list --db sender.db --subscriber shop --state waiting --tried
  hookproof sender delivery list --db sender.db --event order-4711 --json")]
pub(super) struct List {
    /// Only this subscriber's, by its name or id
    #[arg(long, value_name = "NAME")]
    subscriber: Option<String>,
    /// Only those in this state
    #[arg(long, value_name = "STATE")]
    state: Option<InState>,
    /// Only those with an attempt
    #[arg(long)]
    tried: bool,
    /// Only those of this event, by its id
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["subscriber", "state"])]
    event: Option<String>,
    /// Show so many at most
    #[arg(long, value_name = "COUNT", default_value = "100")]
    max: u64,
}

impl List {
    fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane = self.subscriber.as_deref().map(|name| look.subscriber(name)).transpose()?;
        let lanes = lane.map(|found| found.lane).into();
        let filter = Filter { lanes, place: self.state.map(Into::into) };
        let mut listing = Listing::new(&look, self.max);
        let page = PAGE_ROWS.min(u32::try_from(self.max).unwrap_or(u32::MAX)).max(1);
        let wanted = |delivery: &read::Delivery| !self.tried || delivery.attempts > 0;
        each(
            |from| self.page(&look, &filter, from, page),
            |delivery| if wanted(&delivery) { listing.add(&delivery, printer) } else { Ok(true) },
        )?;
        listing.end(printer)
    }

    fn page(
        &self,
        look: &Look,
        filter: &Filter,
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<read::Delivery>, ReadError> {
        match &self.event {
            Some(event) => look.reader.deliveries_of_event(event, &filter.lanes, from, max),
            None => look.reader.deliveries(filter.clone(), from, max),
        }
    }
}

/// Lines of JSON, or one table.
pub(super) struct Listing<'l> {
    look: &'l Look,
    table: Table,
    left: u64,
    known: Subscribers,
}

impl<'l> Listing<'l> {
    pub(super) fn new(look: &'l Look, max: u64) -> Self {
        let headings = &[
            "DELIVERY",
            "STATE",
            "RECEIVED",
            "SUBSCRIBER",
            ">TRIES",
            "DUE OR SETTLED",
            "TYPE",
            "KEY",
            "EVENT",
        ];
        Self { look, table: Table::new(headings), left: max, known: Subscribers::default() }
    }

    /// Returns false when it is full.
    pub(super) fn add(&mut self, delivery: &read::Delivery, printer: &mut Printer) -> Result<bool, Failure> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let id = self.look.delivery_ids.name(delivery.received, delivery.delivery);
        let (subscriber, name) = self.known.find(self.look, delivery.lane)?;
        if printer.json {
            let mut line = deliveries::to_json(delivery, &id, subscriber.as_deref());
            line["name"] = json!(name);
            printer.object(&line)?;
        } else {
            self.table.row([
                id.to_string(),
                place(delivery.place).to_owned(),
                moment(delivery.received),
                name,
                delivery.attempts.to_string(),
                relative_time(delivery.at, self.look.now),
                delivery.kind.to_string(),
                delivery.key.as_deref().unwrap_or_default().to_owned(),
                delivery.event.to_string(),
            ]);
        }
        Ok(self.left > 0 && !printer.is_closed())
    }

    pub(super) const fn is_full(&self) -> bool {
        self.left == 0
    }

    pub(super) fn end(&self, printer: &mut Printer) -> Result<(), Failure> {
        if printer.json { Ok(()) } else { printer.table(&self.table, "no such deliveries") }
    }
}

/// The id and the name of each subscriber, read once.
#[derive(Default)]
pub(super) struct Subscribers(BTreeMap<LaneId, (Option<String>, String)>);

impl Subscribers {
    pub(super) fn find(&mut self, look: &Look, lane: LaneId) -> Result<(Option<String>, String), Failure> {
        if let Some(known) = self.0.get(&lane) {
            return Ok(known.clone());
        }
        let found = look.reader.subscriber(&SubscriberRef::Lane(lane))?;
        let found = found.map_or_else(
            || (None, format!("removed ({})", lane.0)),
            |found| (Some(found.id.to_string()), found.name.to_string()),
        );
        self.0.insert(lane, found.clone());
        Ok(found)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  hookproof sender delivery show --db sender.db dlv_01hf7yat00000000000000000a

The body is shown as it is sent. Attempts are kept for 7 days (`serve --keep-attempts`).")]
pub(super) struct Show {
    /// Its id, which `delivery list` and `dead list` show, and which endpoints receive
    delivery: PublicId,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let id = &self.delivery;
        let found = match look.delivery_ids.find(id).filter(|found| i64::try_from(found.0).is_ok()) {
            Some(delivery) => Tracked::read(&*look.reader, &look.flows(&self.reach)?, delivery)?,
            None => None,
        };
        let found = found.ok_or_else(|| {
            Failure::refused(format_args!(
                "there is no delivery {id}; expected an id that `delivery list` shows; its record may have expired"
            ))
        })?;
        let (subscriber, name) = Subscribers::default().find(&look, found.delivery.lane)?;
        if printer.json {
            let mut value = found.to_json(id, subscriber.as_deref());
            value["name"] = json!(name);
            return printer.object(&value);
        }
        printer.pairs(&pairs(&found, id, name, &look))?;
        let mut table =
            Table::new(&[">ATTEMPT", "AT", ">CONNECT", ">FIRST BYTE", ">TOOK", "OUTCOME", "WHY IT ENDED"]);
        for (place, attempted) in found.attempts.iter().enumerate().rev() {
            let attempt = &attempted.attempt;
            let part =
                |length: Option<Nanos>| length.map(|length| rough(length).to_string()).unwrap_or_default();
            let resent = if found.is_resent(place) { "; an operator had it sent again" } else { "" };
            table.row([
                attempted.number.to_string(),
                moment(attempt.at),
                part(attempt.details.connect),
                part(attempt.details.first_byte),
                rough(attempt.latency).to_string(),
                outcome(attempt.outcome).to_owned(),
                ending(attempt) + resent,
            ]);
        }
        printer.line("")?;
        printer.table(&table, "no attempts, or they are no longer kept")?;
        for attempted in found.attempts.iter().rev() {
            let Some(answer) = &attempted.attempt.details.answer else { continue };
            let head = answer.headers().map(|(name, value)| format!("{name}: {value}"));
            let end = if answer.cut { " … (its rest was not kept)" } else { "" };
            printer.line("")?;
            printer.pairs(&[
                (format!("answer to attempt {}", attempted.number), head.collect::<Vec<_>>().join("; ")),
                ("its body".to_owned(), escaped(&answer.text()) + end),
            ])?;
        }
        Ok(())
    }
}

fn escaped(text: &str) -> String {
    let each = |letter: char| {
        if is_hidden(letter) { letter.escape_default().to_string() } else { letter.to_string() }
    };
    text.chars().map(each).collect()
}

fn pairs(found: &Tracked, id: &PublicId, name: String, look: &Look) -> Vec<(String, String)> {
    let delivery = &found.delivery;
    let last = match found.waits_for() {
        Some(reason) => ("waits for", reason),
        None => ("settled", format!("{}, {}", moment(delivery.at), relative_time(delivery.at, look.now))),
    };
    let state = place(delivery.place);
    let rows = [
        ("delivery", id.to_string()),
        ("subscriber", name),
        ("event", delivery.event.to_string()),
        ("type", delivery.kind.to_string()),
        ("key", delivery.key.as_deref().unwrap_or_default().to_owned()),
        ("state", delivery.reason.map_or_else(|| state.to_owned(), |why| format!("{state}: {}", why.name()))),
        last,
        ("received", moment(delivery.received)),
        ("expires", moment(delivery.expires)),
        ("body", found.body().unwrap_or_else(|| "lost".to_owned())),
    ];
    rows.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}
