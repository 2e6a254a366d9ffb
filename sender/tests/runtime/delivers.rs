use std::collections::BTreeSet;
use std::time::Duration;

use hookproof_sender::store::command::Command;
use hookproof_sender::store::read::{Filter, Lanes};

use crate::runtime::sink::{Sink, status};
use crate::runtime::start::{emit, sender, subscribe};

const QUICK: &str = r#"{"limit": {"rate": "1000/s", "burst": 100}, "retry": {"base": "1ms", "cap": "2ms"}}"#;
const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn an_emitted_event_arrives_signed_with_its_data_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start(|_| status(204)).await;
    let sender = sender(folder.path()).await;
    subscribe(&sender, "one", &sink.url(), QUICK).await;
    let accepted = emit(&sender, r#"{"b": 1.0, "a": [1e2]}"#).await.unwrap();
    assert_eq!((accepted.deliveries, accepted.duplicates, accepted.shed), (1, 0, 0));
    let arrival = sink.arrived(1).await.remove(0);
    assert!(arrival.body.contains(r#""data":{"b": 1.0, "a": [1e2]}"#), "{}", arrival.body);
    assert!(arrival.body.contains(&*accepted.id), "{}", arrival.body);
    assert!(arrival.headers["webhook-signature"].starts_with("v1,"));
    assert!(arrival.headers["webhook-id"].starts_with("dlv_"));
    assert!(sender.stop(LONG).await);
    assert!(!format!("{:?}", sender.health()).contains("whsec"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_made_again_with_the_same_id_and_body_and_a_fresh_signature() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start(|nth| status(if nth < 2 { 503 } else { 204 })).await;
    let sender = sender(folder.path()).await;
    subscribe(&sender, "one", &sink.url(), QUICK).await;
    emit(&sender, "{}").await.unwrap();
    let arrivals = sink.arrived(3).await;
    let distinct = |of: fn(&crate::runtime::sink::Arrival) -> &str| {
        arrivals.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(distinct(|arrival| &arrival.body), 1);
    assert_eq!(distinct(|arrival| &arrival.headers["webhook-id"]), 1);
    assert!(sender.stop(LONG).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_events_to_three_subscribers_arrive_once_each() {
    let folder = tempfile::tempdir().unwrap();
    let sender = sender(folder.path()).await;
    let mut sinks = vec![];
    for name in ["one", "two", "three"] {
        let sink = Sink::start(|_| status(204)).await;
        subscribe(&sender, name, &sink.url(), QUICK).await;
        sinks.push(sink);
    }
    for n in 0..1_000 {
        emit(&sender, &n.to_string()).await.unwrap();
    }
    for sink in &sinks {
        let arrivals = sink.arrived(1_000).await;
        let ids: BTreeSet<_> = arrivals.iter().map(|arrival| &arrival.headers["webhook-id"]).collect();
        assert_eq!((arrivals.len(), ids.len()), (1_000, 1_000));
    }
    assert!(sender.stop(LONG).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_backlog_of_a_stopped_sender_is_delivered_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start(|_| status(204)).await;
    let first = sender(folder.path()).await;
    let slow = r#"{"limit": {"rate": "20/s", "burst": 1}}"#;
    subscribe(&first, "one", &sink.url(), slow).await;
    for n in 0..20 {
        emit(&first, &n.to_string()).await.unwrap();
    }
    assert!(first.stop(LONG).await);
    let second = sender(folder.path()).await;
    let arrivals = sink.arrived(20).await;
    assert!(second.stop(LONG).await);
    let ids: BTreeSet<_> = arrivals.iter().map(|arrival| &arrival.headers["webhook-id"]).collect();
    assert_eq!((arrivals.len(), ids.len()), (20, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_in_the_outbox_becomes_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start(|_| status(204)).await;
    let sender = sender(folder.path()).await;
    subscribe(&sender, "one", &sink.url(), QUICK).await;
    let application = rusqlite::Connection::open(folder.path().join("sender.db")).unwrap();
    let insert = "INSERT INTO outbox(type, key, data) VALUES ('video.trending', 'v1', '{\"n\": 1}')";
    application.execute(insert, []).unwrap();
    let arrival = sink.arrived(1).await.remove(0);
    assert!(arrival.body.contains(r#""data":{"n": 1}"#), "{}", arrival.body);
    assert!(sender.stop(LONG).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_disables_the_subscriber() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start(|_| status(410)).await;
    let sender = sender(folder.path()).await;
    let lane = subscribe(&sender, "one", &sink.url(), QUICK).await;
    let before = sender.roster().version();
    emit(&sender, "{}").await.unwrap();
    sink.arrived(1).await;
    sender.wait_for_roster_after(before).await;
    let subscriber = sender.roster().get(lane).cloned().unwrap();
    assert!(!subscriber.is_sendable());
    assert_eq!(emit(&sender, "{}").await.unwrap().deliveries, 0, "nothing more is recorded for it");
    assert!(sender.stop(LONG).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_subscriber_gets_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start(|_| status(204)).await;
    let sender = sender(folder.path()).await;
    let lane = subscribe(&sender, "one", &sink.url(), QUICK).await;
    let before = sender.roster().version();
    sender.command(Command::Remove(lane)).await.unwrap();
    sender.wait_for_roster_after(before).await;
    assert_eq!(emit(&sender, "{}").await.unwrap().deliveries, 0);
    let page = sender
        .read(|reader| reader.deliveries(Filter { lanes: Lanes::All, place: None }, None, 10))
        .await
        .unwrap()
        .unwrap();
    assert!(page.items.is_empty());
    assert!(sender.stop(LONG).await);
}
