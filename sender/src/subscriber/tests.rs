use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::engine::Nanos;
use crate::event::shape::Region;
use crate::event::{PublicId, ShapeId};
use crate::sign::{Profile, Secret};
use crate::store::lane::WhenFull;

fn subscriber() -> PublicId {
    "sub_1".parse().unwrap()
}

fn regions() -> RegionSecrets {
    let region: Region = "DE".parse().unwrap();
    RegionSecrets::default().with(region, Secret::parse("a-secret-of-the-region").unwrap())
}

fn agree(settings: &Value) -> Result<Agreement, SettingsError> {
    SettingsText::read(settings)?.validate(&subscriber(), &regions())
}

#[track_caller]
fn check_refused(settings: &Value, code: &str, field: Option<&str>, sentence: &str) {
    let error = agree(settings).unwrap_err();
    assert_eq!((error.code(), error.field()), (code, field), "{settings}: {error}");
    assert_eq!(error.to_string(), sentence, "{settings}");
}

fn only(field: &str, value: Value) -> Value {
    field.rsplit('.').fold(value, |value, name| json!({ name: value }))
}

#[test]
fn without_settings_the_defaults_hold_and_all_are_shown() {
    let shown = SettingsText::default().shown();
    let expected = json!({
        "limit": { "rate": "5/s", "burst": 10, "windows": [], "in_flight": 5, "pace": false, "quarantine": "5s", "doubt": "1min" },
        "queue": { "rows": 100_000, "bytes": "256MiB", "when_full": "refuse" },
        "sign": "standard-webhooks",
        "timeout": "8s",
        "connect_timeout": "4s",
        "headers": [],
        "retry": {
            "backoff": "full-jitter", "base": "1s", "cap": "1h", "attempts": 12, "ttl": "1d",
            "retry_after_cap": "1d"
        },
        "breaker": {
            "failures": 10, "failures_when_slow": 5, "slow": "5s", "cooldown": "5min", "cooldown_max": "1h",
            "disable_after": "5d"
        },
        "pressure": {
            "slowest": "1min", "streak": 10, "target": "0ns", "latency_min": "500ms", "latency_factor": 4,
            "latency_least": 10, "failures_percent": 50
        },
        "dedupe": "10min",
        "coalesce": []
    });
    assert_eq!(serde_json::to_value(shown).unwrap(), expected);
    let mut in_effect = expected;
    in_effect["shape"] = json!({ "allow": null, "pseudonymise": null, "region": null });
    in_effect["tls"] = json!({ "ca": null, "certificate": null, "key": null });
    in_effect["oauth"] = json!({
        "token_url": null, "client_id": null, "client_secret": null, "scope": null, "audience": null
    });
    in_effect["permission"] = json!({ "origin": null });
    assert_eq!(SettingsText::default().in_effect(), in_effect);
    assert_eq!(SettingsText::default().to_json(), "{}");
}

#[test]
fn the_engines_own_defaults_are_the_same() {
    let agreement = agree(&json!({})).unwrap();
    assert_eq!(*agreement.lane.breaker(), Default::default());
    assert_eq!(*agreement.lane.pressure(), Default::default());
    assert_eq!((agreement.profile, agreement.shaping.id()), (Profile::StandardWebhooks, ShapeId::VERBATIM));
}

