pub(crate) mod any;
mod http2;
mod secure;
mod stage;

use std::io::Write as _;

use hookproof_judge::scenario::{Answer, Behaviour, Duration, Reply, RetryAfter, Size};
use hookproof_judge::trace::{CutKind, Record, Verified};

use stage::{BODY, Exchange, behaviour, during, play};

fn reply(status: u16) -> Reply {
    Reply { status, retry_after: None, body: Size(0), location: None }
}

fn cuts(records: &[Record]) -> Vec<(CutKind, bool)> {
    let cut = |record: &Record| match record {
        Record::Cut(cut) => Some((cut.how, cut.n.is_some())),
        _ => None,
    };
    records.iter().filter_map(cut).collect()
}

async fn check(answer: Answer, expected: Exchange, cut: Option<(CutKind, bool)>) {
    let (met, records) = play(&[behaviour(answer.clone())], 1).await;
    assert_eq!(met, [expected], "{answer:?}");
    assert_eq!(cuts(&records), cut.into_iter().collect::<Vec<_>>(), "{answer:?}");
}

#[tokio::test]
async fn an_endpoint_that_behaves_answers_204_and_records_the_arrival_before_the_answer() {
    let (met, records) = play(&[], 2).await;
    assert_eq!(met, [Exchange::Answered(204, String::new()), Exchange::Answered(204, String::new())]);
    let [Record::Arrival(one), Record::Answer(answer), Record::Arrival(two), Record::Answer(_)] =
        &records[..]
    else {
        panic!("{records:?}")
    };
    assert_eq!((one.n, two.n, one.connection == two.connection), (0, 1, true));
    assert!(one.t <= one.read && one.read <= answer.t && answer.t <= answer.end && answer.whole);
    assert_eq!(one.bytes, u64::try_from(BODY.len()).unwrap());
    assert_eq!(one.token, Some(7));
    assert!(matches!(one.signed.verified, Verified::Unchecked(_)), "{:?}", one.signed);
}

#[tokio::test]
async fn a_compressed_body_counts_as_its_event_and_its_bytes_as_they_came() {
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    zipped.write_all(BODY.as_bytes()).unwrap();
    let body = zipped.finish().unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let records = stage::write_at_once(&[], &[head.as_bytes(), &body].concat()).await;
    let Some(Record::Arrival(one)) = records.first() else { panic!("{records:?}") };
    assert_eq!((one.token, one.bytes), (Some(7), u64::try_from(body.len()).unwrap()));
}

#[tokio::test]
async fn statuses_come_with_what_the_scenario_gives_them() {
    let reply = Reply { retry_after: Some(RetryAfter::Seconds(3)), body: Size(70_000), ..reply(503) };
    let (met, records) = play(&[behaviour(Answer::Status(reply))], 1).await;
    let [Exchange::Answered(503, rest)] = &met[..] else { panic!("{met:?}") };
    assert!(rest.contains("retry-after: 3") && rest.ends_with(&"x".repeat(70_000)), "{} bytes", rest.len());
    assert!(matches!(&records[1], Record::Answer(one) if one.retry_after.as_deref() == Some("3")));
}

#[tokio::test]
async fn an_answer_that_nobody_reads_ends_when_that_is_seen() {
    let huge = behaviour(Answer::HugeAnswer { body: Size(64 << 20) });
    let (records, here) = stage::read_a_part(&[huge], 1 << 20).await;
    let [_, Record::Answer(answer)] = &records[..] else { panic!("{records:?}") };
    assert!(!answer.whole && answer.t < here && here <= answer.end, "{here} {answer:?}");
}

#[tokio::test]
async fn a_connection_ends_in_each_of_its_ways() {
    check(Answer::Reset, Exchange::Reset, Some((CutKind::Reset, false))).await;
    check(Answer::ResetAfterRead, Exchange::Reset, Some((CutKind::ResetAfterRead, true))).await;
    check(Answer::Close, Exchange::Closed(String::new()), Some((CutKind::Close, true))).await;
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of what was prom".to_owned();
    check(Answer::HalfAnswer, Exchange::Closed(half), Some((CutKind::HalfAnswer, true))).await;
    check(Answer::Blackhole, Exchange::Silence, Some((CutKind::Blackhole, true))).await;
}

