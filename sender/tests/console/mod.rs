//! The console in a real browser. Without Chromium each test prints a line and passes.

mod browser;

use std::io::Write as _;

use crate::binary::endpoint::Endpoint;
use crate::binary::http::request;
use crate::binary::{Database, Serving, event};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use browser::Browser;
use serde_json::{Value, json};

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

/// No barrier in either theme, and nothing beyond the edges of a narrow and a wide screen.
#[track_caller]
fn fits(browser: &mut Browser) {
    for width in [360, 1_280] {
        browser.width(width);
        assert_eq!((browser.value(WIDER), browser.value(OUT_OF_SIGHT)), (json!(0), json!([])), "at {width}");
        assert_eq!(browser.barriers(), Vec::<Value>::new(), "at {width}");
    }
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
    let colour = |name: &str| {
        format!("getComputedStyle(document.querySelector('[aria-label=\"{name} shop\"]')).color")
    };
    browser.until("document.querySelector('[aria-label=\"Give up shop\"]')");
    assert_eq!(browser.value(&format!("{} === {}", colour("Give up"), colour("Limits"))), false);
    browser.click("[aria-label='Give up shop']");
    browser.planned("shed", "700 of 700 waiting deliveries would become dead letters");
    browser.type_in("shed", "max", "600");
    browser.planned("shed", "600 of 700 waiting deliveries would become dead letters");
    assert_eq!(places(), (Some(700), Some(0)), "a look changes nothing");
    browser.click("#shed [type=submit]");
    browser.until("!document.querySelector('#shed').open");
    let job = "document.querySelector('#jobs li').innerText";
    browser.until(&format!(
        "{job}.startsWith('Job 1, shed of shop, by a client without a token: done, 600 of 600')"
    ));
    assert_eq!(places(), (Some(100), Some(600)));
    browser.click("[aria-label='Redrive shop']");
    let told = "600 dead letters would be sent again. That takes 2.0 min at least, by its limits.";
    browser.planned("redrive", told);
    fits(&mut browser);
    browser.type_in("redrive", "since", "2200-01-01T00:00");
    browser.until(
        "document.querySelector('#redrive').innerText.includes('\\n0 dead letters would be sent again.')",
    );
    assert_eq!(browser.value("document.querySelector('#redrive [type=submit]').disabled"), true);
    browser.type_in("redrive", "since", "2001-01-01T00:00");
    browser.planned("redrive", told);
    browser.click("#redrive [type=submit]");
    browser.until("!document.querySelector('#redrive').open");
    browser
        .until(&format!("{job}.startsWith('Job 2, redrive of shop') && {job}.includes('done, 600 of 600')"));
    assert_eq!(places(), (Some(700), Some(0)));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_job_is_shown_with_its_progress_and_paused_resumed_and_cancelled() {
    let Some((database, serving, mut browser)) = console("a_job_is_shown", 8) else { return };
    database.json(&["subscriber", "shed", "shop", "--yes", "--json"]);
    database.json(&["subscriber", "set", "shop", "queue.rows=3", "--json"]);
    let which = br#"{"subscriber":"shop"}"#;
    let begun = request(&serving.address, "POST", "/v1/dead/redrive", "application/json", which);
    assert_eq!(begun.status, 202, "{begun:?}");
    let job = "document.querySelector('#jobs li')";
    browser.until(&format!(
        "{job}.innerText.startsWith('Job 2, redrive of shop, by a client without a token: running, 3 of 8')"
    ));
    assert_eq!(browser.value(&format!("{job}.querySelector('progress').position")), 0.375);
    fits(&mut browser);
    for (button, state) in [("Pause", "paused"), ("Resume", "running"), ("Cancel", "cancelled")] {
        browser.click(&format!("[aria-label='{button} job 2']"));
        browser.until(&format!("{job}.innerText.includes(': {state}, ')"));
        assert_eq!(serving.get("/v1/jobs/2").json()["state"], state);
    }
    browser.until(&format!("!{job}.querySelector('button')"));
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
    let told = told.as_str().unwrap();
    assert!(told.contains("`hookproof sender subscriber retry ill`"), "{told}");
    assert!(!told.contains("Z;"), "times as a clock here shows them: {told}");
    browser.until("document.querySelector('#state.warn').innerText === '▲ Subscribers held up: 2'");
    let attempt = "document.querySelector('#attempts li')?.innerText";
    let told = browser.until(&format!("{attempt}?.includes('ill: answered 500 in ') && {attempt}"));
    assert!(told.as_str().unwrap().ends_with(", attempt 1 Show"), "{told}");
    browser.click("[aria-label='Retry ill']");
    mended.wait_for(2);
    browser.until(&format!("{attempt}?.includes('ill: answered 204 in ')"));
    browser.click("#failed");
    browser.until(&format!("{attempt}?.includes('ill: answered 500 in ')"));
    browser.click("#attempts button");
    browser.until("document.querySelector('#delivery[open]')?.innerText.includes('Attempt 1')");
    browser.value("document.querySelector('#delivery').close()");
    browser.until("!document.querySelector('#held-up').innerText.includes('ill:')");
    browser.until("document.querySelector('#state.warn').innerText === '▲ Subscribers held up: 1'");
    database.json(&["subscriber", "resume", "shop", "--json"]);
    browser.until("document.querySelector('#state.good').innerText === '✓ Nothing is held up'");
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
    let waiting = serving.get("/v1/deliveries?state=waiting&subscriber=shop").json();
    let id = waiting["items"][0]["id"].as_str().unwrap();
    browser.value(&format!(
        "{{ document.querySelectorAll('dialog[open]').forEach((one) => one.close());
            const form = document.querySelector('#again'); form.elements.delivery.value = '{id}'; form.requestSubmit(); }}"
    ));
    browser.until("document.querySelector('#delivery[open]')?.innerText.includes(': waiting')");
    assert_eq!(browser.value("document.querySelector('#resend').hidden"), true, "it would be refused");
    browser.value("document.querySelector('#delivery').close(); window.alert = null");
    browser.click("[aria-label='Test well']");
    browser.until("document.querySelector('#said').innerText.startsWith('well: answered 204 after ')");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn what_was_delivered_since_a_time_is_sent_again_after_a_look_at_how_many() {
    let Some((database, serving, mut browser)) = console("what_was_delivered_since", 0) else { return };
    let well = Endpoint::answering(|_| "204 x\r\n".to_owned());
    database.subscribe("well", &well.url, &["limit.rate=50/s"]);
    for number in ["1", "2"] {
        database.json(&["emit", "--type", "a", "--data", number, "--json"]);
    }
    well.wait_for(2);
    while serving.get("/v1/status").json()["deliveries"]["delivered"] != 2 {}
    browser.until("document.querySelector('[aria-label=\"Replay well\"]')");
    browser.click("[aria-label='Replay well']");
    browser.planned("replay", "2 that were delivered would be sent again");
    fits(&mut browser);
    browser.type_in("replay", "before", "2001-01-01T00:00");
    let told = browser.until("document.querySelector('#replay .bad')?.textContent");
    assert!(told.as_str().unwrap().ends_with("expected an earlier beginning"), "{told}");
    browser.type_in("replay", "before", "");
    browser.planned("replay", "2 that were delivered would be sent again");
    browser.click("#replay [type=submit]");
    browser.until("!document.querySelector('#replay').open");
    well.wait_for(4);
    let job = "document.querySelector('#jobs li').innerText";
    browser.until(&format!("{job}.startsWith('Job 1, replay of well') && {job}.includes('done, 2 of 2')"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_token_is_made_shown_once_and_revoked_and_the_latest_changes_say_so() {
    let Some((_database, serving, mut browser)) = console("a_token_is_made_shown_once", 0) else { return };
    browser.until("document.querySelector('#tokens').innerText === 'no tokens'");
    browser.click("#new-token");
    browser.type_in("make-token", "name", "a/b");
    browser.click("#make-token [type=submit]");
    let refused = browser.until("document.querySelector('#make-token .bad')?.textContent");
    assert!(refused.as_str().unwrap().contains("'/'"), "{refused}");
    fits(&mut browser);
    browser.type_in("make-token", "name", "ann");
    browser.type_in("make-token", "scope", "admin");
    browser.click("#make-token [type=submit]");
    let token = browser.until("document.querySelector('#make-token pre').textContent");
    assert!(token.as_str().unwrap().starts_with("hookproof_"), "{token}");
    fits(&mut browser);
    browser.click("#make-token [value=cancel]");
    browser.until(&format!("!document.documentElement.outerHTML.includes({token})"));
    // The page needs a token now, and goes on with this one.
    let entry = |list: &str| format!("document.querySelector('#{list} li').innerText");
    let made = "ann: admin, by a client without a token, until it is revoked";
    browser.until(&format!("{}.startsWith('{made}')", entry("tokens")));
    let made = ", a client without a token: createToken ann: scope none → admin";
    browser.until(&format!("{}.endsWith('{made}')", entry("changes")));
    browser.click("#new-token");
    browser.type_in("make-token", "name", "bob");
    browser.type_in("make-token", "expires_in", "90d");
    browser.click("#make-token [type=submit]");
    browser.until("document.querySelector('#make-token pre').textContent");
    browser.click("#make-token [value=cancel]");
    browser.value("window.confirm = () => true");
    browser.click("[aria-label='Revoke the token bob']");
    browser.until(&format!("{}.endsWith(', token ann: revokeToken bob')", entry("changes")));
    browser.until("document.querySelectorAll('#tokens li').length === 1");
    fits(&mut browser);
    assert_eq!(serving.get("/v1/status").status, 401, "without a token");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_person_is_found_and_forgotten_after_a_look_at_the_counts_and_a_confirmation() {
    let Some((database, serving, mut browser)) = console("a_person_is_found_and_forgotten", 0) else {
        return;
    };
    database.subscribe("well", "http://127.0.0.1:9/", &[]);
    database.json(&["subscriber", "pause", "well", "--json"]);
    for (key, data) in [("ann b", "1"), ("bob", r#"{"mail":"ann@b"}"#), ("bob", "2")] {
        database.json(&["emit", "--type", "a", "--key", key, "--data", data, "--json"]);
    }
    let said = "document.querySelector('#person [role=status]').innerText";
    let find = |browser: &mut Browser, key: &str, field: &str| {
        browser.type_in("person", "key", key);
        browser.type_in("person", "field", field);
        browser.value("document.querySelector('#person [name=field]').focus()");
        browser.press("Enter");
    };
    browser.until("document.querySelector('[aria-label=\"Test well\"]')");
    browser.value("document.querySelector('#find-person').focus()");
    browser.press("Enter");
    browser.until("document.activeElement.name === 'key'");
    browser.press("Enter");
    browser.until(&format!("{said}.startsWith('the data subject is not named')"));
    find(&mut browser, "nobody", "");
    browser.until(&format!("{said} === 'Deliveries found: 0'"));
    find(&mut browser, "", "/data/mail=ann@b");
    browser.until(&format!("{said} === 'Deliveries found: 2'"));
    let rows = browser.value("document.querySelector('#person tbody').innerText");
    assert!(rows.as_str().unwrap().contains("well\ta\twaiting"), "{rows}");
    fits(&mut browser);
    find(&mut browser, "ann b", "");
    browser.until(&format!("{said} === 'Deliveries found: 2'"));
    browser.value("window.asked = []; window.confirm = (question) => { asked.push(question); return asked.length > 1; }");
    let counts = "events: 1; deliveries: 2, of them waiting: 2, dead letters: 0; attempts: 0; answers: 0";
    browser.click("#forget");
    browser.until("asked.length === 1");
    browser.until("!document.querySelector('#forget').disabled");
    assert_eq!(browser.value(said), format!("Would be erased: {counts}"));
    let waiting = || serving.get("/v1/status").json()["deliveries"]["waiting"].as_u64();
    assert_eq!(waiting(), Some(6), "without a confirmation nothing is done");
    browser.value("document.querySelector('#forget').focus()");
    browser.press("Enter");
    browser.until(&format!("{said}.startsWith('Erased: ')"));
    assert_eq!(browser.value(said), format!("Erased: {counts}."));
    let asked =
        format!("Erased for good would be: {counts}. Copies such as backups stay. Forget key “ann b”?");
    assert_eq!(browser.value("asked[1]"), asked);
    assert_eq!(waiting(), Some(4));
    find(&mut browser, "ann b", "");
    browser.until(&format!("{said} === 'Deliveries found: 0'"));
    find(&mut browser, "bob", "");
    browser.until(&format!("{said} === 'Deliveries found: 4'"));
    browser.click("#person [aria-label^='Show dlv_']");
    browser.until(
        "document.querySelector('#delivery[open] [aria-label=Body]').innerText.includes('\"data\":2')",
    );
    fits(&mut browser);
    browser.press("Escape");
    browser.press("Escape");
    browser.until("!document.querySelector('dialog[open]')");
    // A dialog tells that it is closed a moment later.
    browser.until("document.querySelector('#person [name=key]').value === ''");
    browser.until("!document.documentElement.outerHTML.includes('bob')");
    assert_eq!(browser.value("document.querySelectorAll('#person tbody tr').length"), 0);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_long_search_goes_on_when_asked_and_a_log_that_another_program_holds_is_told() {
    let Some((database, _serving, mut browser)) = console("a_long_search_goes_on", 700) else { return };
    let said = "document.querySelector('#person [role=status]').innerText";
    browser.click("#find-person");
    browser.type_in("person", "field", "/data/views=1200000");
    browser.click("#seek button");
    browser.until(&format!("{said} === 'Deliveries found so far: 500'"));
    browser.click("#seek-on");
    browser.until(&format!("{said} === 'Deliveries found: 700'"));
    assert_eq!(browser.value("document.querySelectorAll('#person tbody tr').length"), 700);
    assert_eq!(browser.value("document.querySelector('#seek-on').hidden"), true);
    browser.type_in("person", "key", "7");
    assert_eq!(browser.value("document.querySelector('#forget').hidden"), true, "another person is named");
    browser.click("#seek button");
    browser.until(&format!("{said} === 'Deliveries found: 1'"));
    browser.value("window.confirm = () => true");
    let held = database.sql();
    held.execute_batch("BEGIN; SELECT count(*) FROM deliveries").unwrap();
    browser.click("#forget");
    let told = browser.until("document.querySelector('#person .bad')?.innerText");
    let told = told.as_str().unwrap();
    assert!(told.starts_with("Erased: events: 1;") && told.ends_with(": forget again."), "{told}");
    held.execute_batch("ROLLBACK").unwrap();
    browser.until("!document.querySelector('#forget').disabled");
    browser.click("#forget");
    browser.until(&format!("{said}.startsWith('Erased: events: 0;')"));
    assert_eq!(browser.value("document.querySelector('#forget').hidden"), true);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_retry_is_made_at_once_and_a_node_is_drained_and_resumed() {
    let Some((database, serving, mut browser)) = console("a_retry_is_made_at_once", 0) else { return };
    let ill = Endpoint::answering(|number| if number == 0 { "500 x\r\n" } else { "204 x\r\n" }.to_owned());
    database.subscribe("ill", &ill.url, &["retry.backoff=fixed", "retry.schedule=1h"]);
    database.json(&["emit", "--type", "a", "--data", "1", "--json"]);
    ill.wait_for(1);
    browser.until("document.querySelector('#attempts li').innerText.includes('ill: answered 500')");
    browser.click("#attempts button");
    browser.until("document.querySelector('#delivery[open]')?.innerText.includes(': waiting')");
    browser.value("document.querySelector('#retry-now').focus()");
    browser.press("Enter");
    ill.wait_for(2);
    browser.until("document.querySelector('#delivery').innerText.includes(' is due now')");
    browser.press("Escape");
    browser.value("document.querySelector('#all-nodes summary').focus()");
    browser.press("Enter");
    let node = "document.querySelector('#nodes li').innerText";
    browser.until(&format!("{node}.includes(': takes subscribers, delivers to ')"));
    fits(&mut browser);
    browser.value("window.confirm = (question) => { window.asked = question; return true; }");
    browser.click("#nodes [aria-label^='Drain ']");
    browser.until(&format!("{node}.includes(': drained, delivers to 0')"));
    let asked = browser.value("asked");
    assert!(
        asked.as_str().unwrap().ends_with("No other node can take them: their deliveries wait."),
        "{asked}"
    );
    assert_eq!(serving.get("/v1/nodes").json()["items"][0]["draining"], true);
    browser.click("#nodes [aria-label^='Resume ']");
    browser.until(&format!("{node}.includes(': takes subscribers')"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_subscriber_is_added_looked_at_given_a_new_secret_and_removed() {
    let Some((_database, serving, mut browser)) = console("a_subscriber_is_added", 0) else { return };
    browser.until("document.querySelector('[aria-label=\"Show shop\"]')");
    browser.value("document.querySelector('#new-subscriber').focus()");
    browser.press("Enter");
    browser.type_in("add", "name", "new");
    browser.type_in("add", "url", "http://127.0.0.1:9/");
    browser.type_in("add", "events", "order.*, a b");
    browser.click("#add [type=submit]");
    let refused = browser.until("document.querySelector('#add .bad')?.textContent");
    assert!(refused.as_str().unwrap().starts_with("events cannot be read"), "{refused}");
    browser.type_in("add", "events", "order.*, video.made");
    browser.type_in("add", "rate", "7/s");
    fits(&mut browser);
    browser.value("document.querySelector('#add [name=rate]').focus()");
    browser.press("Enter");
    let first = browser.until("document.querySelector('#add pre').textContent");
    assert!(first.as_str().unwrap().starts_with("whsec_"), "{first}");
    assert_eq!(browser.value("document.activeElement === document.querySelector('#add pre')"), true);
    fits(&mut browser);
    browser.click("#add [value=cancel]");
    browser.until(&format!("!document.documentElement.outerHTML.includes({first})"));
    let shown = serving.get("/v1/subscribers/new").json();
    assert_eq!(
        (&shown["events"], &shown["limit"]["rate"]),
        (&json!(["order.*", "video.made"]), &json!("7/s"))
    );
    browser.click("[aria-label='Show new']");
    let told = browser.until("document.querySelector('#subscriber[open]')?.innerText");
    let told = told.as_str().unwrap();
    assert!(told.contains("Gets: order.*, video.made at http://127.0.0.1:9/"), "{told}");
    assert!(told.contains("\"rate\": \"7/s\"") && told.contains("State: active"), "{told}");
    fits(&mut browser);
    browser.click("#to-rotate");
    browser.type_in("rotate", "overlap", "soon");
    browser.click("#rotate [type=submit]");
    browser.until("document.querySelector('#rotate .bad')?.textContent.startsWith('overlap cannot be read')");
    browser.type_in("rotate", "overlap", "2h");
    fits(&mut browser);
    // Two Escapes close the dialog before the answer comes.
    browser.value(
        "{ const real = fetch; window.fetch = (path, how) => path.endsWith('/rotate')
           ? new Promise((done) => { window.answer = () => done(real(path, how)); }) : real(path, how); }",
    );
    browser.click("#rotate [type=submit]");
    browser.until("window.answer");
    (0..2).for_each(|_| browser.press("Escape"));
    browser.value("window.answer()");
    browser
        .until("document.querySelector('#rotate').open && document.querySelector('#rotate pre').textContent");
    let second = browser.until("document.querySelector('#rotate pre').textContent");
    assert!(second.as_str().unwrap().starts_with("whsec_") && first != second, "{second}");
    let told = browser.value("document.querySelector('#rotate [role=status]').innerText");
    assert!(told.as_str().unwrap().contains("The old ones sign beside it until "), "{told}");
    fits(&mut browser);
    browser.press("Escape");
    browser.until(&format!("!document.documentElement.outerHTML.includes({second})"));
    browser.value("window.confirm = (question) => { window.asked = question; return true; }");
    browser.click("#to-remove");
    browser.until("document.querySelector('#said').innerText === 'new is removed'");
    assert_eq!(browser.value("asked"), "Remove new? Its waiting deliveries become dead letters.");
    assert_eq!(serving.get("/v1/subscribers/new").status, 404);
    browser.until("!document.querySelector('[aria-label=\"Show new\"]')");
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
    fits(&mut browser);
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
        fits(&mut browser);
        browser.value("document.querySelector('dialog[open]')?.close()");
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
#[ignore = "writes reports/page-console.png, which differs between fonts"]
fn sample() {
    let Some((database, _serving, mut browser)) = console("sample", 30) else { return };
    let answers = [("well", "204 x\r\n"), ("ill", "500 x\r\n")];
    let endpoints = answers.map(|(name, answer)| {
        let endpoint = Endpoint::answering(move |_| answer.to_owned());
        database.subscribe(name, &endpoint.url, &["breaker.failures=1", "breaker.failures_when_slow=1"]);
        endpoint
    });
    database.json(&["emit", "--type", "a", "--data", "1", "--json"]);
    for endpoint in &endpoints {
        endpoint.wait_for(1);
    }
    browser.width(1_000);
    browser.until("document.querySelector('#state').innerText === '▲ Subscribers held up: 2'");
    let light = json!({ "features": [{ "name": "prefers-color-scheme", "value": "light" }] });
    browser.call("Emulation.setEmulatedMedia", &light);
    let shot = browser.call("Page.captureScreenshot", &json!({ "format": "png" }));
    let picture = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
    let to = concat!(env!("CARGO_MANIFEST_DIR"), "/../reports/page-console.png");
    std::fs::write(to, picture).unwrap();
}
