//! The console in a real browser. Without Chromium each test prints a line and passes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../binary/mod.rs"]
mod binary;
mod browser;

use std::io::Write as _;

use binary::endpoint::Endpoint;
use binary::http::request;
use binary::{Database, Serving, event};
use browser::Browser;
use serde_json::json;

const WIDER: &str = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
/// Controls of an open dialog, or else of the page, beyond the screen's edges.
const OUT_OF_SIGHT: &str = "[...(document.querySelector('dialog[open]') ?? document).querySelectorAll('button, input, td')]
  .filter((one) => { const box = one.getBoundingClientRect(); return box.width > 0 && (box.left < 0 || box.right > innerWidth); })
  .map((one) => one.textContent)";

fn console(test: &str, waiting: usize) -> Option<(Database, Serving, Browser)> {
    let database = Database::new();
    database.subscribe("shop", "http://127.0.0.1:9/", &["limit.rate=5/s"]);
    database.json(&["subscriber", "pause", "shop", "--json"]);
    let serving = database.serve();
    if waiting > 0 {
        let lines: String = (0..waiting).map(|number| event(&number.to_string()) + "\n").collect();
        let answer =
            request(&serving.address, "POST", "/v1/events", "application/x-ndjson", lines.as_bytes());
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    let browser = Browser::open(test, &format!("http://{}/", serving.address))?;
    Some((database, serving, browser))
}

fn patch(serving: &Serving, body: &str) {
    let answer =
        request(&serving.address, "PATCH", "/v1/subscribers/shop", "application/json", body.as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn limits_are_changed_after_a_look_at_what_follows() {
    let Some((_database, serving, mut browser)) = console("limits_are_changed", 1_200) else { return };
    browser.click("[aria-label='Limits shop']");
    browser.until("document.querySelector('#limits').innerText.includes('Nothing would change')");
    assert_eq!(browser.value("document.querySelector('#limits [type=submit]').disabled"), true);
    browser.type_in("limits", "rate", "20/s");
    browser.type_in("limits", "windows", "30 per 3s, 900 per 1min");
    let told = browser.planned("limits", "under its windows");
    assert!(told.contains("Rate\t5/s\t20/s"), "{told}");
    assert!(
        told.contains("Backlog of 1,200\tabout 4.0 min at 5/s\tabout 2.0 min under its windows"),
        "{told}"
    );
    let shown = || serving.get("/v1/subscribers/shop").json()["limit"].take();
    assert_eq!(shown()["rate"], "5/s", "a look changes nothing");
    browser.click("#limits [type=submit]");
    browser.until("!document.querySelector('#limits').open");
    let limit = shown();
    assert_eq!((&limit["rate"], &limit["burst"]), (&json!("20/s"), &json!(10)));
    assert_eq!(limit["windows"], json!(["30 per 3s", "900 per 1min"]));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_refresh_keeps_the_focus_and_a_limit_that_cannot_be_is_told_and_cannot_be_set() {
    let Some((_database, _serving, mut browser)) = console("a_limit_that_cannot_be", 0) else { return };
    let limits = "document.querySelector('[aria-label=\"Limits shop\"]')";
    browser.until(limits);
    browser.value(&format!("{limits}.focus(); {limits}.dataset.old = 1"));
    browser.until(&format!("{limits} && !{limits}.dataset.old"));
    assert_eq!(
        browser.value(&format!("document.activeElement === {limits}")),
        true,
        "a refresh keeps the focus"
    );
    browser.click("[aria-label='Limits shop']");
    browser.until("document.querySelector('#limits').innerText.includes('Nothing would change')");
    browser.type_in("limits", "burst", "0");
    let told = browser.until("document.querySelector('#limits .bad')?.textContent");
    assert!(told.as_str().unwrap().starts_with("limit.burst is 0"), "{told}");
    assert_eq!(browser.value("document.querySelector('#limits [type=submit]').disabled"), true);
}

#[test]
fn the_second_to_change_a_limit_must_reload() {
    let Some((_database, serving, mut browser)) = console("the_second_to_change_a_limit_must_reload", 0)
    else {
        return;
    };
    browser.click("[aria-label='Limits shop']");
    browser.until("document.querySelector('#limits').innerText.includes('Nothing would change')");
    browser.type_in("limits", "rate", "7/s");
    browser.planned("limits", "Rate\t5/s\t7/s");
    patch(&serving, r#"{"limit":{"rate":"6/s","burst":3}}"#);
    browser.click("#limits [type=submit]");
    let told = browser.planned("limits", "The subscriber was changed meanwhile");
    assert!(told.contains("Rate\t6/s\t7/s") && told.contains("Burst\t3\t3"), "{told}");
    assert_eq!(serving.get("/v1/subscribers/shop").json()["limit"]["rate"], "6/s");
    browser.click("#limits [type=submit]");
    browser.until("!document.querySelector('#limits').open");
    let limit = serving.get("/v1/subscribers/shop").json()["limit"].take();
    assert_eq!((&limit["rate"], &limit["burst"]), (&json!("7/s"), &json!(3)), "both have what they wanted");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn waiting_deliveries_are_given_up_after_a_preview_of_their_number() {
    let Some((_database, serving, mut browser)) =
        console("waiting_deliveries_are_given_up_after_a_preview", 700)
    else {
        return;
    };
    let places = || {
        let deliveries = serving.get("/v1/status").json()["deliveries"].take();
        (deliveries["waiting"].as_u64(), deliveries["dead_kept"].as_u64())
    };
    browser.click("[aria-label='Give up shop']");
    browser.planned("shed", "700 of 700 waiting deliveries would become dead letters");
    browser.type_in("shed", "max", "600");
    browser.planned("shed", "600 of 700 waiting deliveries would become dead letters");
    assert_eq!(places(), (Some(700), Some(0)), "a look changes nothing");
    browser.click("#shed [type=submit]");
    browser.until("!document.querySelector('#shed').open");
    assert_eq!(places(), (Some(100), Some(600)));
    browser.until("document.querySelector('[aria-label=\"Redrive shop\"]')");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_mended_endpoint_is_tried_at_once() {
    let Some((database, serving, mut browser)) = console("a_mended_endpoint_is_tried_at_once", 0) else {
        return;
    };
    let mended = Endpoint::answering(|number| if number == 0 { "500 x\r\n" } else { "204 x\r\n" }.to_owned());
    let breaker = ["breaker.failures=1", "breaker.failures_when_slow=1", "breaker.cooldown=1h"];
    database.subscribe("ill", &mended.url, &breaker);
    database.json(&["emit", "--type", "a", "--data", "1", "--json"]);
    let told = browser.until(
        "[...document.querySelectorAll('#held-up li')].find((one) => one.innerText.includes('ill: breaker open'))?.innerText",
    );
    assert!(told.as_str().unwrap().contains("`subscriber retry ill`"), "{told}");
    browser.click("[aria-label='Retry ill']");
    mended.wait_for(2);
    browser.until("!document.querySelector('#held-up').innerText.includes('ill:')");
    assert_eq!(serving.get("/v1/status").json()["deliveries"]["delivered"], 1);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_delivered_one_is_sent_again_by_its_id() {
    let Some((database, serving, mut browser)) = console("a_delivered_one_is_sent_again", 0) else { return };
    let well = Endpoint::answering(|_| "204 x\r\n".to_owned());
    database.subscribe("well", &well.url, &[]);
    database.json(&["emit", "--type", "a", "--data", "1", "--json"]);
    well.wait_for(1);
    let id = loop {
        let delivered = serving.get("/v1/deliveries?state=delivered").json();
        if let Some(id) = delivered["items"][0]["id"].as_str() {
            break id.to_owned();
        }
    };
    browser.value("window.confirm = () => true");
    browser.click("[aria-label='Deliveries well']");
    browser.until("document.querySelector('#list[open]')");
    let choose = "{ const state = document.querySelector('#list-state'); state.value = 'delivered'; state.dispatchEvent(new Event('change')); }";
    browser.value(choose);
    browser.click(&format!("#list[open] [aria-label='Show {id}']"));
    let told = browser.until("document.querySelector('#delivery[open]')?.innerText");
    assert!(told.as_str().unwrap().contains(", to well"), "{told}");
    browser.click("#resend");
    well.wait_for(2);
    browser.until("document.querySelector('#delivery').innerText.includes('waits to be sent again')");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_subscriber_is_paused_with_a_reason_and_an_end_and_the_page_says_so() {
    let Some((database, serving, mut browser)) = console("a_subscriber_is_paused", 0) else { return };
    database.subscribe("well", "http://127.0.0.1:9/", &[]);
    browser.until("document.querySelector('[aria-label=\"Pause well\"]')");
    browser.click("[aria-label='Pause well']");
    browser.type_in("pause", "for", "soon");
    browser.click("#pause [type=submit]");
    let refused = browser.until("document.querySelector('#pause .bad')?.textContent");
    assert!(refused.as_str().unwrap().starts_with("for cannot be read"), "{refused}");
    browser.type_in("pause", "for", "2h");
    browser.type_in("pause", "reason", "they move house");
    browser.click("#pause [type=submit]");
    browser.until("!document.querySelector('#pause').open && document.querySelector('#said').innerText === 'well is paused'");
    let shown = serving.get("/v1/subscribers/well").json();
    assert_eq!(shown["state"], "paused");
    browser.until("document.querySelector('#held-up').innerText.includes('an operator paused it (they move house) until ')");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_delivery_is_shown_with_its_attempts_and_their_answers_as_text() {
    const BODY: &str = "<img src=x onerror='console.error(1)'>no such \u{fc}";
    let Some((database, serving, mut browser)) = console("a_delivery_is_shown", 0) else { return };
    let ill = Endpoint::scripted(|_, stream| {
        let length = BODY.len();
        write!(stream, "HTTP/1.1 404 x\r\nserver: shop/1\r\ncontent-length: {length}\r\n\r\n{BODY}")
    });
    database.subscribe("ill", &ill.url, &["retry.attempts=1"]);
    database.json(&["emit", "--type", "a", "--data", "1", "--json"]);
    let id = loop {
        let dead = serving.get("/v1/deliveries?state=dead").json();
        if let Some(id) = dead["items"][0]["id"].as_str() {
            break id.to_owned();
        }
    };
    browser.type_in("again", "delivery", &id);
    browser.click("#again button");
    let told = browser.until("document.querySelector('#delivery[open]')?.innerText");
    let told = told.as_str().unwrap();
    assert!(told.starts_with(&format!("{id}: dead: exhausted")), "{told}");
    assert!(told.contains(": answered 404; connected in ") && told.contains("server: shop/1"), "{told}");
    assert!(told.contains(BODY), "{told}");
    for width in [360, 1_280] {
        browser.width(width);
        assert_eq!((browser.value(WIDER), browser.value(OUT_OF_SIGHT)), (json!(0), json!([])), "at {width}");
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn it_tells_what_is_in_flight_in_all_and_fits_narrow_and_wide_screens() {
    let Some((database, _serving, mut browser)) = console("it_fits", 30) else { return };
    let held = Endpoint::scripted(|_, _| {
        loop {
            std::thread::park();
        }
    });
    database.subscribe("held", &held.url, &["limit.in_flight=2", "timeout=2min"]);
    for number in ["1", "2"] {
        database.json(&["emit", "--type", "a", "--data", number, "--json"]);
    }
    held.wait_for(2);
    browser.until("document.querySelector('#figures').innerText.includes('In flight here\\n2\\n')");
    browser.until(
        "document.querySelector('#held-up').innerText.includes('shop: paused: an operator paused it')",
    );
    for dialog in ["", "Limits", "Give up", "Deliveries"] {
        if !dialog.is_empty() {
            browser.click(&format!("[aria-label='{dialog} shop']"));
        }
        for width in [400, 1_280] {
            browser.width(width);
            assert_eq!(browser.value(WIDER), 0, "{dialog} at {width}");
            assert_eq!(browser.value(OUT_OF_SIGHT), json!([]), "{dialog} at {width}");
        }
        browser.value("document.querySelector('dialog[open]')?.close()");
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}