#[test]
fn written_settings_take_effect() {
    let agreement = agree(&json!({
        "limit": { "rate": "50/s", "burst": 20, "windows": ["60 per 1s"], "in_flight": 7, "quarantine": "1s" },
        "queue": { "rows": 10_000, "bytes": "64MiB", "when_full": "refuse" },
        "sign": "vvv-frozen",
        "timeout": "2s",
        "retry": { "backoff": "fixed", "schedule": ["5s", "5min"], "attempts": 3, "ttl": "2h" },
        "dedupe": "0s",
        "shape": { "allow": ["a"], "pseudonymise": ["b", { "field": "c", "as": "d" }], "region": "DE" }
    }))
    .unwrap();
    let contract = agreement.lane.contract();
    assert_eq!((contract.bucket().rate().gap(), contract.bucket().burst()), (Nanos::from_millis(20), 20));
    assert_eq!((contract.windows()[0].limit(), contract.windows()[0].length()), (60, Nanos::SECOND));
    assert_eq!((contract.in_flight(), agreement.lane.lateness().quarantine()), (7, Nanos::SECOND));
    let bounds = agreement.bounds;
    assert_eq!((bounds.rows_max, bounds.bytes_max, bounds.when_full), (10_000, 64 << 20, WhenFull::Refuse));
    let timeouts = Timeouts { total: Nanos::from_secs(2), connect: Nanos::from_secs(2) };
    assert_eq!((agreement.profile, agreement.timeouts), (Profile::VvvFrozen, timeouts));
    let retry = agreement.lane.retry();
    assert_eq!(retry.backoff().bounds(9), (Nanos::from_secs(300), Nanos::from_secs(300)));
    assert_eq!((retry.attempts(), agreement.ttl(), agreement.dedupe), (3, Nanos::HOUR.times(2), Nanos::ZERO));
    assert_ne!(agreement.shaping.id(), ShapeId::VERBATIM);
}

#[test]
fn a_figure_that_is_given_moves_the_defaults_that_depend_on_it() {
    for settings in [
        json!({ "timeout": "1s" }),
        json!({ "breaker": { "failures": 2 } }),
        json!({ "breaker": { "cooldown_max": "10s" } }),
        json!({ "retry": { "backoff": "additive", "cap": "10s" } }),
    ] {
        agree(&settings).unwrap();
    }
}

#[test]
fn every_figure_outside_its_range_names_its_field_its_value_and_what_is_allowed() {
    let rows = [
        ("limit.rate", json!("2000000/s"), "2000000 per 1s; expected 1 per 1d to 1000000 per 1s"),
        ("limit.burst", json!(0), "0; expected 1 to 1000000"),
        ("limit.in_flight", json!(10_001), "10001; expected 1 to 10000"),
        ("limit.quarantine", json!("2h"), "2h; expected 0ns to 1h"),
        ("limit.doubt", json!("2h"), "2h; expected 0ns to 1h"),
        ("queue.rows", json!(0), "0; expected 1 to 1000000000"),
        ("queue.bytes", json!("2TiB"), "2TiB; expected 1B to 1TiB"),
        ("timeout", json!("6min"), "6min; expected 10ms to 5min"),
        ("connect_timeout", json!("9s"), "9s; expected 10ms to 8s"),
        ("retry.base", json!("0s"), "0ns; expected 1ms to 7d"),
        ("retry.cap", json!("8d"), "8d; expected 1s to 7d"),
        ("retry.attempts", json!(0), "0; expected 1 to 1000"),
        ("retry.ttl", json!("0s"), "0ns; expected 1ms to 31d"),
        ("retry.retry_after_cap", json!("0s"), "0ns; expected 1s to 7d"),
        ("breaker.failures", json!(0), "0; expected 1 to 1000000"),
        ("breaker.failures_when_slow", json!(11), "11; expected 1 to 10"),
        ("breaker.cooldown", json!("2h"), "2h; expected 1ms to 1h"),
        ("breaker.cooldown_max", json!("2d"), "2d; expected 1ms to 1d"),
        ("breaker.disable_after", json!("366d"), "366d; expected 0ns to 365d"),
        ("pressure.slowest", json!("2d"), "2d; expected 1ms to 1d"),
        ("pressure.streak", json!(0), "0; expected 1 to 1000000"),
        ("pressure.latency_factor", json!(1), "1; expected 2 to 1000"),
        ("pressure.latency_least", json!(0), "0; expected 1 to 100"),
        ("pressure.failures_percent", json!(101), "101; expected 1 to 100"),
        ("dedupe", json!("25h"), "25h; expected 0ns to 1d"),
    ];
    for (field, value, sentence) in rows {
        check_refused(&only(field, value), "out_of_range", Some(field), &format!("{field} is {sentence}"));
    }
    let windows = |value| only("limit.windows", value);
    check_refused(
        &windows(json!(["9000000000 per 1s"])),
        "out_of_range",
        Some("limit.windows.limit"),
        "limit.windows.limit is 9000000000; expected 1 to 1000000",
    );
    check_refused(
        &windows(json!(vec!["1 per 1s"; 9])),
        "out_of_range",
        Some("limit.windows"),
        "limit.windows (count) is 9; expected 0 to 8",
    );
}

