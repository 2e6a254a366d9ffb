//! The events of a data subject: found by their key or by a field of a body, and forgotten.

use std::collections::{BTreeSet, VecDeque};
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::DeliveryId;
use crate::runtime::jobs::STEP_ROWS;
use crate::store::command::{Command, Erase};
use crate::store::paging::{Cursor, Page};
use crate::store::read::{Delivery, Filter, Lanes, ReadError, Reader};
use crate::store::reply::Erased;
use crate::store::{Reply, StoreError};

const PAGE_ROWS: u32 = 500;

/// If both are given, both must hold.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) key: Option<String>,
    pub(crate) field: Option<Field>,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pointer: String,
    text: String,
    /// The text as JSON, if it is that.
    value: Option<Value>,
}

impl FromStr for Field {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (pointer, text) = text
            .split_once('=')
            .filter(|(pointer, _)| pointer.starts_with('/'))
            .ok_or("expected /PATH=VALUE, such as /data/customer=4711")?;
        let (pointer, text, value) = (pointer.to_owned(), text.to_owned(), serde_json::from_str(text).ok());
        Ok(Self { pointer, text, value })
    }
}

impl Field {
    fn is_in(&self, body: &[u8]) -> bool {
        let body: Option<Value> = serde_json::from_slice(body).ok();
        let found = body.as_ref().and_then(|body| body.pointer(&self.pointer));
        found.is_some_and(|found| found.as_str() == Some(&self.text) || Some(found) == self.value.as_ref())
    }
}

impl Subject {
    pub(crate) fn is_in(&self, reader: &dyn Reader, delivery: &Delivery) -> Result<bool, StoreError> {
        if self.key.as_deref().is_some_and(|key| delivery.key.as_deref() != Some(key)) {
            return Ok(false);
        }
        let Some(field) = &self.field else { return Ok(true) };
        Ok(reader.body(delivery.delivery)?.is_some_and(|body| field.is_in(&body.bytes)))
    }

    /// Reads one page of all deliveries, and retains those of the subject.
    pub(crate) fn find(
        &self,
        reader: &dyn Reader,
        from: Option<Cursor>,
    ) -> Result<Page<Delivery>, ReadError> {
        let mut page = reader.deliveries(Filter { lanes: Lanes::All, place: None }, from, PAGE_ROWS)?;
        let mut found = Vec::new();
        for delivery in page.items {
            if self.is_in(reader, &delivery)? {
                found.push(delivery);
            }
        }
        page.items = found;
        Ok(page)
    }

