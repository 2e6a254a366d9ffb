use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, moment, operating, secret_from};
use super::print::Printer;
use super::session::{Look, PAGE_ROWS, WriteSession, each, user, with_session};
use super::settings::{Changes, Setting, check_token_url, checked_name, checked_url, patterns, read_id};
use super::{drain, probe, retry, show};
use crate::engine::{Nanos, Settings, StoreTime};
use crate::event::{EventPatterns, Kind, Pattern, PublicId};
use crate::operate::json_forms as form;
use crate::operate::pause::{self, End};
use crate::runtime::clock::{random, wall};
use crate::sign::{Keys, Profile, Secret, Signer};
use crate::store::command::{Change, Command, Rotate, Subscribe};
use crate::store::lane::{self, LaneState};
use crate::store::{Refusal, Reply, read};
use crate::subscriber::{Agreement, SettingsError, SettingsText};

const CHANGES_MAX: u32 = 5;

#[derive(Subcommand, Debug)]
pub(super) enum Subscriber {
    /// Add one; prints the secret that it verifies with, this once
    Add(Add),
    /// Show all, a line each
    List(show::List),
    /// Show one with all its settings
    Show(show::Show),
    /// Change its limits, its events, its URL, …
    Set(Set),
    /// Hold its deliveries back; events are still recorded for it
    Pause(Pause),
    /// Deliver again, after a pause or after it was disabled
    Resume(Resume),
    /// Try its endpoint at once, after it was mended
    Retry(retry::RetrySubscriber),
    /// Give it a new secret; the old one signs too for a while
    Rotate(RotateSecret),
    /// Send it again what was delivered to it
    Replay(retry::Replay),
    /// Give up its backlog
    Shed(drain::Shed),
    /// Remove it; its backlog becomes dead letters
    Remove(Remove),
    /// Send it a test event, through its limits like any other, and show the answer
    Test(probe::Test),
}

