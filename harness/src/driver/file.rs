//! The driver file: how the harness starts, calls and stops a sender.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hookproof_judge::scenario::{Duration, Problem, nearest};
use hookproof_judge::trace::{Declared, Lack};
use hookproof_play::payload::Places;
use hookproof_play::settings;
use serde::Deserialize;

use super::calls::{Dead, Depth, Emit, Owner, Request, length, one_or_more, some_length};
use super::declares::{DeadLetters, Declares};
use super::error::FileError;
use super::sign::Sign;
use super::template::Template;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    pub name: String,
    /// Without this, the sender runs already.
    pub start: Option<Start>,
    /// `{{ base }}`; by default the loopback address with the port.
    pub base: Option<Template>,
    #[serde(default)]
    pub connect: Connect,
    /// Calls before the first subscription.
    #[serde(default)]
    pub setup: Vec<Request>,
    /// Called for each subscriber, in order.
    #[serde(deserialize_with = "one_or_more")]
    pub subscribe: Vec<Request>,
    /// Repeated for each subscriber until the sender serves it.
    pub poll: Option<Request>,
    pub emit: Emit,
    #[serde(default)]
    pub declares: Declares,
    pub depth: Option<Depth>,
    pub dead: Option<Dead>,
    pub change: Option<Request>,
    pub rotate: Option<Request>,
    pub redrive: Option<Request>,
    /// Called for each subscriber, however the run ended.
    #[serde(default, deserialize_with = "one_or_more")]
    pub unsubscribe: Vec<Request>,
    /// Called at the very end, however the run ended.
    #[serde(default, deserialize_with = "one_or_more")]
    pub teardown: Vec<Request>,
    /// Without it, each subscriber of the scenario decides.
    pub sign: Option<Sign>,
    /// Without it, the harness seeks the event.
    #[serde(default)]
    pub payload: Places,
    #[serde(default)]
    pub stop: Stop,
    /// Without it, a signal kills.
    pub kill: Option<Kill>,
    /// Named by the file.
    #[serde(skip)]
    pub environment: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    pub command: Vec<Template>,
    /// The command ends while the sender runs on, apart from the harness.
    #[serde(default)]
    pub detached: bool,
    /// Arguments where endpoints speak TLS, so that the sender trusts `{{ ca }}`.
    #[serde(default)]
    pub trust: Vec<Template>,
    #[serde(default)]
    pub env: BTreeMap<String, Template>,
    /// Answers 2xx once it is ready.
    pub ready: Template,
    #[serde(default = "half_a_minute", deserialize_with = "length")]
    pub within: Duration,
    /// Its SQLite file, for `lock-database` and its size on disk; or the address of its database server.
    pub database: Option<Template>,
    /// How to ask each process which subscribers it serves, for `owner of NAME`.
    pub owner: Option<Owner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// PEM, trusted beside the public ones; relative to the driver file.
    pub ca: Option<Template>,
    /// The harness's own, in PEM.
    pub certificate: Option<Template>,
    pub key: Option<Template>,
    /// Half a minute by default.
    #[serde(default, deserialize_with = "some_length")]
    pub within: Option<Duration>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    #[serde(default)]
    pub signal: StopSignal,
    /// In its place, a program and its arguments.
    #[serde(default)]
    pub command: Vec<Template>,
}

/// How to kill a sender that is no process of the harness.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    pub command: Vec<Template>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    #[default]
    Term,
    Int,
    Quit,
}

impl Start {
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        let owner = self.owner.iter().flat_map(|owner| owner.headers.values().chain([&owner.request]));
        self.command
            .iter()
            .chain(&self.trust)
            .chain(self.env.values())
            .chain([&self.ready])
            .chain(&self.database)
            .chain(owner)
    }
}

impl DriverFile {
    /// Finds the line.
    #[must_use]
    pub fn problem(name: &str, text: &str, error: &toml::de::Error) -> Problem {
        of_toml(name, text, error)
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &Template> {
        self.stop.command.iter().chain(self.kill.iter().flat_map(|kill| &kill.command))
    }

    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.start.as_ref()?.owner.as_ref()
    }

    /// True only for a sender that it starts.
    #[must_use]
    pub fn names_database(&self) -> bool {
        let templates = self.start.iter().flat_map(Start::templates);
        templates.flat_map(Template::names).any(|name| name == "database")
    }

