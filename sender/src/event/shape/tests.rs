use proptest::prelude::*;

use super::*;
use crate::event::Depth;
use crate::event::public_id::PublicId;
use crate::excerpt::Excerpt;
use crate::sign::Secret;

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes(), Depth::DEFAULT).unwrap()
}

fn pseudonyms(region: &str, secret: &str, subscriber: &str) -> Pseudonyms {
    let (region, subscriber): (Region, PublicId) = (region.parse().unwrap(), subscriber.parse().unwrap());
    Pseudonyms::new(&region, &Secret::parse(secret).unwrap(), &subscriber)
}

fn ours() -> Pseudonyms {
    pseudonyms("DE", "a-secret-of-the-region", "sub_1")
}

fn rules(text: &str) -> ShapingRules {
    serde_json::from_str(text).unwrap()
}

fn shaping(text: &str) -> Shaping {
    Shaping::new(&rules(text), Some(ours())).unwrap()
}

#[track_caller]
fn shaped(shaping: &Shaping, data: &str) -> String {
    shaping.apply(json(data), usize::MAX).unwrap().json().text().to_owned()
}

#[track_caller]
fn check(rules: &str, data: &str, expected: &str) {
    assert_eq!(shaped(&shaping(rules), data), expected, "{rules}");
}

// HMAC-SHA256 as h, from Python: h(h(b"a-secret-of-the-region", b"hookproof pseudonym\0DE\0sub_1"),
// b"string\0UC-42").hex()
const TOKEN: &str = "91798620cfa7b105b382138fdcbef526bf31e188373d27899d354bd26f37c9a4";
// The same with b"json\x0042".
const TOKEN_OF_NUMBER: &str = "531f7792997cb650dadb020f2ba20aac7f90d3585f0718fc56488c95b86073bd";

#[test]
fn the_data_of_a_partner_without_a_contract_for_names() {
    check(
        r#"{"allow": ["video_id", "region", "score", "velocity", "observed_at"],
            "pseudonyms": [{"field": "channel_id", "as": "creator_token"}]}"#,
        r#"{"video_id": "v1", "uploader": "@jane", "channel_id":"UC-42", "score": 0.930, "commenters":["@joe"],
            "region":"DE","observed_at": 1e3}"#,
        &format!(
            r#"{{"video_id":"v1","creator_token":"{TOKEN}","score":0.930,"region":"DE","observed_at":1e3}}"#
        ),
    );
}

#[test]
fn without_rules_the_data_stays_as_it_came() {
    let data = "{\"a\" : 1.0,\n\"a\":\"\\u00e9\"}";
    check("{}", data, data);
    assert_eq!(shaping("{}").id(), ShapeId::VERBATIM);
    assert!(matches!(shaping("{}").apply(json(data), 0).unwrap().0, Cow::Borrowed(_)));
    assert_eq!(shaped(&Shaping::verbatim(), "7"), "7");
}

