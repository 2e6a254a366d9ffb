//! The log of changes. A change and its record are one commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::job::JobRows;
use super::token::TokenRows;
use crate::change::RecordedChange;
use crate::command::{Attributed, Change, Command, Dead, Retry, ToRetry};
use crate::engine::LaneId;
use crate::job::Job;
use crate::lane::{LaneState, Pause};
use crate::reply::{Emitted, Erased, Placed, Reply};

/// Its values are in no record.
const CLIENT_SECRET: &str = "oauth.client_secret";
/// A longer value is cut.
const VALUE_BYTES_MAX: usize = 1_000;
/// In a full log, one subscriber's changes push out those of others up to one of so many shares.
const SHARES: u64 = 100;

type Fields = BTreeMap<String, Value>;
/// A subscriber's id and name.
type Named = (Arc<str>, Arc<str>);

pub(crate) struct Described {
    pub(crate) id: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) url: Arc<str>,
    pub(crate) patterns: String,
    pub(crate) settings: String,
    pub(crate) pause: Pause,
}

#[derive(Default)]
pub(crate) struct StateBefore {
    lane: Option<LaneId>,
    subscriber: Option<Named>,
    fields: Fields,
}

#[derive(Clone, Copy)]
pub(crate) enum Records<'a> {
    OfSubscribers,
    Of(&'a str),
    /// Of tokens, nodes, and jobs of all subscribers.
    Others,
}

pub(crate) trait ChangeRows: JobRows + TokenRows {
    fn described(&mut self, lane: LaneId) -> Result<Option<Described>, Self::Error>;

    /// After all that are kept. The newest is, so no number is used again.
    fn next_change(&mut self) -> Result<u64, Self::Error>;

    fn insert_change(&mut self, change: &RecordedChange) -> Result<(), Self::Error>;

    fn count_changes(&mut self, of: Records<'_>) -> Result<u64, Self::Error>;

    fn delete_oldest_change(&mut self, of: Records<'_>) -> Result<(), Self::Error>;

    fn state_before(&mut self, command: &Command) -> Result<StateBefore, Self::Error> {
        let lane = match command {
            Command::Change(Change { lane, .. })
            | Command::Remove(lane)
            | Command::Retry(Retry { which: ToRetry::Of(lane), .. }) => Some(*lane),
            Command::Rotate(rotate) => Some(rotate.lane),
            Command::Resend(delivery) | Command::Retry(Retry { which: ToRetry::This(delivery), .. }) => {
                self.place_of(*delivery)?.map(|(lane, _)| lane)
            }
            Command::Emit(emit) => emit.targets.first().map(|target| target.lane),
            _ => None,
        };
        let (subscriber, mut fields) = self.subscriber(lane)?;
        if let Command::SetJob(set) = command {
            fields = self.job(set.job)?.as_ref().map(of_job).unwrap_or_default();
        }
        Ok(StateBefore { lane, subscriber, fields })
    }

    fn record_change(
        &mut self,
        Attributed { by, subject, command }: &Attributed,
        (operation, before): (&str, StateBefore),
        reply: &Reply,
    ) -> Result<(), Self::Error> {
        if !changes_something(reply) {
            return Ok(());
        }
        let lane = match reply {
            Reply::Subscribed { lane } | Reply::Retried { lane, .. } => Some(*lane),
            Reply::Job(job) => job.lane(),
            _ => before.lane,
        };
        let (mut subscriber, mut after) = self.subscriber(lane)?;
        if let Command::Remove(_) = command {
            subscriber = before.subscriber;
            after = before.fields.clone();
            after.insert("state".to_owned(), LaneState::Removed.name().into());
        }
        let mut subject = subject.clone();
        match (command, reply) {
            (Command::StartJob(_) | Command::SetJob(_), Reply::Job(job)) => {
                after = of_job(job);
                subject = Some(job.id.0.to_string().into());
            }
            (Command::CreateToken(token), _) => {
                after.insert("scope".to_owned(), token.scope.name().into());
                after.insert("expires".to_owned(), token.expires.map(|at| at.to_string()).into());
                let names = token.subscribers.as_ref().map(|names| names.as_slice());
                after.insert("subscribers".to_owned(), json!(names));
                subject = Some(token.name.clone());
            }
            (Command::RevokeToken(name), _) => subject = Some(name.clone()),
            _ => {}
        }
        let changed = match command {
            Command::Rotate(_) => json!({ "secret": "changed" }),
            _ => Value::Object(difference(&before.fields, &after)),
        };
        if matches!(command, Command::Change(_)) && changed == json!({}) {
            return Ok(());
        }
        let number = self.next_change()?;
        let id = subscriber.as_ref().map(|(id, _)| Arc::clone(id));
        self.insert_change(&RecordedChange {
            number,
            at: self.now(),
            by: by.clone(),
            operation: operation.into(),
            subscriber,
            subject,
            changed: changed.to_string().into(),
        })?;
        self.bound_changes(number, id.as_deref())
    }

    /// Deletes one for the newest, if the log is full. Subscribers and the others have `changes_max` each, so no change
    /// of a subscriber deletes one of a token.
    fn bound_changes(&mut self, newest: u64, subscriber: Option<&str>) -> Result<(), Self::Error> {
        let max = self.limits().changes_max;
        let all = subscriber.map_or(Records::Others, |_| Records::OfSubscribers);
        if newest <= max || self.count_changes(all)? <= max {
            return Ok(());
        }
        match subscriber.map(Records::Of) {
            Some(own) if self.count_changes(own)? > max.div_ceil(SHARES) => self.delete_oldest_change(own),
            _ => self.delete_oldest_change(all),
        }
    }

    fn subscriber(&mut self, lane: Option<LaneId>) -> Result<(Option<Named>, Fields), Self::Error> {
        let Some(lane) = lane else { return Ok(Default::default()) };
        let Some(found) = self.described(lane)? else { return Ok(Default::default()) };
        let state = self.lane(lane)?.map_or(LaneState::Removed, |lane| lane.state);
        let subscriber = Some((found.id.clone(), found.name.clone()));
        Ok((subscriber, found.into_fields(state)))
    }
}

fn changes_something(reply: &Reply) -> bool {
    match reply {
        Reply::Refused(_) => false,
        Reply::Emitted(Emitted { targets, .. }) => {
            targets.iter().any(|placed| matches!(placed, Placed::Waiting { .. } | Placed::Overflowed { .. }))
        }
        Reply::Erased(erased, _) => *erased != Erased::default(),
        _ => true,
    }
}

impl Described {
    fn into_fields(self, state: LaneState) -> Fields {
        let mut fields = Fields::new();
        // Settings that do not open, or are no JSON, must not prevent a change.
        match serde_json::from_str(&self.settings) {
            Ok(settings) => flatten("", settings, &mut fields),
            Err(_) => drop(fields.insert("settings".to_owned(), "unreadable".into())),
        }
        let events = serde_json::from_str(&self.patterns).unwrap_or(Value::String(self.patterns));
        let until = self.pause.until.map(|until| until.to_string());
        let others: [(&str, Value); 6] = [
            ("name", (&*self.name).into()),
            ("url", (&*self.url).into()),
            ("events", events),
            ("state", state.name().into()),
            ("pause.reason", self.pause.reason.as_deref().into()),
            ("pause.until", until.into()),
        ];
        fields.extend(others.map(|(name, value)| (name.to_owned(), value)));
        fields
    }
}

fn of_job(job: &Job) -> Fields {
    let Job { task, state, .. } = job;
    let ids = match &task.which {
        Dead::These(ids) => ids.len().into(),
        Dead::All | Dead::Of(_) => Value::Null,
    };
    let fields = [
        ("state", state.name().into()),
        ("planned", task.planned.into()),
        ("ids", ids),
        ("events", json!(task.events)),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into()
}

fn flatten(path: &str, value: Value, fields: &mut Fields) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(&path, value, fields);
            }
        }
        value => drop(fields.insert(path.to_owned(), value)),
    }
}

