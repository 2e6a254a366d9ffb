use std::path::PathBuf;

use hookproof_judge::trace::Signs;
use hookproof_play::settings;

use super::*;
use crate::driver::template::{self, Variables};
use crate::driver::{Template, TemplateError};
use crate::fuzzing::{Random, Target};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_shipped_driver_file_is_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/drivers");
    let is_driver = |path: &PathBuf| path.parent() == Some(&folder) || path.ends_with("driver.toml");
    let shipped = files(&folder).into_iter().filter(is_driver);
    let names: Vec<_> =
        shipped.map(|path| DriverFile::open(&path).unwrap_or_else(|error| panic!("{error}")).name).collect();
    assert!(names.len() >= 8, "{names:?}");
    assert_eq!(DriverFile::hookproof().unwrap().name, "hookproof");
}

#[test]
fn a_list_without_pages_and_a_bound_out_of_range_are_refused() {
    let calls = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n";
    let emit = |more: &str| format!("emit = {{ request = \"POST {{{{ base }}}}/\", body = \"\"{more} }}\n");
    let dead =
        "dead = { request = \"GET {{ base }}/\", list = \"\", subscriber = \"/s\", next = \"/next\" }\n";
    let rows = [
        (format!("{}{dead}", emit("")), "page"),
        (emit(", batch_max = 0"), "batch_max"),
        (emit(", batch_max = 1000001"), "batch_max"),
        (emit(", calls = 0"), "calls"),
        (emit(", calls = 1001"), "calls"),
    ];
    for (more, named) in rows {
        let read = DriverFile::parse(&format!("{calls}{more}"), "x.toml");
        let error = read.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(named), "{more}: {error:?}");
    }
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let error = DriverFile::parse("name = \"x\"\nstrat = 1\n", "x.toml").unwrap_err().to_string();
    assert!(error == "x.toml:2: strat: unknown key; did you mean \"start\"?", "{error}");
    let text =
        "name = \"x\"\nsubscribe = { request = \"POST {{ a\" }\nemit = { request = \"\", body = \"\" }\n";
    let error = DriverFile::parse(text, "x.toml").unwrap_err().to_string();
    assert!(error.contains("without"), "{error}");
}

