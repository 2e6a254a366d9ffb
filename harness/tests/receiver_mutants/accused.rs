//! A case names a cause only if it excludes the others.

use hookproof::suite::{Report, Row, Selection};
use hookproof_judge::catalogue::{self, Verdict};

use crate::receiver_mutants::flaw::Flaw;
use crate::receiver_mutants::{judged_by, judged_in};

fn only(ids: &[&str]) -> Selection {
    let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
    Selection::new(catalogue::receiver(), &ids, &[]).unwrap()
}

fn row<'a>(report: &'a Report, id: &str) -> &'a Row {
    report.rows.iter().find(|row| row.id == id).unwrap()
}

#[track_caller]
fn check(report: &Report, id: &str, verdict: Verdict, came: &str) {
    let row = row(report, id);
    assert_eq!(row.verdict, verdict, "{id}: {}", row.came);
    assert!(row.came.contains(came), "{id}: {}", row.came);
}

#[test]
fn a_receiver_that_fails_repeats_is_not_told_that_it_cannot_read_signatures() {
    let selection = only(&["rotation", "time.resigned", "replay.exact", "replay.resigned", "replay.at-once"]);
    let report = judged_by(Some(Flaw::DuplicatesBreak), selection, true);
    check(&report, "rotation.malformed-first", Verdict::Pass, "204");
    check(&report, "replay.exact", Verdict::Fail, "the same again: 500");
    for id in ["time.resigned", "replay.resigned", "replay.at-once"] {
        check(&report, id, Verdict::Inconclusive, "exact repeats fail too (replay.exact)");
    }
}

#[test]
fn a_receiver_that_refuses_unknown_data_is_not_told_that_it_writes_json_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("particular"), "").unwrap();
    let selection = only(&["raw", "limit.20kb", "limit.1mb", "ack.unknown-type", "order", "replay.distinct"]);
    let report = judged_in(folder.path(), None, selection, true, "broken");
    for id in
        ["ack.unknown-type", "order.swapped", "replay.distinct", "raw.newline", "raw.chunked", "limit.1mb"]
    {
        check(&report, id, Verdict::Pass, "");
    }
    for id in ["raw.whitespace", "raw.key-order", "raw.escapes", "raw.numbers"] {
        check(&report, id, Verdict::Inconclusive, "422; without that: 422");
    }
}

/// RFC 9112, section 6.3, lets a server demand a Content-Length.
#[test]
fn a_receiver_that_demands_a_length_is_not_told_that_it_cannot_read_chunks() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lengths"), "").unwrap();
    let report = judged_in(folder.path(), None, only(&["raw"]), true, "broken");
    for id in ["raw.chunked", "raw.chunk-extensions"] {
        check(&report, id, Verdict::NotApplicable, "411 to every body in chunks");
    }
    assert_eq!(report.exit_code(), 0, "{}", report.table(hookproof_judge::report::Colours::No));
}

/// RFC 9110, section 15.6.2: the answer to a method that the server does not know.
#[test]
fn a_receiver_that_does_not_know_put_refuses_it_by_intent() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("unimplemented"), "").unwrap();
    let report = judged_in(folder.path(), None, only(&["raw.unread", "method.put"]), true, "broken");
    check(&report, "method.put", Verdict::Pass, "501");
    check(&report, "raw.unread", Verdict::Pass, "and 4xx to a forgery after it");
    assert_eq!(report.exit_code(), 0);
}

#[track_caller]
fn check_stories(flaw: Flaw, selected: &[&str], expected: &[(&str, &str, &[&str])]) {
    let report = judged_by(Some(flaw), only(selected), true);
    let stories = report.stories();
    let told: Vec<_> =
        stories.iter().map(|story| (story.wrong, story.remedy_of, story.cases.as_slice())).collect();
    assert_eq!(told, expected, "{flaw:?}");
}

#[test]
fn failures_with_one_cause_are_one_story() {
    const FORGED: &str = "forged requests are accepted: 2xx where 4xx is due";
    const UNSIGNED: &str = "unsigned requests are accepted: 2xx where 4xx is due";
    const STALE: &str = "stale or malformed requests are accepted: 2xx where 4xx is due";
    let json = ["whitespace", "key-order", "duplicate-keys", "escapes", "numbers", "newline"];
    let json = json.map(|name| format!("raw.{name}"));
    let json = json.each_ref().map(String::as_str);
    check_stories(
        Flaw::WritesJsonAgain,
        &["sig.body-bit", "raw"],
        &[("401 where 2xx is due", "raw.whitespace", &json[..])],
    );
    let forgeries = ["sig.wrong-secret", "sig.tag-bit", "sig.content-type", "sig.trust", "replay.poison"];
    check_stories(Flaw::NeverVerifies, &forgeries, &[(FORGED, "sig.wrong-secret", &forgeries[..])]);
    let unsigned = ["sig.missing", "sig.content-type", "sig.trust"];
    check_stories(Flaw::MissingIsFine, &["sig"], &[(UNSIGNED, "sig.missing", &unsigned[..])]);
    let repeats = ["replay.exact", "replay.at-once", "replay.resigned", "replay.same-id-new-body"];
    check_stories(Flaw::NoDedupe, &repeats, &[("more than one effect", "replay.exact", &repeats[..])]);
    let age = ["time.old", "time.unsigned"];
    check_stories(Flaw::NoAgeCheck, &["time"], &[(STALE, "time.old", &age[..])]);
    let ahead = ["time.future", "time.extreme"];
    check_stories(Flaw::NoFutureCheck, &["time"], &[(STALE, "time.future", &ahead[..])]);
    let empty = ["sig.empty", "time.empty"];
    check_stories(
        Flaw::ThrowsOnEmpty,
        &["sig", "time"],
        &[("500 where 4xx is due", "raw.not-json", &empty[..])],
    );
    let chunks = ["raw.chunked", "raw.chunk-extensions"];
    let report = judged_by(Some(Flaw::NeedsLength), only(&["raw"]), true);
    let stories = report.stories();
    assert_eq!((stories.len(), stories[0].remedy_of, &*stories[0].cases), (1, chunks[0], &chunks[..]));
}