#[test]
fn a_field_of_the_wrong_form_is_named_with_what_is_expected() {
    let duration = "a duration with its unit, such as \"8s\"";
    let count = "a whole number from 0 to 4294967295";
    let rows = [
        ("timeout", json!(8), format!("invalid type: integer `8`, expected {duration}")),
        ("retry.base", json!(true), format!("invalid type: boolean `true`, expected {duration}")),
        ("limit.burst", json!("10"), format!("invalid type: string \"10\", expected {count}")),
        ("limit.burst", json!(-1), format!("invalid value: integer `-1`, expected {count}")),
        ("limit.in_flight", json!(1.5), format!("invalid type: floating point `1.5`, expected {count}")),
        ("retry.attempts", json!(5_000_000_000_u64), {
            format!("invalid value: integer `5000000000`, expected {count}")
        }),
        ("limit", json!("5/s"), "invalid type: string \"5/s\", expected an object".into()),
        ("limit", json!(["5/s", 10]), "invalid type: sequence, expected an object".into()),
        (
            "limit.rate",
            json!("5"),
            "cannot read \"5\" as a rate: the number has no unit; expected a whole number, a slash and a duration, such as 20/s, 300/min or 100/10s"
                .into(),
        ),
        (
            "queue.when_full",
            json!("drop"),
            "unknown variant `drop`, expected `refuse` or `shed-oldest`".into(),
        ),
        (
            "retry.backoff",
            json!("linear"),
            "unknown variant `linear`, expected one of `full-jitter`, `equal-jitter`, `additive`, `fixed`".into(),
        ),
        (
            "shape.region",
            json!("D E"),
            "\"D E\" is no region; expected 1 to 32 letters, digits, '_' and '-'".into(),
        ),
    ];
    for (field, value, problem) in rows {
        let sentence = format!("{field} cannot be read: {problem}");
        check_refused(&only(field, value), "unreadable_field", Some(field), &sentence);
    }
    let error = agree(&only("limit.windows", json!(["60 per 1s", "60/s"]))).unwrap_err();
    assert_eq!((error.code(), error.field()), ("unreadable_field", Some("limit.windows[1]")));
    assert_eq!(agree(&only("sign", json!("md5"))).unwrap_err().field(), Some("sign"));
}

#[test]
fn an_event_of_cloudevents_has_a_source() {
    let with = |headers: Value| agree(&json!({ "sign": "cloudevents", "headers": headers }));
    assert!(with(json!(["Ce-Source: /orders", "Ce-Team: orders"])).is_ok());
    let error = with(json!(["Ce-Source: /orders", "Ce_Source: /others"])).unwrap_err();
    assert!(error.to_string().starts_with("headers name ce_source twice"), "{error}");
    for headers in [Value::Null, json!(["X-Team: orders"]), json!(["Ce-Source:"]), json!(["Ce-Source: a b"])]
    {
        let error = with(headers).unwrap_err();
        assert_eq!(error.field(), Some("headers"));
        assert!(error.to_string().starts_with("headers lack Ce-Source "), "{error}");
    }
}

#[test]
fn every_field_refuses_what_it_cannot_be() {
    let shown = SettingsText::default().in_effect();
    let mut fields: Vec<String> = SettingsText::FIELDS.iter().map(|name| (*name).to_owned()).collect();
    for (section, names) in SettingsText::SECTIONS {
        fields.extend(names.iter().map(|name| format!("{section}.{name}")));
        assert!(shown[section].is_object(), "{section} is shown");
    }
    assert_eq!(fields.len(), 15 + 7 + 3 + 8 + 6 + 7 + 3 + 3 + 5 + 1);
    for field in fields {
        let error = agree(&only(&field, json!(0.5))).unwrap_err();
        assert_eq!((error.code(), error.field()), ("unreadable_field", Some(&*field)), "{error}");
        assert_eq!(agree(&only(&field, Value::Null)).err(), None, "{field} may be null");
    }
}

