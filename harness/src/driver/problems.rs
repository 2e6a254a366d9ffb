//! The errors of a driver file, each with its line and the nearest valid word.

use std::collections::BTreeSet;

use super::calls::{Emit, Request};
use super::file::DriverFile;
use super::template::Template;
use hookproof_judge::scenario::Problem;
use hookproof_judge::scenario::problem::nearest;
use hookproof_play::settings;

/// The variables of every template, beside saved ones and the environment.
pub(super) const SHARED: [&str; 9] =
    ["base", "port", "hookproof", "here", "dir", "database", "durability", "run", "ca"];
/// Headers that carry credentials: their values must come from the environment or from a call.
const KEYS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// A TOML error in the form of the other errors.
pub(super) fn of_toml(name: &str, text: &str, error: &toml::de::Error) -> Problem {
    let line = error.span().map(|span| line_at(text, span.start));
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
        _ => problem(name, line, error.span().map_or("", |span| key_before(text, span.start)), message),
    }
}

/// The key whose value begins there, if it stands before it on its line.
fn key_before(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let Some(key) = line.trim_end().strip_suffix('=') else { return "" };
    key.rsplit([' ', ',', '{']).find(|word| !word.is_empty()).unwrap_or_default()
}

fn problem(name: &str, line: Option<usize>, key: &str, what: String) -> Problem {
    Problem { file: name.to_owned(), line, key: key.to_owned(), what }
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Errors across the parts of a file: holes that name nothing, and keys that need each other.
pub(super) fn find(file: &DriverFile, name: &str, text: &str) -> Vec<Problem> {
    let mut search = Search { name, text, found: Vec::new() };
    search.look(file);
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

    fn look(&mut self, file: &DriverFile) {
        let mut shared = Names::from(SHARED);
        for template in file.start.iter().flat_map(|start| start.templates()).chain(&file.base) {
            self.holes(template, &shared);
        }
        file.commands().for_each(|one| self.holes(one, &shared));
        if let Some(start) = file.start.as_ref().filter(|start| start.detached)
            && file.stop.command.is_empty()
        {
            let what =
                "missing; expected the program that stops it, as no signal reaches a sender that is detached";
            self.add(start.ready.at(), "stop.command", what.to_owned());
        }
        let connect = &file.connect;
        for template in connect.ca.iter().chain(&connect.certificate).chain(&connect.key) {
            self.holes(template, &shared);
        }
        if let (Some(one), None) | (None, Some(one)) = (&connect.certificate, &connect.key) {
            let what = "a certificate and its key need each other; expected both";
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
                "missing; expected what its answer has to say".to_owned(),
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
                let what = "missing; expected the call that asks for the next page, as there is dead.next";
                self.add(dead.request.at(), "dead.page", what.to_owned());
            }
            self.headers(&dead.headers);
            dead.headers.values().chain([&dead.request]).for_each(|one| self.holes(one, shared));
            dead.page.iter().for_each(|page| self.holes(page, &next));
        }
    }

    fn key(&mut self, file: &DriverFile, own: &Names<'_>) {
        let Some(sign) = &file.sign else { return };
        sign.public_key.iter().for_each(|key| self.holes(key, own));
        let saved = file.subscribe.iter().any(|request| request.save.contains_key("secret"));
        if sign.needs_key() && !saved {
            let what = "missing; expected the sender's public key, or subscribe.save.secret, which takes it out of an answer";
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
            let what = "a form is one event; expected a body, or no batch".to_owned();
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
                "expected until too: it is how long that may take".to_owned(),
            );
        }
        self.headers(&request.headers);
        request.templates().for_each(|one| self.holes(one, names));
    }

    /// Credentials must not be in the file: it is passed on and shown.
    fn headers(&mut self, headers: &std::collections::BTreeMap<String, Template>) {
        for (name, value) in headers {
            let opens = KEYS.iter().any(|key| name.eq_ignore_ascii_case(key));
            if opens && !value.is_hole_after_a_word() {
                let what = "the value is in the file; expected it from the environment, such as \"Bearer {{ env.TOKEN }}\"";
                self.add(value.at(), &format!("headers.{name}"), what.to_owned());
            }
        }
    }

    fn holes(&mut self, template: &Template, names: &Names<'_>) {
        for hole in template.names().filter(|hole| !hole.starts_with("env.") && !names.contains(hole)) {
            // A multi-line text begins above its hole.
            let within =
                self.text.get(template.at()..).and_then(|rest| place(rest, hole)).unwrap_or_default();
            let hint = match nearest(hole, names.iter().copied()) {
                Some(meant) => format!("did you mean {{{{ {meant} }}}}?"),
                None => format!("known here: {}", names.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            self.add(template.at() + within, "", format!("{{{{ {hole} }}}} names nothing; {hint}"));
        }
    }
}

const BOTH: &str = "there are a body and a form; expected one of them";

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