    /// Includes the calls that the file lacks.
    #[must_use]
    pub fn declared(&self) -> Declared {
        let declares = &self.declares;
        let silent = matches!(declares.dead_letter, Some(DeadLetters::Kept(false)));
        let rows = [
            (self.start.is_none(), Lack::Start),
            (self.start.as_ref().is_none_or(|start| start.database.is_none()), Lack::Database),
            (self.depth.is_none(), Lack::Depth),
            (self.depth.as_ref().is_none_or(|depth| depth.kept.is_none()), Lack::Kept),
            (silent || self.dead.is_none(), Lack::DeadLetters),
            (self.start.as_ref().is_some_and(|start| start.detached), Lack::Process),
            (declares.breaker == Some(false), Lack::Breaker),
            (declares.ordered == Some(false), Lack::Order),
            (self.change.is_none(), Lack::Change),
            (self.rotate.is_none(), Lack::Rotate),
            (self.redrive.is_none(), Lack::Redrive),
            (self.sign.as_ref().is_some_and(|sign| !sign.scheme.is_signed()), Lack::Signature),
        ];
        let nanos = |delays: &Vec<Duration>| delays.iter().map(|delay| delay.0).collect();
        Declared {
            lacks: rows.into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect(),
            schedule: declares.schedule.as_ref().map(nanos),
            jitter: declares.jitter.map_or(0, |share| share.0),
            confirmed_within: declares.confirmed_within.map(|length| length.0),
            content_type: declares.content_type.clone(),
            signs: self.sign.as_ref().map(Sign::declared),
            told: Vec::new(),
            partial_acceptance: declares.partial_acceptance,
            stale: declares.stale.map_or(0, |length| length.0),
            final_statuses: declares.final_statuses.clone(),
        }
    }
}

const fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

/// Variables beside the saved ones and the environment.
pub(super) const SHARED: [&str; 9] =
    ["base", "port", "hookproof", "here", "dir", "database", "durability", "run", "ca"];
/// Their values must come from the environment or from a call.
const KEYS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

fn of_toml(name: &str, text: &str, error: &toml::de::Error) -> Problem {
    let key = error.message().split(':').next().unwrap_or_default();
    // A mistake across keys has no place.
    let found = || text.lines().position(|line| line.trim_start().split([' ', '=']).next() == Some(key));
    let line = error.span().map(|span| line_at(text, span.start)).or_else(|| Some(found()? + 1));
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match (message.starts_with("unknown field"), quoted.split_first()) {
        (true, Some((given, known))) => {
            let hint = match nearest(given, known.iter().copied()) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("known keys are {}", known.join(", ")),
            };
            problem(name, line, given, format!("unknown key; {hint}"))
        }
        _ => {
            let key = error.span().map_or("", |span| key_before(text, span.start));
            problem(name, line, key, of_type(&message).unwrap_or(message))
        }
    }
}

/// Serde's message about the type of a value, in words of this file.
fn of_type(message: &str) -> Option<String> {
    let mistake =
        message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, wanted) = mistake.rsplit_once(", expected ")?;
    let wanted = match wanted {
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        other if other == "a map" || other.starts_with("struct ") => "a table",
        other => other,
    };
    let found = match found.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer" | "boolean", value)) => value.replace('`', ""),
        Some(("floating", value)) => value.replace("point ", "").replace('`', ""),
        _ if found == "sequence" => "a list".to_owned(),
        _ if found == "map" => "a table".to_owned(),
        _ => found.to_owned(),
    };
    Some(format!("expected {wanted}, got {found}"))
}

/// Empty if the key stands on an earlier line than its value.
fn key_before(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let list = line.rfind('[').filter(|at| !line[*at..].contains(']'));
    let line = &line[..list.unwrap_or(line.len())];
    let Some(key) = line.trim_end().strip_suffix('=') else { return "" };
    key.rsplit([' ', ',', '{']).find(|word| !word.is_empty()).unwrap_or_default()
}

fn problem(name: &str, line: Option<usize>, key: &str, what: String) -> Problem {
    Problem { file: name.to_owned(), line, key: key.to_owned(), what }
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Holes that name nothing, and keys that need each other.
pub(super) fn find(file: &DriverFile, name: &str, text: &str) -> Vec<Problem> {
    let mut search = Search { name, text, found: Vec::new() };
    search.search_file(file);
    search.found
}

type Names<'a> = BTreeSet<&'a str>;

struct Search<'a> {
    name: &'a str,
    text: &'a str,
    found: Vec<Problem>,
}

