use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn depth(levels: usize) -> Depth {
    Depth::new(levels).unwrap()
}

fn parse(text: &str) -> Result<Json<'_>, JsonError> {
    Json::parse(text.as_bytes(), Depth::DEFAULT)
}

#[test]
fn the_text_stays_as_it_came_but_for_blanks_around_it() {
    let rows = [
        "{\"a\" :  1.0 ,\n\"a\":1e999}",
        "123456789012345678901234567890.000",
        r#""\u00e9\/é\ud800""#,
        "[ ]",
        "null",
        "-0",
    ];
    for text in rows {
        assert_eq!(parse(&format!(" \r\n\t{text}\n ")).unwrap().text(), text);
    }
}

#[test]
fn text_that_is_not_one_json_value_is_refused() {
    let rows = [
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "{\"a\"}",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "+1",
        "1.",
        ".5",
        "NaN",
        "'a'",
        "nul",
        "1 2",
        "[1]]",
        "\"a",
        "\"\\x\"",
        "\"\n\"",
        "\u{feff}1",
        "// x\n1",
        "\u{a0}1",
        "{\"a\":1}\0",
    ];
    for text in rows {
        assert!(matches!(parse(text), Err(JsonError::Syntax { .. })), "{text:?}");
    }
    assert_eq!(Json::parse(b"\"ab\xff\"", Depth::DEFAULT), Err(JsonError::NotUtf8 { at: 3 }));
}