    /// Names no value.
    const fn kind(&self) -> &'static str {
        match (&self.key, &self.field) {
            (Some(_), Some(_)) => "key and field",
            (Some(_), None) => "key",
            (None, _) => "field",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Forgetting {
    subject: Subject,
    by: Arc<str>,
    plan: bool,
    pub(crate) next: Option<Cursor>,
    pub(crate) is_over: bool,
    commands: VecDeque<Erase>,
    erased: Erased,
    /// A command was given whose reply is not known.
    in_doubt: bool,
}

/// Writes the audit line when dropped, so also after a failure.
pub(crate) struct Audited(pub(crate) Forgetting);

impl Drop for Audited {
    fn drop(&mut self) {
        self.0.log();
    }
}

impl Forgetting {
    pub(crate) fn new(subject: Subject, by: Arc<str>, plan: bool, from: Option<Cursor>) -> Self {
        let (commands, erased) = (VecDeque::new(), Erased::default());
        Self { subject, by, plan, next: from, is_over: false, commands, erased, in_doubt: false }
    }

    /// Reads one page. Its commands must follow before the next.
    pub(crate) fn read(&mut self, reader: &dyn Reader) -> Result<(), ReadError> {
        let Page { items, next } =
            reader.deliveries(Filter { lanes: Lanes::All, place: None }, self.next, PAGE_ROWS)?;
        let last = items.last().map(|last| last.delivery);
        let mut known = BTreeSet::new();
        for delivery in items {
            let id = delivery.delivery;
            if known.contains(&id) || !self.subject.is_in(reader, &delivery)? {
                continue;
            }
            let siblings = reader.siblings(id)?;
            known.extend(siblings.iter().copied().filter(|one| *one < id && Some(*one) >= last));
            if !self.plan || self.is_first(reader, id, &siblings)? {
                let (of_event, plan) = (siblings.len(), self.plan);
                self.commands.push_back(Erase { delivery: id, of_event, plan, after: None, max: STEP_ROWS });
            }
        }
        (self.next, self.is_over) = (next, next.is_none());
        Ok(())
    }

    /// Whether no newer one of its event is found, so that plans in several calls count it once.
    fn is_first(
        &self,
        reader: &dyn Reader,
        id: DeliveryId,
        siblings: &[DeliveryId],
    ) -> Result<bool, StoreError> {
        for newer in siblings.iter().rev().take_while(|one| **one > id) {
            if let Some(newer) = reader.delivery(*newer)?
                && self.subject.is_in(reader, &newer)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The command to give now, if this page has one left. [`Self::add`] must get its reply.
    pub(crate) fn command(&mut self) -> Option<Erase> {
        self.in_doubt = !self.commands.is_empty();
        self.commands.front().copied()
    }

    /// All that this call erases is one change, recorded with the first commit.
    pub(crate) fn attributed(&self, erase: Erase) -> Command {
        let command = Command::Erase(erase);
        if self.plan || self.erased != Erased::default() {
            return command;
        }
        command.by(&self.by, Some(self.subject.kind()))
    }

    /// Returns any reply that is not to an [`Erase`].
    pub(crate) fn add(&mut self, reply: Reply) -> Result<(), Reply> {
        self.in_doubt = false;
        let Reply::Erased(erased, after) = reply else { return Err(reply) };
        self.erased += erased;
        match (after, self.commands.front_mut()) {
            (Some(_), Some(command)) => command.after = after,
            _ => drop(self.commands.pop_front()),
        }
        Ok(())
    }

    /// Lets the next call go on after this command. False inside an event of a plan, which would be counted again.
    pub(crate) fn stop_after(&mut self, Erase { delivery, .. }: Erase) -> bool {
        let goes_on = self.commands.front().is_some_and(|next| next.delivery == delivery);
        if goes_on && self.plan {
            return false;
        }
        let below = DeliveryId(delivery.0.saturating_add(u64::from(goes_on)));
        (self.next, self.is_over) = (Some(Cursor::below(below)), false);
        true
    }

    /// The audit line, without the key.
    fn log(&self) {
        let Erased { events, deliveries, waiting, dead, attempts, answers } = self.erased;
        if self.plan || (events, attempts, answers, self.in_doubt) == (0, 0, 0, false) {
            return;
        }
        tracing::warn!(
            by = self.subject.kind(),
            events,
            deliveries,
            waiting,
            dead,
            attempts,
            answers,
            in_doubt = self.in_doubt,
            "a data subject was forgotten"
        );
    }

    pub(crate) fn to_json(&self) -> Value {
        let Erased { events, deliveries, waiting, dead, attempts, answers } = self.erased;
        json!({
            "plan": self.plan,
            "events": events,
            "deliveries": deliveries,
            "waiting": waiting,
            "dead": dead,
            "attempts": attempts,
            "answers": answers,
        })
    }

    pub(crate) fn text(&self) -> String {
        let Erased { events, deliveries, waiting, dead, attempts, answers } = self.erased;
        format!(
            "events: {events}; deliveries: {deliveries}, of them waiting: {waiting}, dead letters: {dead}; attempts: \
             {attempts}; answers: {answers}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(of: impl FnOnce()) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = Arc::new(file.reopen().unwrap());
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(log).finish();
        tracing::subscriber::with_default(log, of);
        std::fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn what_was_erased_is_logged_however_it_ends() {
        let erased = |events| Reply::Erased(Erased { events, ..Erased::default() }, None);
        let begun = |plan| {
            let subject = Subject { key: Some("ann".to_owned()), field: None };
            let mut audited = Audited(Forgetting::new(subject, "ann".into(), plan, None));
            let erase = Erase { delivery: DeliveryId(1), of_event: 1, plan, after: None, max: 1 };
            audited.0.commands.push_back(erase);
            assert!(audited.0.command().is_some());
            audited
        };
        for (plan, events, expected) in [(false, 2, true), (false, 0, false), (true, 2, false)] {
            let log = logged(|| {
                let mut audited = begun(plan);
                assert!(audited.0.add(erased(events)).is_ok() && audited.0.command().is_none());
            });
            assert_eq!(log.contains("a data subject was forgotten by=\"key\" events=2"), expected, "{log}");
            assert_eq!(log.is_empty(), !expected, "{log}");
        }
        let cut_off = logged(|| drop(begun(false)));
        assert!(cut_off.contains("in_doubt=true") && !cut_off.contains("ann"), "{cut_off}");
    }
}
