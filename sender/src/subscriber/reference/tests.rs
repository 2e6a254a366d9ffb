//! Tries the whole reference on the settings' parser.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::examples::{EXAMPLES, Example};
use super::*;
use crate::engine::Nanos;
use crate::event::Depth;
use crate::event::json::Json;
use crate::event::shape::{Region, ShapingRules};
use crate::sign::Secret;
use crate::subscriber::description::{Bound, Default, Range, Setting};
use crate::subscriber::{Agreement, RegionSecrets};
use crate::units::{Bytes, LENGTHS, Rate, SIZES, WindowCap};

fn all() -> Vec<(String, Setting)> {
    let mut found = Vec::new();
    for setting in settings().settings {
        match setting.form {
            Form::Group(group) => found.extend(
                group.settings.into_iter().map(|inner| (format!("{}.{}", setting.name, inner.name), inner)),
            ),
            _ => found.push((setting.name.to_owned(), setting)),
        }
    }
    found
}

fn only(name: &str, value: Value) -> Value {
    name.rsplit('.').fold(value, |value, name| json!({ name: value }))
}

/// Settings without which this one has no effect.
fn beside(name: &str) -> Value {
    match name {
        "retry.jitter" => json!({ "retry": { "backoff": "additive" } }),
        "retry.schedule" => json!({ "retry": { "backoff": "fixed" } }),
        "shape.pseudonymise" => json!({ "shape": { "region": "DE" } }),
        "shape.region" => json!({ "shape": { "pseudonymise": ["a"] } }),
        "oauth.token_url" => json!({ "oauth": { "client_id": "a", "client_secret": "b" } }),
        "oauth.client_id" => json!({ "oauth": { "token_url": "https://a/", "client_secret": "b" } }),
        "oauth.client_secret" => json!({ "oauth": { "token_url": "https://a/", "client_id": "a" } }),
        "oauth.scope" | "oauth.audience" => {
            json!({ "oauth": { "token_url": "https://a/", "client_id": "a", "client_secret": "b" } })
        }
        "tls.certificate" => json!({ "tls": { "key": "/k" } }),
        "tls.key" => json!({ "tls": { "certificate": "/c" } }),
        _ => json!({}),
    }
}

fn agreed(name: &str, value: Value) -> Result<Agreement, String> {
    let settings = SettingsText::read(beside(name)).unwrap().patched(&only(name, value));
    let settings = settings.map_err(|error| error.to_string())?;
    let known = ["DE".to_owned(), "a".to_owned(), "a".repeat(Region::BYTES_MAX)];
    let regions = known.iter().fold(RegionSecrets::default(), |regions, region| {
        regions.with(region.parse().unwrap(), Secret::parse("a-secret-of-the-region").unwrap())
    });
    settings.validate(&"sub_1".parse().unwrap(), &regions).map_err(|error| error.to_string())
}

fn debug_text(agreement: &Result<Agreement, String>) -> String {
    format!("{agreement:?}")
}

#[test]
fn each_default_is_what_holds_where_the_setting_is_left_out() {
    let in_effect = SettingsText::default().in_effect();
    for (name, setting) in all() {
        let Default::Value(default) = setting.default else {
            assert_eq!(
                in_effect.pointer(&format!("/{}", name.replace('.', "/"))),
                Some(&Value::Null),
                "{name}"
            );
            continue;
        };
        let (left_out, written) = (agreed(&name, Value::Null), agreed(&name, default.clone()));
        assert_eq!(debug_text(&left_out), debug_text(&written), "{name} = {default}");
        let shown = in_effect.pointer(&format!("/{}", name.replace('.', "/")));
        let has_no_effect = ["retry.jitter", "retry.schedule"].contains(&&*name);
        assert_eq!(shown, (!has_no_effect).then_some(&default), "{name}");
    }
}

#[test]
fn each_example_can_be_written_and_has_an_effect() {
    for (name, setting) in all() {
        let example = setting.form.example();
        let written = agreed(&name, example.clone());
        assert!(written.is_ok(), "{name} = {example}: {written:?}");
        assert_ne!(debug_text(&written), debug_text(&agreed(&name, Value::Null)), "{name} = {example}");
    }
}