#[test]
fn levels_are_counted_where_they_open_and_not_in_strings() {
    let check = |text: &str, levels, expected: Option<usize>| {
        let got = match Json::parse(text.as_bytes(), depth(levels)) {
            Err(JsonError::TooDeep { at, .. }) => Some(at),
            Err(error) => panic!("{text}: {error}"),
            Ok(_) => None,
        };
        assert_eq!(got, expected, "{text} at {levels}");
    };
    check("[[1],[2]]", 2, None);
    check("[[1],[2]]", 1, Some(1));
    check(r#"{"a":{"b":[]}}"#, 3, None);
    check(r#"{"a":{"b":[]}}"#, 2, Some(10));
    check(r#"["[[[[", "\"[[[", "\\", [1]]"#, 1, Some(24));
    check(r#"["[[[[", "\"[[[", "\\"]"#, 1, None);
    check("1", 1, None);
}

#[test]
fn a_hundred_thousand_levels_are_refused_without_a_crash() {
    for opening in ["[", "{\"a\":", "[{\"a\":"] {
        let open = opening.repeat(100_000);
        assert!(matches!(parse(&open), Err(JsonError::TooDeep { .. })));
        let closed = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parse(&closed), Err(JsonError::TooDeep { max: Depth::DEFAULT, at: Depth::DEFAULT.get() }));
    }
    assert!(matches!(parse(&"]".repeat(100_000)), Err(JsonError::Syntax { .. })));
}

#[test]
fn fields_come_in_their_order_and_doubled_ones_twice() {
    let json = parse("{ \"a\" : 1 ,\n\"b\":[1,{\"}\":2}] , \"a\":\"x,\\\"}\" ,\"c\":{}, \"\":null}").unwrap();
    let fields: Vec<_> = json.fields().map(|(key, value)| (key.text(), value.text())).collect();
    let expected = [
        ("\"a\"", "1"),
        ("\"b\"", "[1,{\"}\":2}]"),
        ("\"a\"", "\"x,\\\"}\""),
        ("\"c\"", "{}"),
        ("\"\"", "null"),
    ];
    assert_eq!(fields, expected);
    let array = parse("[ 1 ,\"]\", [2 ,3],{} ]").unwrap();
    assert_eq!(array.elements().map(Json::text).collect::<Vec<_>>(), ["1", "\"]\"", "[2 ,3]", "{}"]);
    for text in ["{}", "[]", "{ }", "[ ]", "1", "\"{\"", "null"] {
        let json = parse(text).unwrap();
        assert_eq!((json.fields().count(), json.elements().count()), (0, 0), "{text}");
    }
}

#[test]
fn strings_are_read_with_their_escapes() {
    let string = |text: &str| parse(text).unwrap().string().map(Cow::into_owned);
    assert_eq!(string(r#""plain é""#), Some("plain é".into()));
    assert_eq!(string(r#""\u0074yp\u0065 \ud83d\ude00 \"""#), Some("type 😀 \"".into()));
    assert_eq!(string(r#""\ud800""#), None);
    assert_eq!(string("1"), None);
    assert!(matches!(parse(r#""plain""#).unwrap().string(), Some(Cow::Borrowed("plain"))));
}

fn any_json() -> impl Strategy<Value = String> {
    let string = prop::collection::vec(
        prop_oneof![
            "[a-c]",
            "[é\\[\\]{}:,]",
            Just("\\\"".into()),
            Just("\\\\".into()),
            Just("\\u00e9".into())
        ],
        0..5,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = prop_oneof![any::<i64>().prop_map(|n| n.to_string()), Just("1.50e3".into())];
    let leaf = prop_oneof![Just("null".into()), Just("true".into()), number, string.clone()];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let blank = "[ \n\r\t]{0,2}";
        let array = prop::collection::vec((blank, inner.clone(), blank), 0..5).prop_map(|items| {
            let items: Vec<_> = items.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
            format!("[{}]", items.join(","))
        });
        let object = prop::collection::vec((blank, string.clone(), blank, inner), 0..5).prop_map(|fields| {
            let fields: Vec<_> =
                fields.into_iter().map(|(a, key, b, value)| format!("{a}{key}{b}:{b}{value}{a}")).collect();
            format!("{{{}}}", fields.join(","))
        });
        prop_oneof![array, object]
    })
}

/// To compare the walk with a parser.
fn rebuilt(json: Json<'_>) -> Value {
    match json.kind() {
        JsonKind::Object => json
            .fields()
            .map(|(key, value)| (key.string().unwrap().into_owned(), rebuilt(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        JsonKind::Array => json.elements().map(rebuilt).collect(),
        _ => serde_json::from_str(json.text()).unwrap(),
    }
}

proptest! {
    #[test]
    fn walking_finds_what_a_parser_finds(text in any_json()) {
        let json = Json::parse(text.as_bytes(), Depth::DEFAULT).unwrap();
        prop_assert_eq!(rebuilt(json), serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn no_bytes_panic_and_the_verdict_is_the_parsers(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..64), "[\\[\\]{}\":,a1 \\\\]{0,24}".prop_map(String::into_bytes)]
    ) {
        let ours = Json::parse(&bytes, Depth::DEFAULT).is_ok();
        prop_assert_eq!(ours, serde_json::from_slice::<&serde_json::value::RawValue>(&bytes).is_ok());
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let unchecked = Json::known(text);
            prop_assert!(unchecked.fields().count() + unchecked.elements().count() <= text.len());
            let _ = unchecked.string();
        }
    }
}

#[test]
fn half_of_a_surrogate_pair_is_found_where_it_begins() {
    let rows = [
        (r#""\ud83d\ude00""#, None),
        (r#""\\ud800""#, None),
        (r#"["\uD7FF","\ue000","ud800"]"#, None),
        (r#""\ud800""#, Some(1)),
        (r#""\udc00""#, Some(1)),
        (r#""\ude00\ud83d""#, Some(1)),
        (r#""\ud83d\ud83d\ude00""#, Some(1)),
        (r#""\ud83d\ude00\udbff""#, Some(13)),
        (r#""\\\ud800""#, Some(3)),
        (r#"{"\ud83d":1}"#, Some(2)),
    ];
    for (text, at) in rows {
        assert_eq!(parse(text).unwrap().lone_surrogate(), at, "{text}");
    }
}