#[test]
fn failures_with_causes_of_their_own_keep_their_remedies() {
    for (flaw, selected) in [
        (Flaw::AgeOfDate, ["time", "sig"]),
        (Flaw::TrustsProxy, ["sig", "raw"]),
        (Flaw::Races, ["replay.exact", "replay.at-once"]),
        (Flaw::FailsAfterwards, ["sig", "raw.not-json"]),
        (Flaw::NotAsciiBreaks, ["header", "raw"]),
        (Flaw::BareChunks, ["raw", "header.case"]),
        (Flaw::Unpacks, ["limit.gzip", "limit.deep"]),
    ] {
        check_stories(flaw, &selected, &[]);
    }
}

#[test]
fn a_receiver_that_loses_work_is_told_to_store_it_and_not_to_bound_it() {
    let report = judged_by(Some(Flaw::DropsWhenBusy), only(&["ack.overload"]), true);
    check(&report, "ack.overload", Verdict::Fail, "that were accepted were never processed");
    let remedy = &row(&report, "ack.overload").remedy;
    assert!(remedy.starts_with("commit each delivery before you answer it"), "{remedy}");
    let report = judged_by(Some(Flaw::BreaksUnderLoad), only(&["ack.overload"]), true);
    let remedy = &row(&report, "ack.overload").remedy;
    assert!(remedy.starts_with("bound the deliveries accepted at once"), "{remedy}");
}

#[test]
fn a_receiver_that_reads_bytes_as_text_is_not_told_that_it_unpacks_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("unencoded"), "").unwrap();
    let report = judged_in(folder.path(), Some(Flaw::NotUtf8Breaks), only(&["limit.gzip"]), true, "broken");
    check(&report, "limit.gzip", Verdict::Inconclusive, "500; without that: 500");
}

#[test]
fn a_receiver_that_fails_for_good_is_not_told_that_it_cannot_parse() {
    let folder = tempfile::tempdir().unwrap();
    let cause = || {
        let report =
            judged_in(folder.path(), Some(Flaw::NotUtf8Breaks), only(&["raw.not-utf8"]), true, "broken");
        check(&report, "raw.not-utf8", Verdict::Fail, "500");
        row(&report, "raw.not-utf8").cause.clone()
    };
    assert_eq!(cause().as_deref(), Some("raw.not-json"));
    std::fs::write(folder.path().join("falls"), "").unwrap();
    assert_eq!(cause(), None);
}

#[test]
fn the_repeated_request_of_a_leak_is_the_one_whose_answer_leaked() {
    let report = judged_by(Some(Flaw::TellsTrace), only(&["sig.wrong-secret", "leak.error-body"]), true);
    check(&report, "leak.error-body", Verdict::Fail, "\"signed with another secret\" contains a stack trace");
    let exchanges = &row(&report, "leak.error-body").exchanges;
    let repeated = exchanges.iter().find(|exchange| !exchange.met);
    assert_eq!(repeated.map(|exchange| &*exchange.label), Some("signed with another secret"));
}

#[test]
fn a_receiver_that_the_break_command_ends_is_not_said_to_lose_deliveries() {
    let folder = tempfile::tempdir().unwrap();
    let report = judged_in(folder.path(), None, only(&["replay.after-failure", "limit.deep"]), true, "ended");
    check(&report, "replay.after-failure", Verdict::Inconclusive, "the receiver ended: ");
    check(&report, "limit.deep", Verdict::Inconclusive, "not served since replay.after-failure");
}

/// As by `kill -STOP`.
#[test]
fn a_receiver_that_only_stops_for_a_while_is_not_said_to_survive_failures() {
    let folder = tempfile::tempdir().unwrap();
    let report = judged_in(folder.path(), None, only(&["replay.after-failure"]), true, "stopped");
    check(
        &report,
        "replay.after-failure",
        Verdict::Inconclusive,
        "no answer in time while broken: no 5xx was seen",
    );
    assert_eq!(report.exit_code(), 2);
}