fn difference(before: &Fields, after: &Fields) -> Map<String, Value> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let pairs = names
        .into_iter()
        .map(|name| (name, [before, after].map(|fields| fields.get(name).cloned().unwrap_or_default())));
    let changed = pairs.filter(|(_, [before, after])| before != after);
    let shown = |name: &str, pair: [Value; 2]| {
        if name == CLIENT_SECRET { "changed".into() } else { pair.map(|value| shown(name, value)).into() }
    };
    changed.map(|(name, pair)| (name.clone(), shown(name, pair))).collect()
}

/// Without the values of headers, where operators may put a secret though they should not.
fn shown(name: &str, value: Value) -> Value {
    let value = match value {
        Value::Array(headers) if name == "headers" => {
            let names = headers.iter().filter_map(|header| header.as_str()?.split_once(':'));
            names.map(|(name, _)| Value::String(format!("{name}: …"))).collect()
        }
        value => value,
    };
    let text = value.to_string();
    if text.len() <= VALUE_BYTES_MAX {
        return value;
    }
    Value::String(format!("{}…", &text[..text.floor_char_boundary(VALUE_BYTES_MAX)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_each_changed_setting_cuts_it_and_hides_headers() {
        let of = |settings: Value| {
            let mut fields = Fields::new();
            flatten("", settings, &mut fields);
            fields
        };
        let long = "x".repeat(5_000);
        let before = of(json!({ "limit": { "rate": "5/s", "burst": 2 }, "headers": ["X-A: one"] }));
        let after =
            of(json!({ "limit": { "burst": 2 }, "headers": ["X-A: two"], "shape": { "allow": [long] } }));
        let found = difference(&before, &after);
        assert_eq!(found["limit.rate"], json!(["5/s", null]));
        assert_eq!(found["headers"], json!([["X-A: …"], ["X-A: …"]]));
        let cut = found["shape.allow"][1].as_str().unwrap();
        assert!(cut.ends_with("x…") && cut.len() < VALUE_BYTES_MAX + 10, "{cut}");
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