#[tokio::test]
async fn a_closed_port_refuses_and_opens_again() {
    let refuses = during(Answer::Refuse, 0, 300);
    let (met, records) = play(&[refuses], 1).await;
    assert_eq!(met, [Exchange::Refused]);
    assert_eq!(records, []);
    let (met, _) = stage::play_at(&[during(Answer::Refuse, 0, 100)], 1, 400).await;
    assert_eq!(met, [Exchange::Answered(204, String::new())]);
}

#[tokio::test]
async fn a_stalled_endpoint_reads_nothing_and_then_everything() {
    let (met, records) = play(&[during(Answer::Stall, 0, 200)], 1).await;
    assert_eq!(met, [Exchange::Answered(204, String::new())]);
    assert!(matches!(&records[0], Record::Arrival(one) if one.t >= 200_000_000), "{records:?}");
}

#[tokio::test]
async fn an_attempt_that_was_read_to_be_told_from_others_waits_for_the_end_of_a_stall() {
    let twice =
        Behaviour { attempts: Some("1..2".parse().unwrap()), ..behaviour(Answer::Status(reply(500))) };
    let (met, records) = play(&[twice, during(Answer::Stall, 0, 300)], 3).await;
    let statuses: Vec<_> = met.iter().map(Exchange::status).collect();
    assert_eq!(statuses, [Some(500), Some(500), Some(204)]);
    assert!(matches!(records.last(), Some(Record::Answer(one)) if one.t >= 300_000_000), "{records:?}");
}

#[tokio::test]
async fn an_answer_drips_and_a_huge_one_is_huge() {
    let (met, _) = play(&[behaviour(Answer::Drip { pace: Duration(1) })], 1).await;
    assert!(matches!(&met[..], [Exchange::Answered(200, _)]), "{met:?}");
    let body = Size(3 << 20);
    let (met, records) = play(&[behaviour(Answer::HugeAnswer { body })], 1).await;
    let [Exchange::Answered(200, rest)] = &met[..] else { panic!("a huge answer") };
    assert!(rest.len() > 3 << 20);
    assert!(matches!(&records[1], Record::Answer(one) if one.whole));
}

#[tokio::test]
async fn a_limit_of_its_own_is_enforced() {
    let limit = "2/h".parse().unwrap();
    let (met, _) = play(&[behaviour(Answer::Enforce { limit, burst: 2 })], 3).await;
    let statuses: Vec<_> = met.iter().map(Exchange::status).collect();
    assert_eq!(statuses, [Some(204), Some(204), Some(429)]);
    assert!(matches!(&met[2], Exchange::Answered(_, rest) if rest.contains("retry-after: 1800")), "{met:?}");
}

#[tokio::test]
async fn only_the_named_attempts_of_a_delivery_fail() {
    let twice =
        Behaviour { attempts: Some("1..2".parse().unwrap()), ..behaviour(Answer::Status(reply(500))) };
    let (met, _) = play(&[twice], 4).await;
    let statuses: Vec<_> = met.iter().map(Exchange::status).collect();
    assert_eq!(statuses, [Some(500), Some(500), Some(204), Some(204)]);
}

#[tokio::test]
async fn a_request_open_at_the_end_of_the_run_is_recorded_as_open() {
    let records = stage::abandon(&[behaviour(Answer::Blackhole)]).await;
    assert_eq!(cuts(&records), [(CutKind::RunEnded, true)]);
}

#[tokio::test]
async fn a_peer_that_gives_up_before_the_answer_is_recorded_as_gone() {
    let slow = Behaviour { latency: Some("1h".parse().unwrap()), ..behaviour(Answer::Status(reply(200))) };
    let (met, records) = play(&[slow], 1).await;
    assert_eq!(met, [Exchange::Silence]);
    assert_eq!(cuts(&records), [(CutKind::PeerGone, true)]);
}

fn begun(records: &[Record]) -> Vec<u64> {
    let began = |record: &Record| match record {
        Record::Arrival(arrival) => Some(arrival.t),
        Record::Cut(cut) => cut.began,
        _ => None,
    };
    records.iter().filter_map(began).collect()
}

