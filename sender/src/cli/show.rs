use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::options::{Common, Reach};
use super::print::{self, Printer, Table, moment, relative_time};
use super::session::{Look, PAGE_ROWS, each};
use super::settings::read_id;
use crate::operate::flow::{Flow, State};
use crate::operate::json_forms as form;
use crate::operate::pause::in_words;
use crate::runtime::clock::wall;
use crate::sign::Secret;
use crate::store::lane::Pause;
use crate::store::latency::Measured;
use crate::store::read::{LaneStatus, LiveSecret, Over};
use crate::subscriber::description::{Default, Form, Group, Setting};
use crate::subscriber::{SettingsText, reference};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber show --db sender.db shop
  hookproof sender subscriber show --db sender.db shop --json

The names under settings are the keys of `subscriber set`. Secrets are never shown again.")]
pub(super) struct Show {
    /// Its name or id
    name: String,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let subscriber = look.subscriber(&self.name)?;
        let lane = look.reader.lane(subscriber.lane)?;
        let flow = look.flows(&self.reach)?.of(&*look.reader, lane.as_slice())?.pop();
        let latencies = look.reader.latencies(&[subscriber.lane], Over::Day { until: look.now })?;
        let measured = latencies.first().map(|(_, measured)| measured);
        let secrets = look.reader.secrets(subscriber.lane, wall())?;
        let settings = SettingsText::from_json(&subscriber.settings).map_err(Failure::refused)?;
        let agreement = settings.validate(&read_id(&subscriber)?, &self.reach.regions()?);
        let files = agreement.as_ref().ok().and_then(|agreement| agreement.tls.as_ref());
        let unusable = files.and_then(|files| files.check(&subscriber.url).err());
        let fault = agreement.err().map(|fault| fault.to_string());
        let fault = fault.or_else(|| unusable.as_ref().map(ToString::to_string));
        let profile = settings.sign.unwrap_or_default();
        let public_key = |live: &LiveSecret| Secret::parse(live.secret.reveal()).ok()?.public_key(profile);
        if printer.json {
            let mut whole = form::subscriber(&subscriber, fault);
            let shown = |live: &LiveSecret| {
                let mut value =
                    json!({ "created": moment(live.created), "retires": live.retires.map(moment) });
                if let Some(key) = public_key(live) {
                    value["public_key"] = key.into();
                }
                value
            };
            whole["secrets"] = secrets.iter().map(shown).collect();
            whole["flow"] = flow.map_or(Value::Null, |flow| flow.to_json());
            whole["deliveries"] = lane.as_ref().map_or(Value::Null, |lane| form::counts(&lane.counts));
            form::measured(&mut whole, measured);
            return printer.object(&whole);
        }
        let mut pairs = vec![
            ("name".to_owned(), subscriber.name.to_string()),
            ("id".to_owned(), subscriber.id.to_string()),
            ("url".to_owned(), subscriber.url.to_string()),
            ("events".to_owned(), flat(&value(&subscriber.patterns)?)),
            ("health".to_owned(), flow.as_ref().map_or("", |flow| flow.health.word()).to_owned()),
            ("state".to_owned(), flow.map_or_else(String::new, |flow| flow.to_string())),
            ("created".to_owned(), moment(subscriber.created)),
        ];
        pairs.extend(unusable.map(|unusable| ("fault".to_owned(), unusable.to_string())));
        for live in secrets {
            let until =
                live.retires.map_or_else(|| "signs".to_owned(), |at| format!("signs until {}", moment(at)));
            pairs.push(("secret".to_owned(), format!("{until}, since {}", moment(live.created))));
            pairs.extend(public_key(&live).map(|key| ("public key".to_owned(), key)));
        }
        if let Some(lane) = lane {
            pairs.extend(figures(&lane, measured, &look));
        }
        printer.sentences(&pairs)?;
        printer.line("\nsettings (KEY=VALUE of `subscriber set`; (default) where none was given)")?;
        let given = value(&settings.to_json())?;
        printer.pairs(&flattened("", &reference::settings(), &settings.in_effect(), &given))
    }
}