#[test]
fn a_listed_field_lets_through_all_that_is_in_it_byte_for_byte() {
    check(
        r#"{"allow":["a"]}"#,
        r#"{"b":1,"a": {"x" : [1.0, 2 ], "x":"\u00e9"} ,"c":2}"#,
        r#"{"a":{"x" : [1.0, 2 ], "x":"\u00e9"}}"#,
    );
    check(r#"{"allow":["a"]}"#, r#"{"\u0061":1,"a":2,"A":3}"#, r#"{"\u0061":1,"a":2}"#);
    check(
        r#"{"allow":["a.b","c"]}"#,
        r#"{"a":{"b":1,"c":2,"b":3},"b":4,"c":5}"#,
        r#"{"a":{"b":1,"b":3},"c":5}"#,
    );
    check(r#"{"allow":["a","a.b"]}"#, r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1,"c":2}}"#);
    check(r#"{"allow":["a.b"]}"#, r#"{"a.b":1}"#, r"{}");
    check(r#"{"allow":[]}"#, r#"{"a":1}"#, r"{}");
}

#[test]
fn fields_without_a_rule_are_left_out_for_any_value() {
    let rules = r#"{"allow":["a.b"]}"#;
    check(rules, r#"{"a":5}"#, r"{}");
    check(rules, r#"{"a":null,"x":{"a":{"b":1}}}"#, r"{}");
    check(rules, r#"{"a":{}}"#, r#"{"a":{}}"#);
    check(rules, r#"{"a":[1,{"b":2,"c":3},[{"b":4},5],null]}"#, r#"{"a":[{"b":2},[{"b":4}]]}"#);
    check(rules, r#"[{"a":{"b":1},"c":2},3]"#, r#"[{"a":{"b":1}}]"#);
    check(rules, r#""text""#, "null");
    check(rules, "7", "null");
    check(rules, r#"{"\ud800":1,"a":{"\ud800":2}}"#, r#"{"a":{}}"#);
}

#[test]
fn a_field_is_replaced_wherever_it_stands_and_the_rest_let_through_if_nothing_is_listed() {
    let rules = r#"{"pseudonyms":[{"field":"creator.id"}]}"#;
    check(
        rules,
        r#"{"x":1,"creator":{"id":"UC-42","n":2}}"#,
        &format!(r#"{{"x":1,"creator":{{"id":"{TOKEN}","n":2}}}}"#),
    );
    check(rules, r#"{"creator":[{"id":"UC-42"},5]}"#, &format!(r#"{{"creator":[{{"id":"{TOKEN}"}},5]}}"#));
    check(rules, r#"{"creator":{"id":"\u0055C-42"}}"#, &format!(r#"{{"creator":{{"id":"{TOKEN}"}}}}"#));
    check(
        rules,
        r#"{"creator":{"id":["UC-42",null,[42]]}}"#,
        &format!(r#"{{"creator":{{"id":["{TOKEN}",null,["{TOKEN_OF_NUMBER}"]]}}}}"#),
    );
    check(rules, r#"{"creator":{"id":null}}"#, r#"{"creator":{"id":null}}"#);
    check(rules, r#"{"creator":"UC-42"}"#, r#"{"creator":"UC-42"}"#);
    let object = shaped(&shaping(rules), r#"{"creator":{"id":{"name":"jane"}}}"#);
    assert!(!object.contains("jane"));
}

#[test]
fn nothing_can_pass_for_a_pseudonym() {
    let rules = r#"{"pseudonyms":[{"field":"channel_id","as":"token"}]}"#;
    check(rules, r#"{"token":"forged","channel_id":"UC-42"}"#, &format!(r#"{{"token":"{TOKEN}"}}"#));
    check(rules, r#"{"\u0074oken":"forged"}"#, "{}");
    check(r#"{"pseudonyms":[{"field":"a","as":"x\"y"}]}"#, r#"{"a":null}"#, r#"{"x\"y":null}"#);
}

#[test]
fn a_pseudonym_is_stable_for_one_subscriber_and_region_and_tells_others_nothing() {
    let token = |pseudonyms: &Pseudonyms, value: &str| {
        let mut out = String::new();
        pseudonyms.write(json(value), &mut out);
        out
    };
    let text = r#""UC-42""#;
    assert_eq!(token(&ours(), text), format!("\"{TOKEN}\""));
    assert_eq!(token(&ours(), text), token(&ours(), r#""\u0055C-42""#));
    let others = [
        pseudonyms("FR", "a-secret-of-the-region", "sub_1"),
        pseudonyms("DE", "another-secret-of-the-region", "sub_1"),
        pseudonyms("DE", "a-secret-of-the-region", "sub_2"),
        pseudonyms("DE-sub", "a-secret-of-the-region", "_1"),
    ];
    for other in &others {
        assert_ne!(token(&ours(), text), token(other, text));
    }
    assert_ne!(token(&ours(), "42"), token(&ours(), r#""42""#));
    assert_eq!(format!("{:?}", ours()), "Pseudonyms { mac: Mac(…) }");
}

#[test]
fn the_same_rules_have_the_same_shape_in_whatever_order_and_words() {
    let id = |text: &str| shaping(text).id();
    assert_eq!(id(r#"{"allow":["a","b"]}"#), id(r#"{"allow":["b","a","b"]}"#));
    assert_eq!(id(r#"{"allow":["a"]}"#), id(r#"{"allow":["a.b","a","a.c.d"]}"#));
    assert_ne!(id(r#"{"allow":["a"]}"#), id(r#"{"allow":["b"]}"#));
    assert_ne!(id(r#"{"allow":["a.b"]}"#), id(r#"{"allow":["a","b"]}"#));
    assert_ne!(id(r#"{"allow":["a.b","c"]}"#), id(r#"{"allow":["a.b","a.c"]}"#));
    assert_ne!(
        id(r#"{"allow":["a"],"pseudonyms":[{"field":"b"}]}"#),
        id(r#"{"allow":["b"],"pseudonyms":[{"field":"a"}]}"#)
    );
    assert_ne!(id(r#"{"allow":[]}"#), ShapeId::VERBATIM);
    let named = r#"{"pseudonyms":[{"field":"a","as":"b"}]}"#;
    assert_ne!(id(named), id(r#"{"pseudonyms":[{"field":"a"}]}"#));
    assert_eq!(id(r#"{"pseudonyms":[{"field":"a","as":"a"}]}"#), id(r#"{"pseudonyms":[{"field":"a"}]}"#));
    // Subscribers share bodies only without pseudonyms.
    let id_of = |text: &str, pseudonyms| Shaping::new(&rules(text), Some(pseudonyms)).unwrap().id();
    let other = || pseudonyms("DE", "a-secret-of-the-region", "sub_2");
    assert_eq!(id_of(r#"{"allow":["a"]}"#, ours()), id_of(r#"{"allow":["a"]}"#, other()));
    assert_ne!(id_of(named, ours()), id_of(named, other()));
}

#[test]
fn rules_that_cannot_be_followed_are_refused_for_their_own_reason() {
    let refused = |text: &str| Shaping::new(&rules(text), Some(ours())).unwrap_err();
    let field = |field: &str, problem| ShapingError::Field { field: Excerpt::of(field), problem };
    for path in ["", ".", "a.", ".a", "a..b"] {
        let text = format!(r#"{{"allow":["{path}"]}}"#);
        assert_eq!(refused(&text), field(path, FieldProblem::EmptyName));
        let text = format!(r#"{{"pseudonyms":[{{"field":"{path}"}}]}}"#);
        assert_eq!(refused(&text), field(path, FieldProblem::EmptyName));
    }
    let deep = vec!["a"; 17].join(".");
    assert_eq!(refused(&format!(r#"{{"allow":["{deep}"]}}"#)), field(&deep, FieldProblem::TooDeep));
    let long = "a".repeat(257);
    assert_eq!(refused(&format!(r#"{{"allow":["{long}"]}}"#)), field(&long, FieldProblem::TooLong));
    let many = vec![r#""a""#; 129].join(",");
    assert_eq!(refused(&format!(r#"{{"allow":[{many}]}}"#)), ShapingError::TooMany { count: 129 });
    assert_eq!(refused(r#"{"pseudonyms":[{"field":"a","as":""}]}"#), field("", FieldProblem::EmptyName));
    assert_eq!(
        refused(r#"{"allow":["a.b"],"pseudonyms":[{"field":"a"}]}"#),
        ShapingError::InsideReplaced { name: Excerpt::of("a") }
    );
    assert_eq!(
        refused(r#"{"pseudonyms":[{"field":"x.a"},{"field":"x.a","as":"b"}]}"#),
        ShapingError::ReplacedTwice { field: Excerpt::of("x.a") }
    );
    let taken = ShapingError::NameTaken { name: Excerpt::of("t") };
    assert_eq!(refused(r#"{"allow":["t"],"pseudonyms":[{"field":"a","as":"t"}]}"#), taken);
    assert_eq!(refused(r#"{"pseudonyms":[{"field":"a","as":"t"},{"field":"b","as":"t"}]}"#), taken);
    let needs = rules(r#"{"pseudonyms":[{"field":"a"}]}"#);
    assert_eq!(Shaping::new(&needs, None).unwrap_err(), ShapingError::NoRegionSecret);
    assert!(serde_json::from_str::<ShapingRules>(r#"{"alow":[]}"#).is_err());
}

#[test]
fn rules_are_written_as_they_are_read() {
    for text in
        [r"{}", r#"{"allow":[]}"#, r#"{"allow":["a.b"],"pseudonyms":[{"field":"c","as":"d"},{"field":"e"}]}"#]
    {
        assert_eq!(serde_json::to_string(&rules(text)).unwrap(), text);
    }
}

#[test]
fn regions_are_short_and_plain() {
    assert_eq!("DE".parse::<Region>().unwrap().as_str(), "DE");
    for text in ["", "D E", "D\0E", &"x".repeat(33)] {
        assert!(text.parse::<Region>().is_err(), "{text:?}");
    }
}

#[test]
fn the_deepest_data_is_shaped_without_trouble() {
    let data = format!("{}{{\"a\":1,\"b\":2}}{}", "[".repeat(119), "]".repeat(119));
    let data = Json::parse(data.as_bytes(), Depth::MAX).unwrap();
    let expected = format!("{}{{\"a\":1}}{}", "[".repeat(119), "]".repeat(119));
    let shaped = shaping(r#"{"allow":["a"]}"#).apply(data, data.text().len()).unwrap();
    assert_eq!(shaped.json().text(), expected);
}

#[test]
fn data_that_becomes_longer_than_it_may_is_none() {
    let pseudonyms = shaping(r#"{"pseudonyms":[{"field":"a","as":"b"}]}"#);
    let check = |shaping: &Shaping, data: &str| {
        let length = shaped(shaping, data).len();
        assert!(shaping.apply(json(data), length).is_some(), "{data}");
        assert_eq!(shaping.apply(json(data), length - 1), None, "{data}");
    };
    for data in [r#"{"a":7}"#, r#"{"x":1,"a":[1,[2,null]],"y":{}}"#, r#"[{"a":1},{"a":2}]"#, "[[]]"] {
        check(&pseudonyms, data);
    }
    check(&shaping(r#"{"allow":["a.b"]}"#), r#"{"a":{"b":[1,2],"c":3}}"#);
    let every_rule: Vec<_> = (0..ShapingRules::FIELDS_MAX)
        .map(|n| PseudonymRule {
            field: format!("f{n}"),
            new_name: Some(format!("{n}{}", "\u{1}".repeat(250))),
        })
        .collect();
    let rules = ShapingRules { allow: None, pseudonyms: every_rule };
    let fields: Vec<_> = (0..ShapingRules::FIELDS_MAX).map(|n| format!("\"f{n}\":{n}")).collect();
    let data = format!("{{{}}}", fields.join(","));
    let shaping = Shaping::new(&rules, Some(ours())).unwrap();
    assert!(shaping.apply(json(&data), data.len() + Shaping::GROWTH_BYTES_MAX).is_some());
}

#[test]
fn no_more_is_made_of_data_than_it_may_become() {
    let shaping = shaping(r#"{"pseudonyms":[{"field":"creator.id"}]}"#);
    let mut walk = Walk::before(json(r#"{"creator":[{"id":[1,2,3,4,5,6,7,8]},{"id":9}],"x":1}"#));
    let mut out = Text { text: String::new(), bytes_max: 100 };
    shaping.write(&shaping.root, &mut walk, &mut out);
    assert!(out.is_too_long() && out.text.len() < 100 + 2 * Pseudonyms::BYTES, "{}", out.text);
}

type Leaves = Vec<(Vec<String>, String)>;

fn leaves(json: Json<'_>, path: &[String], found: &mut Leaves) {
    match json.kind() {
        JsonKind::Object => {
            for (key, value) in json.fields() {
                leaves(value, &below(path, key), found);
            }
        }
        JsonKind::Array => json.elements().for_each(|element| leaves(element, path, found)),
        _ => found.push((path.to_vec(), json.text().into())),
    }
}

fn below(path: &[String], key: Json<'_>) -> Vec<String> {
    [path, &[key.string().unwrap().into_owned()]].concat()
}

/// From the rules' definition.
fn remaining(rules: &ShapingRules, json: Json<'_>, path: &[String], found: &mut Leaves) {
    let dotted = path.join(".");
    let replaced = rules.pseudonyms.iter().find(|rule| rule.field == dotted);
    match (json.kind(), replaced) {
        (JsonKind::Array, _) => json.elements().for_each(|element| remaining(rules, element, path, found)),
        (JsonKind::Null, Some(rule)) => found.push((renamed(path, rule), "null".into())),
        (_, Some(rule)) => {
            let mut token = String::new();
            ours().write(json, &mut token);
            found.push((renamed(path, rule), token));
        }
        (JsonKind::Object, None) => {
            for (key, value) in json.fields() {
                let path = below(path, key);
                let dotted = path.join(".");
                let forged = rules.pseudonyms.iter().any(|rule| {
                    renamed(&rule.field.split('.').map(String::from).collect::<Vec<_>>(), rule) == path
                });
                if !forged || rules.pseudonyms.iter().any(|rule| rule.field == dotted) {
                    remaining(rules, value, &path, found);
                }
            }
        }
        (_, None) => {
            let listed = |allowed: &String| dotted == *allowed || dotted.starts_with(&format!("{allowed}."));
            if rules.allow.as_ref().is_none_or(|allow| allow.iter().any(listed)) {
                found.push((path.to_vec(), json.text().into()));
            }
        }
    }
}

fn renamed(path: &[String], rule: &PseudonymRule) -> Vec<String> {
    let mut path = path.to_vec();
    if let (Some(last), Some(new_name)) = (path.last_mut(), &rule.new_name) {
        last.clone_from(new_name);
    }
    path
}

fn any_data() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[0-9]{1,4}".prop_map(|digits| format!("\"{digits}\"")),
        Just("null".into()),
        Just("7".into())
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let fields = prop::collection::vec(("[abc]", inner.clone()), 0..4);
        prop_oneof![
            3 => fields.prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", fields.join(" ,"))
            }),
            1 => prop::collection::vec(inner, 0..4).prop_map(|items| format!("[ {}]", items.join(", "))),
        ]
    })
}

fn any_rules() -> impl Strategy<Value = ShapingRules> {
    let path = "[abc](\\.[abc]){0,2}";
    let pseudonym =
        (path, prop::option::of("[abc]")).prop_map(|(field, new_name)| PseudonymRule { field, new_name });
    let allow = prop::option::weighted(0.8, prop::collection::vec(path, 0..4));
    (allow, prop::collection::vec(pseudonym, 0..3))
        .prop_map(|(allow, pseudonyms)| ShapingRules { allow, pseudonyms })
}

proptest! {
    #[test]
    fn exactly_what_the_rules_let_through_gets_through(rules in any_rules(), data in any_data()) {
        let Ok(shaping) = Shaping::new(&rules, Some(ours())) else { return Ok(()) };
        let data = json(&data);
        let shaped = shaped(&shaping, data.text());
        let shaped = json(&shaped);
        let (mut got, mut expected) = (Leaves::new(), Leaves::new());
        leaves(shaped, &[], &mut got);
        remaining(&rules, data, &[], &mut expected);
        // A body needs data.
        if expected.is_empty() && !matches!(data.kind(), JsonKind::Object | JsonKind::Array) {
            expected.push((vec![], "null".into()));
        }
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn the_same_shape_means_the_same_bytes(a in any_rules(), b in any_rules(), data in any_data()) {
        let (Ok(a), Ok(b)) = (Shaping::new(&a, Some(ours())), Shaping::new(&b, Some(ours()))) else { return Ok(()) };
        if a.id() == b.id() {
            prop_assert_eq!(shaped(&a, &data), shaped(&b, &data));
        }
    }

    #[test]
    fn no_rules_panic(allow in prop::option::of(prop::collection::vec("\\PC{0,8}", 0..3)), field in "\\PC{0,8}", new_name in prop::option::of("\\PC{0,8}")) {
        let rules = ShapingRules { allow, pseudonyms: vec![PseudonymRule { field, new_name }] };
        if let Ok(shaping) = Shaping::new(&rules, Some(ours())) {
            let shaped = shaped(&shaping, r#"{"a":[{"b":"\ud800"}],"":1}"#);
            prop_assert!(Json::parse(shaped.as_bytes(), Depth::DEFAULT).is_ok());
        }
    }
}