const CALLS: &str = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n\
                     emit = { request = \"POST {{ base }}/\", body = \"{{ data }}\" }\n";

fn problems(lines: &str) -> String {
    let read = DriverFile::parse(&format!("{CALLS}{lines}\n"), "x.toml");
    read.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_setting_without_its_counterpart_is_refused_with_its_line() {
    let rows = [
        ("[poll]\nrequest = \"GET {{ base }}/\"", "x.toml:5: poll.until: missing"),
        (
            "[[setup]]\nrequest = \"GET {{ base }}/\"\nwithin = \"5s\"",
            "setup.within: expected `until` as well",
        ),
        (
            "[redrive]\nrequest = \"GET /\"\nbody = \"\"\nform = { a = \"b\" }",
            "redrive.form: both a body and a form",
        ),
        ("[connect]\ncertificate = \"a.pem\"", "x.toml:5: connect: expected both a certificate and its key"),
        (
            "[sign]\nalgorithm = \"ed25519\"\nheader = \"S\"\nsigned = [\"{body}\"]",
            "sign.public_key: missing",
        ),
        (
            "[sign]\nalgorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{body}\"]\ntolerance = \"60\"",
            "x.toml:8: tolerance: expected a whole number from 0 to 4294967295, got the text \"60\"",
        ),
        (
            "[declares]\nfinal = [70000]",
            "x.toml:5: final: expected a whole number from 0 to 65535, got 70000",
        ),
        ("[declares]\nbreaker = 1", "x.toml:5: breaker: expected true or false, got 1"),
        ("[teardown]\nrequest = \"GET {{ base }}/{{ url }}\"", "x.toml:5: {{ url }} is unknown"),
        ("[unsubscribe]\nrequest = \"GET {{ base }}/{{ nmae }}\"", "did you mean {{ name }}?"),
        (
            "[depth]\npointer = \"\"\nrequest = \"GET /\"\nheaders = { Cookie = \"a=b\" }",
            "headers.Cookie: a secret is written in the file",
        ),
    ];
    for (lines, said) in rows {
        let problems = problems(lines);
        assert!(problems.contains(said), "{lines}: {problems:?}");
    }
}

#[test]
fn header_names_of_the_senders_own_are_declared_with_the_profile() {
    let signs = |more: &str| {
        let text = format!("{CALLS}[sign]\nprofile = \"standard-webhooks\"\n{more}");
        DriverFile::parse(&text, "x.toml").unwrap().declared().signs
    };
    let profile = "standard-webhooks".to_owned();
    let prefixed = Signs::Prefixed { profile: profile.clone(), header_prefix: "svix-".to_owned() };
    assert_eq!(signs("header_prefix = \"Svix-\"\n"), Some(prefixed));
    for more in ["", "header_prefix = \"Webhook-\"\n"] {
        assert_eq!(signs(more), Some(Signs::Profile(profile.clone())));
    }
}

#[test]
fn a_signature_that_is_not_described_whole_is_refused_with_what_is_missing() {
    let rows = [
        ("", "neither"),
        ("profile = \"github\"\nalgorithm = \"none\"", "expected one of them"),
        ("profile = \"gihub\"", "did you mean \"github\"?"),
        ("profile = \"github\"\nheader = \"S\"", "sign.header"),
        ("profile = \"github\"\nheader_prefix = \"x-\"", "sign.header_prefix"),
        ("algorithm = \"hmac-sha265\"", "did you mean \"hmac-sha256\"?"),
        ("algorithm = \"hmac-sha256\"\nsigned = [\"{body}\"]", "sign.header: it is missing"),
        ("algorithm = \"hmac-sha256\"\nheader = \"S\"", "sign.signed: it is missing"),
        ("algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{id}\"]", "expected `id` as well"),
        ("algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{bdy}\"]", "did you mean {body}?"),
        (
            "algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{url}\"]",
            "sign.signed: it lacks {body}, so that the signature would hold for any body; expected {body} in it",
        ),
        (
            "algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{timestamp}\"]",
            "`timestamp_prefix`, its prefix in the signature's header",
        ),
        ("algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{body}\"]\nkey = \"pem\"", "sign.key"),
        ("algorithm = \"hmac-sha256\"\nheader = \"S T\"\nsigned = [\"{body}\"]", "not a header name"),
        (
            "algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{body}\"]\ntimestamp_prefix = \"t=\"",
            "separator",
        ),
    ];
    for (lines, said) in rows {
        let problems = problems(&format!("[sign]\n{lines}"));
        assert!(problems.starts_with("x.toml:") && problems.contains(said), "{lines}: {problems:?}");
    }
    assert_eq!(problems("[sign]\nalgorithm = \"none\"\nid = \"X-Id\""), "");
}

fn known_keys(lines: &str) -> Vec<String> {
    let said =
        DriverFile::parse(lines, "x.toml").map(|_| String::new()).unwrap_or_else(|error| error.to_string());
    let (_, keys) = said.split_once("known keys are ").unwrap_or_else(|| panic!("{lines}: {said}"));
    keys.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_page_about_drivers_has_every_key_and_no_other() {
    const PAGE: &str = include_str!("../../../../docs/drivers.md");
    const CALL: &str = "request = \"GET /\"\n";
    let rows = [
        ("The file", String::new()),
        ("`[start]`", "[start]\n".to_owned()),
        ("`[start.owner]`", "[start.owner]\n".to_owned()),
        ("`[connect]`", "[connect]\n".to_owned()),
        ("A call", format!("[[setup]]\n{CALL}")),
        ("`[emit]`", "[emit]\n".to_owned()),
        ("`[depth]`", "[depth]\n".to_owned()),
        ("`[depth.each]`", "[depth.each]\n".to_owned()),
        ("`[depth.kept]`", "[depth.kept]\n".to_owned()),
        ("`[dead]`", "[dead]\n".to_owned()),
        ("`[declares]`", "[declares]\n".to_owned()),
        ("`[sign]`", "[sign]\n".to_owned()),
        ("`[payload]`", "[payload]\n".to_owned()),
        ("`[stop]`", "[stop]\n".to_owned()),
        ("`[kill]`", "[kill]\n".to_owned()),
    ];
    assert_eq!(PAGE.matches("\n### ").count(), rows.len(), "a section of the page is not looked at");
    for (title, lines) in rows {
        let (_, section) = PAGE.split_once(&format!("\n### {title}\n")).unwrap_or_else(|| panic!("{title}"));
        let section = section.split("\n##").next().unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let mut told: Vec<String> =
            cells.flat_map(|cell| cell.split(", ")).map(|key| key.replace(['`', ' '], "")).collect();
        let mut known = known_keys(&format!("{lines}qqqqqqqqqqqqqqqq = 1\n"));
        // Refused by name, as it is a profile's alone.
        known.retain(|key| key != "handshake");
        told.sort();
        known.sort();
        assert_eq!(told, known, "{title}");
    }
}

#[test]
fn the_page_about_drivers_has_every_name_and_filter() {
    const PAGE: &str = include_str!("../../../../docs/drivers.md");
    let (_, templates) = PAGE.split_once("## Templates").unwrap();
    let templates = templates.split("## Sections").next().unwrap();
    let names = SHARED.iter().chain(&settings::NAMES).chain(&settings::EVENT_NAMES);
    for name in names.copied().chain(template::filters()) {
        assert!(templates.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_name_of_a_subscriber_and_of_an_event_is_known_and_has_a_value() {
    let text = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"one\"\n";
    let subscriber =
        hookproof_judge::scenario::Scenario::from_text(text, "x.toml").unwrap().subscribers.remove(0);
    let words = settings::of_subscriber(&subscriber, &[], "http://a", "s");
    let mut known = settings::NAMES;
    known.sort_unstable();
    assert_eq!(words.keys().collect::<Vec<_>>(), known);
    assert_eq!(words["filter_types"], words["events"], "an empty list would mean all types to some senders");
    let event = crate::driver::Event {
        token: 1,
        text: String::new(),
        uuid: String::new(),
        kind: String::new(),
        key: String::new(),
        data: String::new(),
        unix_ns: 0,
    };
    let unknown: Vec<_> = settings::EVENT_NAMES.iter().filter(|name| event.find(name).is_none()).collect();
    assert_eq!(unknown, Vec::<&&str>::new());
}

fn all_templates(file: &DriverFile) -> impl Iterator<Item = &Template> {
    let calls =
        file.setup.iter().chain(&file.subscribe).chain(&file.poll).chain(&file.change).chain(&file.rotate);
    let calls = calls.chain(&file.redrive).chain(&file.unsubscribe).chain(&file.teardown);
    let emit = [&file.emit.request].into_iter().chain(&file.emit.body);
    let emit = emit.chain(file.emit.headers.values()).chain(file.emit.form.values());
    let questions =
        file.depth.iter().map(|depth| &depth.request).chain(file.dead.iter().map(|dead| &dead.request));
    let started = file.start.iter().flat_map(Start::templates).chain(&file.base).chain(file.commands());
    calls.flat_map(Request::templates).chain(emit).chain(questions).chain(started)
}

/// A refusal names its line, and every hole of an accepted file can be filled.
fn outcome(input: &[u8], _: &mut Random) -> String {
    let Ok(text) = str::from_utf8(input) else { return "no text".to_owned() };
    let file = match DriverFile::parse(text, "x.toml") {
        Ok(file) => file,
        Err(FileError::Wrong(problems)) => {
            let lines = 1..=text.lines().count() + 1;
            for problem in &problems {
                assert!(problem.line.is_some_and(|line| lines.contains(&line)), "{problem}");
            }
            // Without names, which are endless.
            let plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
            return problems[0].what.split(' ').filter(plain).take(4).collect::<Vec<_>>().join(" ");
        }
        Err(error) => panic!("{error}"),
    };
    let calls = file.setup.iter().chain(&file.subscribe);
    let saved = calls.flat_map(|call| call.save.keys().map(String::as_str));
    let names =
        SHARED.into_iter().chain(settings::NAMES).chain(settings::EVENT_NAMES).chain(["overlap", "next"]);
    let values: Variables = names.chain(saved).map(|name| (name.to_owned(), "1".to_owned())).collect();
    for template in all_templates(&file) {
        match template.fill(&values) {
            Ok(_) | Err(TemplateError::Environment { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    format!("accepted {:?}", file.declared().lacks)
}

fn target() -> Target<'static> {
    let shipped = [
        include_str!("../../../../scenarios/drivers/hookproof.toml"),
        include_str!("../../../../scenarios/drivers/svix.toml"),
        include_str!("../../../../scenarios/drivers/github.toml"),
        CALLS,
    ];
    let words = &[
        "{{ name }}",
        "{{ env.X }}",
        "{{",
        "[start]\n",
        "[sign]\nalgorithm = \"none\"\n",
        "\nheaders = { Cookie = \"{{ run }}\" }",
        "[[",
        "\"\"\"",
        "form",
        "until = { \"/a\" = 1 }\n",
        "\\u0000",
        " = ",
    ];
    Target { quick: 3_000, corpus: shipped.map(Vec::from).into(), words, check: &outcome }
}

#[test]
fn any_driver_file_is_accepted_with_all_its_holes_or_refused_with_its_line() {
    target().try_some();
}

#[test]
#[ignore = "takes HOOKPROOF_SECONDS"]
fn any_driver_file_is_accepted_with_all_its_holes_or_refused_with_its_line_at_length() {
    target().try_at_length();
}