fn value(json: &str) -> Result<Value, Failure> {
    serde_json::from_str(json)
        .map_err(|error| Failure::ours(format_args!("the stored settings are not JSON: {error}")))
}

fn figures(lane: &LaneStatus, measured: Option<&Measured>, look: &Look) -> Vec<(String, String)> {
    let counts = &lane.counts;
    let owner =
        lane.owner.map_or_else(|| "no process".to_owned(), |(owner, _)| format!("process {:x}", owner.0));
    let rows = [
        (
            "waiting",
            format!("{} ({} B, {} tried before)", counts.waiting, counts.waiting_bytes, counts.retrying),
        ),
        ("next due", lane.next.map_or_else(String::new, |next| relative_time(next, look.now))),
        ("delivered", counts.delivered.to_string()),
        ("coalesced", counts.coalesced.to_string()),
        ("dead letters", counts.dead_kept.to_string()),
        ("failed attempts", counts.failed_attempts.to_string()),
        ("latency", print::latency(measured.map(|it| &it.answer))),
        ("emit to first attempt", print::lengths(measured.map(|it| &it.first_attempt), "first attempts")),
        ("emit to delivered", print::lengths(measured.map(|it| &it.delivery), "deliveries")),
        ("delivered by", owner),
    ];
    rows.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// Omits settings without effect.
fn flattened(above: &str, group: &Group, in_effect: &Value, given: &Value) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for setting in &group.settings {
        let (key, given) = (format!("{above}{}", setting.name), &given[setting.name]);
        let Some(value) = in_effect.get(setting.name) else { continue };
        match &setting.form {
            Form::Group(group) => pairs.extend(flattened(&format!("{key}."), group, value, given)),
            _ if !given.is_null() => pairs.push((key, flat(given))),
            _ => pairs.push((key, format!("{} (default)", unset(setting, value)))),
        }
    }
    pairs
}

/// The effective value of a missing setting.
fn unset(setting: &Setting, value: &Value) -> String {
    match setting.default {
        Default::Unset(what) => what.to_owned(),
        _ => flat(value),
    }
}

fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().map(flat).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber list --db sender.db
  hookproof sender subscriber list --db sender.db --json | jq -r 'select(.flow.state == \"breaker_open\") | .name'

`subscriber show` and `status` explain each STATE but active.")]
pub(super) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let (flows, mut lanes) = (look.flows(&self.reach)?, BTreeMap::new());
        let mut from = None;
        loop {
            let page = look.reader.lanes(from, PAGE_ROWS)?;
            let found = flows.of(&*look.reader, &page.items)?;
            lanes.extend(page.items.into_iter().zip(found).map(|(lane, flow)| (lane.lane, (lane, flow))));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let mut table = Table::new(&[
            "NAME",
            "ID",
            "HEALTH",
            "STATE",
            ">WAITING",
            ">DELIVERED",
            ">DEAD",
            "NEXT DUE",
            "ENDPOINT",
        ]);
        each(
            |from| look.reader.subscribers(from, PAGE_ROWS),
            |subscriber| {
                // The subscriber may be a moment old.
                let Some((lane, flow)) = lanes.get(&subscriber.lane) else { return Ok(true) };
                let (counts, next) = (&lane.counts, lane.next);
                if printer.json {
                    let mut line = form::subscriber(&subscriber, None);
                    line["flow"] = flow.to_json();
                    line["deliveries"] = form::counts(counts);
                    printer.object(&line)?;
                    return Ok(!printer.is_closed());
                }
                table.row([
                    subscriber.name.to_string(),
                    subscriber.id.to_string(),
                    flow.health.word().to_owned(),
                    word(flow, &lane.pause),
                    counts.waiting.to_string(),
                    counts.delivered.to_string(),
                    counts.dead_kept.to_string(),
                    next.map_or_else(String::new, |next| relative_time(next, look.now)),
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

fn word(flow: &Flow, pause: &Pause) -> String {
    match flow.state {
        State::Paused => format!("{}{}", flow.state, in_words(pause)),
        state => state.to_string(),
    }
}

/// Omits the query, which may hold tokens.
fn without_query(url: &str) -> String {
    url.split_once('?').map_or_else(|| url.to_owned(), |(path, _)| format!("{path}?…"))
}