#[test]
fn each_word_can_be_written_and_another_is_refused_with_all_of_them() {
    for (name, setting) in all() {
        let Form::Word(words) = &setting.form else { continue };
        for (word, about) in words {
            assert!(
                !about.is_empty() && SettingsText::read(only(&name, json!(word))).is_ok(),
                "{name} = {word}"
            );
        }
        let error = SettingsText::read(only(&name, json!("another"))).unwrap_err().to_string();
        assert!(words.iter().all(|(word, _)| error.contains(word)), "{error}");
    }
}

/// At the ends of a range, and just beyond.
fn ends(form: &Form, range: &Range) -> (Vec<Value>, Vec<Value>) {
    match range {
        Range::Any => (Vec::new(), Vec::new()),
        Range::Between(least, most) => {
            let (least, most) = (in_effect(least), in_effect(most));
            (vec![least.clone(), most.clone()], [next(form, &least, false), next(form, &most, true)].concat())
        }
        Range::Bytes(least, most) => {
            let begin = match form {
                Form::Header => "a:",
                Form::File => "/",
                Form::Url => "https://a/",
                _ => "",
            };
            let text = |bytes: usize| json!(format!("{begin:a<bytes$.bytes$}"));
            (vec![text(*least), text(*most)], vec![text(*least - 1), text(*most + 1)])
        }
        Range::Many(least, most, each) => {
            let Form::List(item) = form else { panic!("{form:?} is no list") };
            let list = |count: usize| (0..count).map(|at| item_at(item, at)).collect::<Value>();
            let (within, beyond) = ends(item, each);
            let mut inside: Vec<_> = within.into_iter().map(|value| json!([value])).collect();
            let mut outside: Vec<_> = beyond.into_iter().map(|value| json!([value])).collect();
            inside.extend([list(*least), list(*most)]);
            outside.extend((*least > 0).then(|| list(*least - 1)));
            outside.push(list(*most + 1));
            (inside, outside)
        }
    }
}

/// Fields must differ.
fn item_at(form: &Form, at: usize) -> Value {
    match form {
        Form::Path | Form::Either(..) => json!(format!("field{at}")),
        Form::Header => json!(format!("X-Field-{at}: value")),
        form => form.example(),
    }
}

fn in_effect(bound: &Bound) -> Value {
    match bound {
        Bound::Value(value) => value.clone(),
        Bound::Setting(name) => {
            let shown = SettingsText::default().in_effect();
            shown.pointer(&format!("/{}", name.replace('.', "/"))).unwrap().clone()
        }
    }
}

fn next(form: &Form, value: &Value, up: bool) -> Vec<Value> {
    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
        serde_json::from_value(value.clone()).unwrap()
    }
    let step = |value: u64| if up { value.checked_add(1) } else { value.checked_sub(1) };
    let nanos = |value: Nanos| step(value.0).map(Nanos);
    match form {
        Form::Count => step(read(value)).map(|count| json!(count)).into_iter().collect(),
        Form::Duration => nanos(read(value)).map(|length| json!(length)).into_iter().collect(),
        Form::Size => step(read::<Bytes>(value).0).map(|bytes| json!(Bytes(bytes))).into_iter().collect(),
        Form::Rate => {
            let rate: Rate = read(value);
            let (count, per) = (rate.count(), rate.per());
            // The same count in a longer period is slower.
            let (faster, slower) = (Rate::new(count + 1, per), Rate::new(count, Nanos(per.0 + 1)));
            vec![json!(if up { faster.unwrap() } else { slower.unwrap() })]
        }
        Form::WindowCap => {
            let cap: WindowCap = read(value);
            let figures = [(step(cap.count()), Some(cap.length())), (Some(cap.count()), nanos(cap.length()))];
            let texts =
                figures.map(|(count, length)| json!(format!("{} per {}", count.unwrap(), length.unwrap())));
            texts.to_vec()
        }
        other => panic!("{other:?} has no next value"),
    }
}

#[test]
fn each_range_holds_at_its_ends_and_one_beyond_is_refused() {
    let (mut allowed, mut refused) = (0, 0);
    for (name, setting) in all() {
        let (inside, outside) = ends(&setting.form, &setting.range);
        for value in &inside {
            let written = agreed(&name, value.clone());
            assert!(written.is_ok(), "{name} = {value}, of {}: {written:?}", setting.range);
        }
        for value in &outside {
            assert!(agreed(&name, value.clone()).is_err(), "{name} = {value} is beyond {}", setting.range);
        }
        (allowed, refused) = (allowed + inside.len(), refused + outside.len());
    }
    assert!(allowed > 50 && refused > 40, "{allowed} and {refused} were tried");
}

