use serde_json::{Value, json};

use crate::input::bystander::Bystander;

/// Each is accepted or refused as a whole.
fn extremes() -> Vec<Value> {
    let huge = "9".repeat(400);
    let fields = [
        (
            "limit",
            "rate",
            vec![json!("1/1s"), json!("1000000/s"), json!("0/s"), json!("1/365d"), json!("x/y")],
        ),
        ("limit", "burst", vec![json!(0), json!(1), json!(4_294_967_295_u64), json!(-1), json!(1e300)]),
        ("limit", "in_flight", vec![json!(0), json!(4_294_967_295_u64), json!("many")]),
        (
            "limit",
            "windows",
            vec![json!([]), json!(vec!["1 per 1s"; 1_000]), json!(["1 per 0s"]), json!([1])],
        ),
        ("limit", "quarantine", vec![json!("0s"), json!("584years"), json!("-1s"), json!(5)]),
        ("limit", "doubt", vec![json!("0s"), json!("584years"), json!("-1s"), json!(5)]),
        ("queue", "rows", vec![json!(0), json!(1), json!(u64::MAX), json!(-1)]),
        ("queue", "bytes", vec![json!("0B"), json!("1B"), json!("16777216TiB"), json!("")]),
        ("queue", "when_full", vec![json!("refuse"), json!("explode")]),
        ("retry", "base", vec![json!("0s"), json!("1ns"), json!("10000d"), json!(huge)]),
        ("retry", "cap", vec![json!("0s"), json!("1ns")]),
        ("retry", "attempts", vec![json!(0), json!(1), json!(4_294_967_295_u64), json!(1e10)]),
        ("retry", "schedule", vec![json!(["0s"]), json!(vec!["1s"; 100_000 / 8])]),
        ("retry", "ttl", vec![json!("0s"), json!("1ns"), json!("100000d")]),
        ("retry", "retry_after_cap", vec![json!("0s"), json!("100000d")]),
        ("breaker", "failures", vec![json!(0), json!(1), json!(4_294_967_295_u64)]),
        ("breaker", "cooldown", vec![json!("0s"), json!("1ns"), json!("100000d")]),
        ("pressure", "latency_factor", vec![json!(0), json!(4_294_967_295_u64)]),
        ("pressure", "target", vec![json!("0s"), json!("1ns"), json!("584years"), json!(5)]),
        ("pressure", "latency_least", vec![json!(0), json!(1), json!(101)]),
        ("pressure", "failures_percent", vec![json!(0), json!(101)]),
        ("shape", "allow", vec![json!([]), json!(["a..b"]), json!(vec!["a"; 10_000]), json!(["\u{0}"])]),
        ("shape", "pseudonymise", vec![json!(["a"]), json!([{"field": "a", "as": ""}]), json!([[]])]),
    ];
    let nested = fields.into_iter().flat_map(|(section, field, values)| {
        values.into_iter().map(move |value| json!({ section: { field: value } }))
    });
    let plain = [
        json!({ "timeout": "0s" }),
        json!({ "timeout": "1ns" }),
        json!({ "timeout": "100000d" }),
        json!({ "connect_timeout": "1ns" }),
        json!({ "dedupe": "100000d" }),
        json!({ "sign": "nothing" }),
        json!({ "coalesce": vec![json!({ "events": "*", "window": "1h" }); 100] }),
        json!({ "coalesce": [{ "events": "*", "window": "0s" }] }),
        json!({ "limit": null }),
        json!({ "limit": [] }),
        json!({ "unknown": 1 }),
        json!({ "events": [] }),
        json!({ "events": vec!["a"; 10_000] }),
        json!({ "events": ["*.*", "", "a.*.b"] }),
        json!({ "name": "x".repeat(100_000) }),
        json!({ "name": "" }),
        json!({ "name": "\u{202e}\u{0}" }),
        json!({ "url": "x".repeat(100_000) }),
        json!({ "url": format!("http://127.0.0.1:9/{}", "x".repeat(60_000)) }),
        json!({ "url": "file:///etc/passwd" }),
        json!({ "url": "http://user:pass@127.0.0.1:9/" }),
        json!({ "url": "http://127.0.0.1:0/" }),
        json!({ "url": "http://[::ffff:127.0.0.1]:9/" }),
        json!({ "url": 7 }),
        json!({ "secret": "short" }),
    ];
    nested.chain(plain).collect()
}

#[test]
fn settings_at_their_extremes_are_taken_or_refused_and_disturb_no_other_lane() {
    let (_database, serving, bystander) = Bystander::beside();
    let (mut taken, mut refused) = (0, 0);
    for (number, settings) in extremes().into_iter().enumerate() {
        let mut body = json!({ "name": format!("s{number}"), "url": "http://127.0.0.1:9/", "events": ["x"] });
        body.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let answer = serving.post("/v1/subscribers", &body.to_string());
        match answer.status {
            201 => taken += 1,
            400 | 413 | 422 => {
                answer.is_a_refusal();
                let field = answer.json()["error"]["field"].clone();
                assert!(answer.status == 413 || field.is_string(), "{settings}: {answer:?}");
                refused += 1;
            }
            _ => panic!("{settings}: {answer:?}"),
        }
    }
    assert!(taken > 10 && refused > 50, "{taken} taken, {refused} refused");
    for number in 0..20 {
        let answer =
            serving.post("/v1/events", &json!({ "type": "x", "data": number, "key": "k" }).to_string());
        assert!(matches!(answer.status, 202 | 207 | 413 | 429), "{answer:?}");
    }
    for path in ["/v1/status", "/metrics", "/v1/subscribers", "/v1/deliveries", "/v1/dead", "/v1/audit"] {
        assert_eq!(serving.get(path).status, 200, "{path}");
    }
    bystander.did_not_notice(serving);
}