#[test]
fn an_unknown_field_is_named_with_the_one_that_was_meant() {
    let rows = [
        ("limit.brust", "did you mean limit.burst?"),
        ("burst", "did you mean limit.burst?"),
        ("retry.rate", "did you mean limit.rate?"),
        ("limit.timeout", "did you mean timeout?"),
        ("limits", "did you mean limit?"),
        ("timeouts", "did you mean timeout?"),
        ("shape.pseudonymize", "did you mean shape.pseudonymise?"),
        ("limit.zebra", "expected one of rate, burst, windows, in_flight, pace, quarantine, doubt"),
    ];
    for (field, hint) in rows {
        let sentence = format!("the settings have no field \"{field}\"; {hint}");
        check_refused(&only(field, json!(1)), "unknown_field", Some(field), &sentence);
    }
    let rule = json!({ "coalesce": [{ "events": "*", "windows": "1s" }] });
    check_refused(
        &rule,
        "unknown_field",
        Some("coalesce.windows"),
        "the settings have no field \"coalesce.windows\"; did you mean limit.windows?",
    );
    let long = "x\n".repeat(10_000);
    let error = agree(&json!({ "limit": { long: 1 } })).unwrap_err();
    assert_eq!(error.code(), "unknown_field");
    assert!(error.to_string().len() < 300 && !error.to_string().contains('\n'), "{error}");
}