#[test]
fn a_setting_without_a_range_takes_whatever_its_form_can_say() {
    for (name, setting) in all() {
        let extremes = match (&setting.form, &setting.range) {
            (Form::Word(_) | Form::Flag, Range::Any) => Vec::new(),
            (Form::Duration, Range::Any) => vec![json!(Nanos::ZERO), json!(Nanos(u64::MAX))],
            (form, Range::Any) => panic!("{name}, a {}, has no range", form.name()),
            _ => continue,
        };
        for value in extremes {
            assert!(agreed(&name, value.clone()).is_ok(), "{name} = {value}");
        }
    }
}

#[test]
fn the_fields_of_rules_are_those_that_are_read_within_their_ranges() {
    let mut tried = 0;
    for (name, setting) in all() {
        let Some(rule) = setting.form.rule() else { continue };
        assert!(agreed(&name, json!([{}])).is_err(), "{name}: a rule without fields");
        let example = |changed: &str, value: Option<Value>| {
            let mut fields = serde_json::Map::new();
            for field in &rule.settings {
                let value = if field.name == changed { value.clone() } else { Some(field.form.example()) };
                fields.extend(value.map(|value| (field.name.to_owned(), value)));
            }
            agreed(&name, json!([fields]))
        };
        for field in &rule.settings {
            let without = example(field.name, None);
            assert_eq!(without.is_err(), field.default == Default::Required, "{name}[].{}", field.name);
            let (inside, outside) = ends(&field.form, &field.range);
            tried += inside.len() + outside.len();
            let first = |value: &Value| example(field.name, Some(value.clone()));
            inside
                .iter()
                .for_each(|value| assert!(first(value).is_ok(), "{name}[].{} = {value}", field.name));
            outside
                .iter()
                .for_each(|value| assert!(first(value).is_err(), "{name}[].{} = {value}", field.name));
        }
    }
    assert!(tried >= 12, "{tried} were tried");
}

#[test]
fn fields_to_allow_and_to_replace_count_together_and_paths_are_no_deeper_than_is_said() {
    let most = ShapingRules::FIELDS_MAX;
    let shape = |allowed: usize| {
        let names = |what: &str, count: usize| (0..count).map(|at| format!("{what}{at}")).collect::<Vec<_>>();
        agreed(
            "shape",
            json!({ "allow": names("a", allowed), "pseudonymise": names("b", most / 2), "region": "DE" }),
        )
    };
    assert!(shape(most - most / 2).is_ok() && shape(most - most / 2 + 1).is_err());

    let deep = |names: usize| agreed("shape.allow", json!([vec!["a"; names].join(".")]));
    let most = ShapingRules::PATH_NAMES_MAX;
    assert!(deep(most).is_ok() && deep(most + 1).is_err());
    let (_, grammar) = Form::EXPLAINED.iter().find(|(form, _)| matches!(form, Form::Path)).unwrap();
    assert!(grammar.contains(&format!(" {most} at most")), "{grammar}");
}

#[test]
fn formatted_text_of_the_schema_is_read_unless_too_large_or_empty() {
    let mut runner = TestRunner::deterministic();
    for (name, setting) in all() {
        let schema = schema::schema();
        let place = format!("/properties/{}", name.replace('.', "/properties/"));
        let found = schema.pointer(&place).unwrap_or_else(|| panic!("{name} is not in the schema"));
        let found = found.get("items").unwrap_or(found);
        let Some(pattern) = found["pattern"].as_str() else { continue };
        let texts = string_regex(pattern.trim_start_matches('^').trim_end_matches('$')).unwrap();
        for _ in 0..200 {
            let text = texts.new_tree(&mut runner).unwrap().current();
            let value = if setting.form.rule().is_some() || matches!(setting.form, Form::List(_)) {
                json!([text])
            } else {
                json!(text)
            };
            let error = SettingsText::read(only(&name, value)).err().map(|error| error.to_string());
            let is_its_figure = |error: &String| {
                ["is too large", "more than 0", "1 to 32 letters"].iter().any(|it| error.contains(it))
            };
            assert!(error.as_ref().is_none_or(is_its_figure), "{name} = {text}: {error:?}");
        }
        let units = if matches!(setting.form, Form::Size) { &SIZES[..] } else { &LENGTHS[..] };
        let has_all = |units: &[(&str, u64)]| units.iter().all(|(unit, _)| pattern.contains(unit));
        assert!(matches!(setting.form, Form::Region | Form::File) || has_all(units), "{name}: {pattern}");
    }
}