impl Search<'_> {
    fn add(&mut self, at: usize, key: &str, what: String) {
        let line = Some(line_at(self.text, at));
        self.found.push(problem(self.name, line, key, what));
    }

    fn search_file(&mut self, file: &DriverFile) {
        let mut shared = Names::from(SHARED);
        for template in file.start.iter().flat_map(|start| start.templates()).chain(&file.base) {
            self.holes(template, &shared);
        }
        file.commands().for_each(|one| self.holes(one, &shared));
        if let Some(start) = file.start.as_ref().filter(|start| start.detached)
            && file.stop.command.is_empty()
        {
            let what =
                "missing; expected the program that stops the sender, since a detached sender gets no signal";
            self.add(start.ready.at(), "stop.command", what.to_owned());
        }
        let connect = &file.connect;
        for template in connect.ca.iter().chain(&connect.certificate).chain(&connect.key) {
            self.holes(template, &shared);
        }
        if let (Some(one), None) | (None, Some(one)) = (&connect.certificate, &connect.key) {
            let what = "expected both a certificate and its key";
            self.add(one.at(), "connect", what.to_owned());
        }
        file.owner().iter().for_each(|owner| self.headers(&owner.headers));
        for request in &file.setup {
            self.request("setup", request, &shared);
            shared.extend(request.save.keys().map(String::as_str));
        }
        let mut own = shared.clone();
        own.extend(settings::NAMES);
        for request in &file.subscribe {
            self.request("subscribe", request, &own);
            own.extend(request.save.keys().map(String::as_str));
        }
        self.emit(&file.emit, &shared);
        if let Some(poll) = &file.poll
            && poll.until.is_empty()
        {
            self.add(
                poll.request.at(),
                "poll.until",
                "missing; expected the values of its answer".to_owned(),
            );
        }
        let about = [("poll", &file.poll), ("change", &file.change), ("redrive", &file.redrive)];
        let about = about.into_iter().filter_map(|(what, request)| Some((what, request.as_ref()?)));
        for (what, request) in about.chain(file.unsubscribe.iter().map(|request| ("unsubscribe", request))) {
            self.request(what, request, &own);
        }
        let mut rotated = own.clone();
        rotated.insert("overlap");
        file.rotate.iter().for_each(|request| self.request("rotate", request, &rotated));
        file.teardown.iter().for_each(|request| self.request("teardown", request, &shared));
        self.questions(file, &shared);
        self.key(file, &own);
        self.places(&file.payload);
    }

    fn questions(&mut self, file: &DriverFile, shared: &Names<'_>) {
        let mut next = shared.clone();
        next.insert("next");
        if let Some(depth) = &file.depth {
            self.headers(&depth.headers);
            depth.headers.values().chain([&depth.request]).for_each(|one| self.holes(one, shared));
        }
        if let Some(kept) = file.depth.iter().find_map(|depth| depth.kept.as_ref()) {
            self.headers(&kept.headers);
            kept.headers.values().chain([&kept.request]).for_each(|one| self.holes(one, shared));
        }
        if let Some(dead) = &file.dead {
            if dead.next.is_some() && dead.page.is_none() {
                let what = "missing; expected the call for the next page, since dead.next is set";
                self.add(dead.request.at(), "dead.page", what.to_owned());
            }
            self.headers(&dead.headers);
            dead.headers.values().chain([&dead.request]).for_each(|one| self.holes(one, shared));
            dead.page.iter().for_each(|page| self.holes(page, &next));
        }
    }

    fn places(&mut self, places: &Places) {
        let all = [("data", &places.data), ("type", &places.kind), ("key", &places.key)];
        for (name, place) in all.into_iter().filter_map(|(name, place)| Some((name, place.as_ref()?))) {
            if !place.is_empty() && !place.starts_with('/') {
                let what = format!("expected a JSON pointer such as \"/data\", got {place:?}");
                let at = self.text.find("[payload]").unwrap_or_default();
                self.add(at, &format!("payload.{name}"), what);
            }
        }
    }

    fn key(&mut self, file: &DriverFile, own: &Names<'_>) {
        let Some(sign) = &file.sign else { return };
        sign.public_key.iter().for_each(|key| self.holes(key, own));
        let saved = file.subscribe.iter().any(|request| request.save.contains_key("secret"));
        if sign.needs_key() && !saved {
            let what = "missing; expected the sender's public key, or subscribe.save.secret to read it from an answer";
            let at = self.text.find("[sign]").unwrap_or_default();
            self.add(at, "sign.public_key", what.to_owned());
        }
    }

    fn emit(&mut self, emit: &Emit, shared: &Names<'_>) {
        let mut names = shared.clone();
        names.extend(settings::EVENT_NAMES);
        match (&emit.body, emit.form.is_empty()) {
            (None, true) => {
                self.add(
                    emit.request.at(),
                    "emit.body",
                    "missing; expected the body of an event, or a form".to_owned(),
                );
            }
            (Some(_), false) => self.add(emit.request.at(), "emit.form", BOTH.to_owned()),
            _ => {}
        }
        if emit.batch && !emit.form.is_empty() {
            let what = "a form holds one event; expected a body, or no batch".to_owned();
            self.add(emit.request.at(), "emit.form", what);
        }
        self.headers(&emit.headers);
        let all = emit.headers.values().chain(emit.form.values()).chain(&emit.body);
        all.chain([&emit.request]).for_each(|one| self.holes(one, &names));
    }

    fn request(&mut self, what: &str, request: &Request, names: &Names<'_>) {
        if request.body.is_some() && !request.form.is_empty() {
            self.add(request.request.at(), &format!("{what}.form"), BOTH.to_owned());
        }
        if request.within.is_some() && request.until.is_empty() {
            let what = format!("{what}.within");
            self.add(
                request.request.at(),
                &what,
                "expected `until` as well, since this is its time limit".to_owned(),
            );
        }
        self.headers(&request.headers);
        request.templates().for_each(|one| self.holes(one, names));
    }

    /// The file is passed on and shown, so it must hold no credentials.
    fn headers(&mut self, headers: &std::collections::BTreeMap<String, Template>) {
        for (name, value) in headers {
            let opens = KEYS.iter().any(|key| name.eq_ignore_ascii_case(key));
            if opens && !value.is_hole_after_a_word() {
                let what = "a secret is written in the file; expected it from the environment, such as \"Bearer {{ env.TOKEN }}\"";
                self.add(value.at(), &format!("headers.{name}"), what.to_owned());
            }
        }
    }

    fn holes(&mut self, template: &Template, names: &Names<'_>) {
        for hole in template.names().filter(|hole| !hole.starts_with("env.") && !names.contains(hole)) {
            let within =
                self.text.get(template.at()..).and_then(|rest| place(rest, hole)).unwrap_or_default();
            let hint = match nearest(hole, names.iter().copied()) {
                Some(meant) => format!("did you mean {{{{ {meant} }}}}?"),
                None => format!("known here: {}", names.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            self.add(template.at() + within, "", format!("{{{{ {hole} }}}} is unknown; {hint}"));
        }
    }
}

const BOTH: &str = "both a body and a form are given; expected one of them";

fn place(text: &str, hole: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find("{{") {
        let begin = from + at;
        let inside = text.get(begin + 2..)?;
        let name = inside.split(['|', '}']).next().unwrap_or_default().trim();
        if name == hole {
            return Some(begin);
        }
        from = begin + 2;
    }
    None
}

const HOOKPROOF: &str = include_str!("../../../scenarios/drivers/hookproof.toml");

impl DriverFile {
    /// Our own.
    pub fn hookproof() -> Result<Self, FileError> {
        Self::parse(HOOKPROOF, "hookproof")
    }

    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| FileError::Read { path: path.to_owned(), error })?;
        Self::parse(&text, &path.display().to_string())
    }

    pub fn parse(text: &str, name: &str) -> Result<Self, FileError> {
        let file: Self =
            toml::from_str(text).map_err(|error| FileError::Wrong(vec![of_toml(name, text, &error)]))?;
        let found = find(&file, name, text);
        if !found.is_empty() {
            return Err(FileError::Wrong(found));
        }
        Ok(Self { environment: environment(text), ..file })
    }
}

fn environment(text: &str) -> Vec<String> {
    let holes = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    let names = holes.filter_map(|(hole, _)| hole.split('|').next()?.trim().strip_prefix("env."));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