#[test]
fn a_value_other_than_an_object_is_no_settings() {
    for value in [json!(7), json!("x"), json!([]), json!([{}]), json!(true)] {
        assert_eq!(agree(&value).unwrap_err().code(), "unreadable", "{value}");
    }
    let from_json = |text: &str| SettingsText::from_json(text).map_err(|error| error.code());
    assert_eq!(from_json("{"), Err("not_json"));
    assert_eq!(from_json("{} {}"), Err("not_json"));
    assert_eq!(from_json(&"[".repeat(100_000)), Err("not_json"));
    assert_eq!(from_json(r#"{"timeout":"1s","timeout":"2s"}"#), Err("unreadable"));
    assert_eq!(from_json(r#"{"queue":{"rows":1,"rows":2}}"#), Err("unreadable_field"));
    assert_eq!(from_json("null"), Ok(SettingsText::default()));
}

#[test]
fn settings_that_contradict_each_other_say_what_to_do() {
    let without_effect = |backoff: &str, field: &str, value: Value| {
        let mut settings = json!({ "retry": { "backoff": backoff } });
        settings["retry"][field] = value;
        let field = format!("retry.{field}");
        let sentence =
            format!("{field} has no effect with the backoff {backoff}; leave it out, or set it to null");
        check_refused(&settings, "contradiction", Some(&field), &sentence);
    };
    without_effect("full-jitter", "jitter", json!("1s"));
    without_effect("equal-jitter", "schedule", json!(["1s"]));
    without_effect("fixed", "base", json!("1s"));
    without_effect("fixed", "cap", json!("1s"));
    check_refused(
        &json!({ "retry": { "backoff": "fixed" } }),
        "out_of_range",
        Some("retry.schedule"),
        "retry.schedule (count) is 0; expected 1 to 64",
    );
    for [given, other] in [["certificate", "key"], ["key", "certificate"]] {
        let field = format!("tls.{given}");
        let sentence = format!("{field} needs tls.{other}; set both, or neither");
        check_refused(&only(&field, json!("/a.pem")), "contradiction", Some(&field), &sentence);
    }
    check_refused(
        &only("tls.ca", json!("ca.pem")),
        "out_of_range",
        Some("tls.ca"),
        "tls.ca is \"ca.pem\"; expected an absolute path of 2 to 255 bytes",
    );
    let oauth =
        json!({ "token_url": "https://login.example/token", "client_id": "a", "client_secret": "s3cret" });
    check_refused(
        &json!({ "oauth": { "token_url": "https://login.example/token", "client_id": "a" } }),
        "contradiction",
        Some("oauth"),
        "oauth needs all of token_url, client_id and client_secret; set them, or set oauth to null",
    );
    check_refused(
        &json!({ "oauth": oauth, "headers": ["Authorization: Basic abc"] }),
        "contradiction",
        Some("oauth"),
        "oauth and headers both set Authorization; expected one of them",
    );
    let settings = SettingsText::read(json!({ "oauth": oauth })).unwrap();
    let shown = settings.in_effect();
    assert!(!shown.to_string().contains("s3cret") && !format!("{settings:?}").contains("s3cret"), "{shown}");
    assert_eq!(settings.patched(&shown).unwrap().oauth, settings.oauth, "what is read may be written back");
    let mut moved = json!({ "oauth": { "token_url": "https://other.example/token" } });
    assert_eq!(settings.patched(&moved).unwrap_err().field(), Some("oauth.token_url"));
    moved["oauth"]["client_secret"] = json!("other");
    assert!(settings.patched(&moved).is_ok());
    check_refused(
        &json!({ "retry": { "ttl": "5s" }, "coalesce": [{ "events": "video.*", "window": "5s" }] }),
        "contradiction",
        Some("coalesce"),
        "coalesce delays video.* by 5s, and retry.ttl is 5s: they would expire before they are due; shorten \
         the window or lengthen retry.ttl",
    );
}

#[test]
fn rules_that_cannot_be_followed_are_refused_with_their_reason() {
    check_refused(
        &json!({ "coalesce": [{ "events": "*", "window": "2h" }] }),
        "bad_coalescing",
        Some("coalesce"),
        "coalesce cannot be followed: the coalescing window is 2h; expected more than 0 and at most 1h",
    );
    for region in [Value::Null, json!("FR")] {
        check_refused(
            &json!({ "shape": { "pseudonymise": ["a"], "region": region } }),
            "bad_shape",
            Some("shape"),
            "shape cannot be followed: the shaping rules replace fields by pseudonyms, but the subscriber's region \
             has no secret",
        );
    }
}

#[test]
fn a_patch_changes_what_it_names_and_takes_back_what_is_null() {
    let settings = SettingsText::read(json!({
        "limit": { "rate": "50/s", "burst": 20 }, "timeout": "5s", "coalesce": [{ "events": "*", "window": "1s" }]
    }))
    .unwrap();
    let rows = [
        (
            json!({}),
            r#"{"coalesce":[{"events":"*","window":"1s"}],"limit":{"burst":20,"rate":"50/s"},"timeout":"5s"}"#,
        ),
        (
            json!({ "limit": { "rate": "9/s" }, "coalesce": [] }),
            r#"{"coalesce":[],"limit":{"burst":20,"rate":"9/s"},"timeout":"5s"}"#,
        ),
        (
            json!({ "limit": { "rate": null }, "coalesce": null, "timeout": null }),
            r#"{"limit":{"burst":20}}"#,
        ),
        (
            json!({ "limit": { "rate": null, "burst": null }, "coalesce": null, "queue": { "rows": 5, "bytes": null } }),
            r#"{"queue":{"rows":5},"timeout":"5s"}"#,
        ),
        (json!({ "limit": null, "coalesce": null, "sign": "stripe" }), r#"{"sign":"stripe","timeout":"5s"}"#),
    ];
    for (patch, expected) in rows {
        assert_eq!(settings.patched(&patch).unwrap().to_json(), expected, "{patch}");
    }
    let refused = |patch: Value| settings.patched(&patch).unwrap_err().to_string();
    assert_eq!(
        refused(json!({ "limit": { "brust": null } })),
        "the settings have no field \"limit.brust\"; did you mean limit.burst?"
    );
    assert!(refused(json!({ "limit": 5 })).starts_with("limit cannot be read"));
    assert!(refused(json!([])).starts_with("the settings cannot be read"));
}

#[test]
fn secrets_of_regions_show_nowhere() {
    let settings = json!({ "shape": { "pseudonymise": ["a"], "region": "DE" } });
    let agreement = agree(&settings).unwrap();
    for shown in [format!("{:?}", regions()), format!("{agreement:?}"), format!("{:?}", agree(&json!(1)))] {
        assert!(!shown.contains("a-secret"), "{shown}");
    }
    assert!(!SettingsText::read(&settings).unwrap().shown().to_json().contains("a-secret"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_u64..50).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "5/s",
            "1s",
            "10min",
            "9d",
            "60 per 1s",
            "1MiB",
            "fixed",
            "refuse",
            "a.b",
            "*",
            "DE"
        ])
        .prop_map(Value::from),
    ];
    let mut names: Vec<&str> = SettingsText::FIELDS.to_vec();
    names.extend(SettingsText::SECTIONS.iter().flat_map(|(_, fields)| *fields));
    names.extend(["events", "window", "field", "as", "", "x"]);
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let name = prop::sample::select(names.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

fn settings() -> impl Strategy<Value = SettingsText> {
    let field = |field: &'static str, values: Vec<Value>| {
        prop::option::of(prop::sample::select(values)).prop_map(move |value| (field, value))
    };
    let fields = (
        field("limit.rate", vec![json!("7/min"), json!("50/s")]),
        field("limit.burst", vec![json!(1), json!(0)]),
        field("queue.bytes", vec![json!("1KB"), json!("64MiB")]),
        field("retry.backoff", vec![json!("additive"), json!("fixed"), json!("equal-jitter")]),
        field("retry.schedule", vec![json!(["1s"]), json!([])]),
        field("retry.jitter", vec![json!("1s")]),
        field("timeout", vec![json!("2s"), json!("1min")]),
        field("breaker.cooldown_max", vec![json!("1s")]),
        field("shape.pseudonymise", vec![json!(["a", { "field": "b", "as": "c" }])]),
        field("shape.region", vec![json!("DE"), json!("FR")]),
    );
    fields.prop_map(|(a, b, c, d, e, f, g, h, i, j)| {
        [a, b, c, d, e, f, g, h, i, j].into_iter().fold(
            SettingsText::default(),
            |settings, (field, value)| {
                settings.patched(&value.map_or(json!({}), |value| only(field, value))).unwrap()
            },
        )
    })
}

proptest! {
    #[test]
    fn no_json_panics_and_what_is_refused_says_so_in_one_short_line(value in any_json(), patch in any_json()) {
        match agree(&value) {
            Ok(_) => {
                let settings = SettingsText::read(&value).unwrap();
                let _ = settings.patched(&patch).map(|patched| patched.validate(&subscriber(), &regions()));
            }
            Err(error) => {
                let sentence = error.to_string();
                prop_assert!(sentence.len() < 600 && !sentence.contains(['\n', '\r']), "{}", sentence);
            }
        }
    }

    #[test]
    fn stored_and_displayed_settings_read_back_equal(settings in settings()) {
        let stored = SettingsText::from_json(&settings.to_json()).unwrap();
        prop_assert_eq!(&stored, &settings);
        let shown = SettingsText::from_json(&settings.shown().to_json()).unwrap();
        prop_assert_eq!(&shown.shown(), &shown);
        let agreed = |settings: &SettingsText| match settings.validate(&subscriber(), &regions()) {
            Ok(agreement) => format!("{agreement:?}"),
            Err(error) => error.to_string(),
        };
        let in_effect = SettingsText::read(settings.in_effect()).unwrap();
        prop_assert_eq!(in_effect.in_effect(), settings.in_effect());
        // `shown` drops settings without effect.
        if !agreed(&settings).contains("has no effect") {
            prop_assert_eq!(agreed(&settings), agreed(&shown));
        }
    }

    #[test]
    fn a_patch_made_twice_is_a_patch_made_once(settings in settings(), patch in any_json()) {
        if let Ok(once) = settings.patched(&patch) {
            prop_assert_eq!(once.patched(&patch).unwrap(), once);
        }
    }
}