#[test]
fn the_settings_of_each_example_are_those_of_its_two_forms() {
    for example in EXAMPLES {
        let settings = settings_of(example);
        for value in example.text.split('\'').skip(1).step_by(2) {
            let value: Value = serde_json::from_str(value).unwrap();
            let place = if example.setting == "coalesce" { "/coalesce" } else { "/shape/pseudonymise" };
            assert_eq!(settings.pointer(place), Some(&value));
        }
        assert!(agreed(example.setting, settings[example.setting].clone()).is_ok(), "{settings}");
    }
}

fn settings_of(example: &Example) -> Value {
    let json = example.text.split("JSON").nth(1).unwrap().split("\n\n").next().unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_example_of_coalesce_is_what_becomes_of_the_events() {
    let example = EXAMPLES.iter().find(|example| example.setting == "coalesce").unwrap();
    let coalescing = agreed("coalesce", settings_of(example)["coalesce"].clone()).unwrap().coalescing;
    let events = example.text.lines().filter_map(|line| line.strip_prefix("at "));
    let read = |line: &'static str| {
        let (at, rest) = line.split_once(" s ").unwrap();
        let (event, fate) = rest.rsplit_once("   ").unwrap();
        let event: Value = serde_json::from_str(event).unwrap();
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        let slot = coalescing.slot(&text("type").parse().unwrap(), Some(&text("key").parse().unwrap()));
        (Nanos::from_secs(at.parse().unwrap()), slot.unwrap(), fate)
    };
    let events: Vec<_> = events.map(read).collect();
    for (at, (slot, window), fate) in &events {
        let alike = || events.iter().filter(|(_, (other, _), _)| other == slot).map(|(at, ..)| *at);
        let (first, last) = (alike().min().unwrap(), alike().max().unwrap());
        assert!(last < first + *window, "all of them come inside the window");
        let due = (first + *window).0 / Nanos::SECOND.0;
        let expected = if *at == last { format!("delivered at {due} s") } else { "coalesced".to_owned() };
        assert_eq!(*fate, expected, "{at}");
    }
    assert_eq!(events.len(), 4);
}

#[test]
fn the_example_of_shape_is_what_it_makes_of_the_data() {
    let example = EXAMPLES.iter().find(|example| example.setting == "shape").unwrap();
    let line = |start: &str| {
        let line = example.text.lines().find(|line| line.starts_with(start)).unwrap();
        line.trim_start_matches(start).trim().to_owned()
    };
    let agreement = agreed("shape", settings_of(example)["shape"].clone()).unwrap();
    let data = line("emitted");
    let shaped = agreement
        .shaping
        .apply(Json::parse(data.as_bytes(), Depth::DEFAULT).unwrap(), usize::MAX)
        .unwrap()
        .json()
        .text()
        .to_owned();
    let parsed: Value = serde_json::from_str(&shaped).unwrap();
    let creator = parsed["creator"].as_str().unwrap();
    assert!(creator.len() == 64 && creator.bytes().all(|byte| byte.is_ascii_hexdigit()), "{creator}");
    assert_eq!(shaped.replace(creator, "<64 hexadecimal digits>"), line("delivered"));
}

#[test]
fn the_page_is_what_the_types_say() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    let page = markdown::page();
    if std::env::var_os("HOOKPROOF_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, page, "{} is stale; HOOKPROOF_BLESS=1 writes it anew", path.display());
}

#[test]
fn each_setting_is_on_the_page_and_in_the_text_with_its_default_and_its_range() {
    let (page, text) = (markdown::page(), plain::text());
    for (name, Setting { default, range, .. }) in all() {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        assert!(row.contains(&default.to_string()) && row.contains(&range.to_string()), "{row}");
        let heading = text.lines().find(|line| line.trim_start().starts_with(&format!("{name}  ("))).unwrap();
        assert!(heading.contains(&default.to_string()), "{heading}");
    }
    let too_long: Vec<_> = text.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(too_long.is_empty(), "too long for a terminal: {too_long:#?}");
}