impl Subscriber {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        match self {
            Self::Add(add) => add.run(common, printer),
            Self::List(list) => list.run(common, printer),
            Self::Show(show) => show.run(common, printer),
            Self::Set(set) => set.run(common, printer),
            Self::Pause(pause) => pause.run(common, printer),
            Self::Resume(resume) => resume.run(common, printer),
            Self::Retry(retry) => retry.run(common, printer),
            Self::Rotate(rotate) => rotate.run(common, printer),
            Self::Replay(replay) => replay.run(common, printer),
            Self::Shed(shed) => shed.run(common, printer),
            Self::Remove(remove) => remove.run(common, printer),
            Self::Test(test) => return test.run(common, printer),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber add --db sender.db shop https://shop.example/hooks
  hookproof sender subscriber add --db sender.db shop https://shop.example/hooks --events 'order.*,refund.made' \\
      limit.rate=10/s limit.burst=20 limit.in_flight=5 retry.ttl=48h
  hookproof sender subscriber add --db sender.db local http://127.0.0.1:9000/ --allow-private-targets

`hookproof sender settings` explains every KEY: its form, default and range.")]
pub(super) struct Add {
    /// Its name
    name: String,
    /// Its endpoint
    url: String,
    /// Its settings
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<Setting>,
    /// The events that it wants: *, video.trending, video.*; all, if left out
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    events: Vec<Pattern>,
    /// The environment variable with its secret, if it brings one along; else one is made
    #[arg(long, value_name = "NAME")]
    secret_env: Option<String>,
    /// The environment variable with `oauth.client_secret`
    #[arg(long, value_name = "NAME")]
    client_secret_env: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Add {
    fn run(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let changes = Changes::new(&self.settings, self.client_secret_env.as_deref())?;
        check_token_url(&changes.patch, &self.reach.guard())?;
        if changes.name.is_some() || changes.url.is_some() || changes.events.is_some() {
            let problem = "name, url and events are not settings here; expected NAME URL --events PATTERN,…";
            return Err(Failure::usage(problem));
        }
        let id = PublicId::new(Kind::Subscriber, wall(), random());
        let settings = SettingsText::default().patched(&changes.patch).map_err(unfit)?;
        let agreement = settings.validate(&id, &self.reach.regions()?).map_err(unfit)?;
        let secret = secret(self.secret_env.as_deref(), agreement.profile)?;
        let url = checked_url(&self.url, &self.reach.guard())?;
        if let Some(files) = &agreement.tls {
            files.check(&url).map_err(Failure::usage)?;
        }
        let subscribe = Subscribe {
            id: id.as_str().into(),
            name: checked_name(&self.name)?.into(),
            url: url.into(),
            patterns: patterns_json(&patterns(&self.events)?)?.into(),
            settings: settings.to_json().into(),
            bounds: agreement.bounds,
            secret: stored(&secret),
        };
        let options = operating(common.database()?, &self.reach, None)?;
        with_session(options, |session| session.change(Command::Subscribe(subscribe)))?;
        if let Some(warning) = of_doubt(&agreement.lane) {
            eprintln!("{warning}");
        }
        if printer.json {
            let mut value = json!({ "id": id.as_str(), "name": self.name });
            form::add_secret(&mut value, &secret, agreement.profile);
            return printer.object(&value).map_err(|failure| unseen(&failure, "is added", &self.name));
        }
        printer
            .line(format_args!("added {} as {id}", self.name))
            .and_then(|()| reveal(printer, &secret, agreement.profile))
            .map_err(|failure| unseen(&failure, "is added", &self.name))?;
        let given = secret.public_key(agreement.profile).map_or("it", |_| "the public key");
        eprintln!("the secret is not shown again; give {given} to the operator of the endpoint");
        Ok(())
    }
}

/// Requests without an answer can use up such a burst.
fn of_doubt(settings: &Settings) -> Option<String> {
    let (burst, in_flight) = (settings.contract().bucket().burst(), settings.contract().in_flight());
    let doubt = settings.lateness().doubt();
    (burst <= in_flight && doubt > Nanos::ZERO).then(|| {
        format!(
            "limit.burst is {burst} and limit.in_flight {in_flight}: after {burst} requests without an answer, \
             or a killed process, its deliveries stop for up to {doubt} (limit.doubt); expected limit.burst \
             above limit.in_flight, or a shorter limit.doubt if the endpoint drops late requests sooner"
        )
    })
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber set --db sender.db shop limit.rate=10/s limit.burst=5
  hookproof sender subscriber set --db sender.db shop limit.windows='60 per 1s,900 per 1min' retry.ttl=null
  hookproof sender subscriber set --db sender.db shop url=https://shop.example/v2 events=order.*,refund.made name=store

A running `serve` applies the change within a second. null restores a default. `subscriber show` lists the settings in effect,
`hookproof sender settings` explains every KEY.")]
pub(super) struct Set {
    /// Its name or id
    name: String,
    /// The changes
    #[arg(value_name = "KEY=VALUE", required_unless_present = "client_secret_env")]
    settings: Vec<Setting>,
    /// The environment variable with `oauth.client_secret`
    #[arg(long, value_name = "NAME")]
    client_secret_env: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Set {
    fn run(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let changes = Changes::new(&self.settings, self.client_secret_env.as_deref())?;
        check_token_url(&changes.patch, &self.reach.guard())?;
        let database = common.existing_database()?;
        let options = operating(database.clone(), &self.reach, None)?;
        let look = Look::open(&database)?;
        // Refuses a bad change before the database is opened for writing.
        self.change(&look, &changes)?;
        with_session(options, |session| {
            for _ in 0..CHANGES_MAX {
                let command = Command::Change(self.change(&look, &changes)?).by(&user(), None);
                match session.wait(session.sender().command(command))? {
                    Reply::Refused(Refusal::VersionConflict { .. }) => {}
                    Reply::Refused(refusal) => return Err(refusal.into()),
                    _ => return Ok(()),
                }
            }
            Err(Failure::refused("other processes keep changing the subscriber; try again"))
        })?;
        let name = changes.name.as_deref().unwrap_or(&self.name);
        let after = look.subscriber(name)?;
        if printer.json {
            return printer.object(&form::subscriber(&after, None));
        }
        printer.line(format_args!("changed {}", after.name))
    }

    fn change(&self, look: &Look, changes: &Changes) -> Result<Change, Failure> {
        let subscriber = look.subscriber(&self.name)?;
        let id = read_id(&subscriber)?;
        let settings = SettingsText::patched_json(&subscriber.settings, &changes.patch).map_err(unfit)?;
        let agreement: Agreement = settings.validate(&id, &self.reach.regions()?).map_err(unfit)?;
        for live in read::Reader::secrets(&*look.reader, subscriber.lane, look.now)? {
            check_signing(
                agreement.profile,
                &Secret::parse(live.secret.reveal()).map_err(Failure::refused)?,
            )?;
        }
        let url = changes.url.as_deref().map(|url| checked_url(url, &self.reach.guard())).transpose()?;
        if let Some(files) = settings.files_to_check(&agreement, &subscriber.settings, url.is_some()) {
            files.check(url.as_deref().unwrap_or(&subscriber.url)).map_err(Failure::usage)?;
        }
        let patterns = changes.events.as_ref().map(patterns_json).transpose()?;
        Ok(Change {
            version: Some(subscriber.version),
            name: changes.name.as_deref().map(Into::into),
            url: url.map(Into::into),
            patterns: patterns.map(Into::into),
            settings: Some(settings.to_json()).filter(|now| *now != *subscriber.settings).map(Into::into),
            bounds: (subscriber.bounds != agreement.bounds).then_some(agreement.bounds),
            ..Change::of(subscriber.lane)
        })
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber pause --db sender.db shop
  hookproof sender subscriber pause --db sender.db shop --reason 'their database moves' --for 2h
  hookproof sender subscriber pause --db sender.db shop --until 2026-05-17T20:00:00Z

A running `serve` ends the pause within seconds of its end. A second pause replaces the first.")]
pub(super) struct Pause {
    /// Its name or id
    name: String,
    /// The reason, for other operators
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// How long; without an end, until `subscriber resume`
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Nanos>,
    /// Its end: 2026-05-17T20:00:00Z, or seconds since 1970
    #[arg(long, value_name = "MOMENT", value_parser = moment, conflicts_with = "length")]
    until: Option<StoreTime>,
}

impl Pause {
    fn run(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let end = match (self.length, self.until) {
            (Some(length), _) => End::After(length),
            (None, Some(until)) => End::At(until),
            (None, None) => End::ByOperator,
        };
        let pause = pause::pause(self.reason.as_deref(), end, wall());
        let pause = pause.map_err(|unfit| Failure::usage(format_args!("--{}", unfit.problem)))?;
        to_state(&self.name, LaneState::Paused, Some(pause), common, printer)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber resume --db sender.db shop
  hookproof sender subscriber resume --db sender.db --reason 'their database moves'")]
pub(super) struct Resume {
    /// Its name or id
    #[arg(required_unless_present = "reason")]
    name: Option<String>,
    /// In place of one: all that are paused for exactly this reason
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    reason: Option<String>,
}

impl Resume {
    fn run(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        if let Some(name) = &self.name {
            return to_state(name, LaneState::Active, None, common, printer);
        }
        let database = common.existing_database()?;
        let look = Look::open(&database)?;
        let mut paused = Vec::new();
        each(
            |from| look.reader.subscribers(from, PAGE_ROWS),
            |subscriber| {
                if subscriber.state == LaneState::Paused
                    && subscriber.pause.reason == self.reason.as_deref().map(Into::into)
                {
                    paused.push((subscriber.lane, subscriber.version, subscriber.name));
                }
                Ok(true)
            },
        )?;
        if paused.is_empty() {
            let problem =
                "no subscriber is paused for this reason; `subscriber list --json` shows the reasons";
            return Err(Failure::refused(problem));
        }
        with_session(operating(database, &Reach::default(), None)?, |session| {
            for (lane, version, name) in paused {
                let (state, version) = (Some(LaneState::Active), Some(version));
                session.change(Command::Change(Change { version, state, ..Change::of(lane) }))?;
                report(&name, LaneState::Active, None, printer)?;
            }
            Ok(())
        })
    }
}

fn to_state(
    name: &str,
    state: LaneState,
    pause: Option<lane::Pause>,
    common: &Common,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let shown = pause.clone();
    let pause = pause.unwrap_or_default();
    on(name, common, |session, subscriber| {
        let change = Change { state: Some(state), pause, ..Change::of(subscriber.lane) };
        session.change(Command::Change(change))
    })?;
    report(name, state, shown.as_ref(), printer)
}

fn report(
    name: &str,
    state: LaneState,
    pause: Option<&lane::Pause>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let state = state.name();
    if printer.json {
        return printer.object(&json!({ "name": name, "state": state, "pause": pause.map(form::pause) }));
    }
    let pause = pause.map(pause::in_words).unwrap_or_default();
    printer.line(format_args!("{name} is {state}{pause}"))
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber rotate --db sender.db shop
  hookproof sender subscriber rotate --db sender.db shop --overlap 7d
  hookproof sender subscriber rotate --db sender.db shop --overlap 0s      (the old secret became known)")]
pub(super) struct RotateSecret {
    /// Its name or id
    name: String,
    /// How long the old secret still signs beside the new one
    #[arg(long, value_name = "TIME", default_value = "24h")]
    overlap: Nanos,
    /// The environment variable with the new secret; else one is made
    #[arg(long, value_name = "NAME")]
    secret_env: Option<String>,
}

impl RotateSecret {
    const OVERLAP_MAX: Nanos = Nanos::DAY.times(30);

    fn run(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        if self.overlap > Self::OVERLAP_MAX {
            let most = Self::OVERLAP_MAX;
            return Err(Failure::usage(format_args!(
                "--overlap is {}; expected at most {most}",
                self.overlap
            )));
        }
        let database = common.existing_database()?;
        let look = Look::open(&database)?;
        let subscriber = look.subscriber(&self.name)?;
        let settings = SettingsText::from_json(&subscriber.settings).map_err(Failure::refused)?;
        let profile = settings.sign.unwrap_or_default();
        let now = wall();
        let secret = match &self.secret_env {
            Some(variable) => secret(Some(variable), profile)?,
            None => {
                let live = look.reader.secrets(subscriber.lane, now)?;
                let old = live.first().map(|live| live.secret.reveal());
                Secret::after(old, profile, &random()).map_err(Failure::refused)?
            }
        };
        let retire = StoreTime(now.0.saturating_add(self.overlap.0));
        let rotate = Rotate { lane: subscriber.lane, secret: stored(&secret), retire, now };
        let options = operating(database.clone(), &Reach::default(), None)?;
        with_session(options, |session| session.change(Command::Rotate(rotate)))?;
        if printer.json {
            let mut value = json!({ "name": self.name });
            form::add_secret(&mut value, &secret, profile);
            return printer
                .object(&value)
                .map_err(|failure| unseen(&failure, "has a new secret", &self.name));
        }
        reveal(printer, &secret, profile)
            .map_err(|failure| unseen(&failure, "has a new secret", &self.name))?;
        eprintln!("the secret is not shown again; the old one keeps signing for {}", self.overlap);
        Ok(())
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  hookproof sender subscriber remove --db sender.db shop")]
pub(super) struct Remove {
    /// Its name or id
    name: String,
}

impl Remove {
    fn run(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane = look.subscriber(&self.name)?.lane;
        let waiting = look.reader.lane(lane)?.map_or(0, |lane| lane.counts.waiting);
        on(&self.name, common, |session, subscriber| session.change(Command::Remove(subscriber.lane)))?;
        if printer.json {
            return printer.object(&json!({ "name": self.name, "state": "removed", "given_up": waiting }));
        }
        printer.line(format_args!(
            "removed {}; waiting deliveries that become dead letters: {waiting}",
            self.name
        ))
    }
}

fn on(
    name: &str,
    common: &Common,
    change: impl FnOnce(&WriteSession, &read::Subscriber) -> Result<Reply, Failure>,
) -> Result<Reply, Failure> {
    let database = common.existing_database()?;
    let subscriber = Look::open(&database)?.subscriber(name)?;
    let options = operating(database.clone(), &Reach::default(), None)?;
    with_session(options, |session| change(session, &subscriber))
}

fn unfit(error: SettingsError) -> Failure {
    Failure::usage(error)
}

fn patterns_json(patterns: &EventPatterns) -> Result<String, Failure> {
    serde_json::to_string(patterns).map_err(Failure::ours)
}

fn secret(variable: Option<&str>, profile: Profile) -> Result<Secret, Failure> {
    let made = || Ok(Secret::generate(profile, &random()));
    let secret = variable.map_or_else(made, secret_from)?;
    check_signing(profile, &secret).map(|()| secret)
}

fn reveal(printer: &mut Printer, secret: &Secret, profile: Profile) -> Result<(), Failure> {
    printer.line(format_args!("secret  {}", secret.reveal()))?;
    secret.public_key(profile).map_or(Ok(()), |key| printer.line(format_args!("public  {key}")))
}

/// The change took effect, but its output failed.
fn unseen(failure: &Failure, done: &str, name: &str) -> Failure {
    Failure::ours(format_args!(
        "{failure}; but {name} {done}, and its secret was not printed: `subscriber rotate {name}` makes another"
    ))
}

fn stored(secret: &Secret) -> lane::Secret {
    lane::Secret::new(secret.reveal())
}

/// The profile may need another kind of secret.
fn check_signing(profile: Profile, secret: &Secret) -> Result<(), Failure> {
    let signer = Signer::new(profile, &Keys::new(secret.clone()));
    signer
        .map(drop)
        .map_err(|error| Failure::usage(format_args!("cannot sign by {}: {error}", profile.name())))
}