#[tokio::test]
async fn requests_that_are_written_at_once_arrive_at_once_however_late_they_are_answered() {
    let slow = Behaviour { latency: Some("20ms".parse().unwrap()), ..behaviour(Answer::Status(reply(200))) };
    let records = stage::write_at_once(&[slow], stage::request().repeat(45).as_bytes()).await;
    let begun = begun(&records);
    assert_eq!(begun.len(), 45);
    let answered = records.iter().find_map(|record| match record {
        Record::Answer(answer) => Some(answer.t),
        Record::Cut(cut) => Some(cut.t),
        _ => None,
    });
    assert!(begun.iter().all(|t| Some(*t) < answered), "{begun:?} and the first end at {answered:?}");
}

#[tokio::test]
async fn pipelined_requests_behind_the_last_answered_one_are_recorded() {
    let bytes = format!("{}{}", stage::request().repeat(3), "POST / HTTP/1.1\r\ncontent-le");
    let records = stage::write_at_once(&[behaviour(Answer::Close)], bytes.as_bytes()).await;
    assert_eq!(begun(&records).len(), 4, "{records:?}");
    let close = |whole| (CutKind::Close, whole);
    assert_eq!(cuts(&records), [close(true), close(true), close(true), close(false)]);
}

#[tokio::test]
async fn a_request_that_breaks_off_or_is_none_is_recorded_with_its_first_byte() {
    let request = stage::request();
    for (bytes, how) in [
        (&request[..request.len() - 3], CutKind::PeerGone),
        ("POST / HT", CutKind::PeerGone),
        ("\u{16}\u{3}\u{1}\u{2}", CutKind::Malformed),
    ] {
        let records = stage::write_at_once(&[], bytes.as_bytes()).await;
        assert_eq!(cuts(&records), [(how, false)], "{bytes:?}");
        assert_eq!(begun(&records).len(), 1, "{bytes:?}");
    }
}

fn flaw(record: &Record) -> Option<&str> {
    match record {
        Record::Arrival(arrival) => arrival.head.forbidden.as_deref(),
        Record::Cut(cut) => cut.why.as_deref(),
        _ => None,
    }
}

#[tokio::test]
async fn a_request_that_http_forbids_is_answered_where_it_can_be_read_and_recorded_with_its_flaw() {
    let right = stage::request();
    for (bytes, expected, answered) in [
        (right.clone(), None, true),
        (right.replace("host", "x-host"), Some("it names no host"), true),
        (right.replace("\r\n", "\n"), Some("bare LF"), true),
        (
            right.replace("host: a", &format!("host: a\r\ncontent-length: {}", BODY.len())),
            Some("several"),
            true,
        ),
        (right.replace("content-length", "x: 1\r\n 2\r\ncontent-length"), Some("folding"), false),
        (right.replace("content-length", "x : 1\r\ncontent-length"), Some("precedes the colon"), false),
        (right.replace("content-length", "x: \0\r\ncontent-length"), Some("control character"), false),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n+1\r\n2\r\n0\r\n\r\n".to_owned(),
            Some("a chunk's length"),
            true,
        ),
    ] {
        let records = stage::write_at_once(&[], bytes.as_bytes()).await;
        let (found, is_answered) = (
            records.iter().filter_map(flaw).collect::<Vec<_>>(),
            records.iter().any(|one| matches!(one, Record::Arrival(_))),
        );
        let is_right = found.len() == usize::from(expected.is_some())
            && found.iter().all(|flaw| flaw.contains(expected.unwrap_or_default()));
        assert!(is_right && is_answered == answered, "{bytes:?}: {found:?}, expected {expected:?}");
    }
}

#[tokio::test]
async fn a_request_that_is_reset_before_it_is_looked_at_is_known_by_its_token() {
    let (_, records) = play(&[behaviour(Answer::Reset)], 1).await;
    let [Record::Cut(cut)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((cut.how, cut.token, cut.began.is_some()), (CutKind::Reset, Some(7), true));
}

#[tokio::test]
async fn a_secret_that_two_endpoints_have_is_told_and_not_shown() {
    let records = stage::with_one_secret(3).await;
    let shared = |record: &Record| match record {
        Record::SharedSecret(one) => Some((one.endpoint.clone(), one.with.clone())),
        _ => None,
    };
    let pairs: Vec<_> = records.iter().filter_map(shared).collect();
    assert_eq!(pairs, [("b".to_owned(), "a".to_owned()), ("c".to_owned(), "a".to_owned())]);
}

#[tokio::test]
async fn a_thousand_endpoints_answer_each_for_itself() {
    assert_eq!(stage::many(1_000).await, 1_000);
}
