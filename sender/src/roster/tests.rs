use proptest::prelude::*;

use super::*;
use crate::engine::StoreTime;
use crate::event::shape::Region;
use crate::event::{EventPatterns, Pattern};
use crate::store::command::{Change, Rotate, Subscribe};
use crate::store::lane::{Bounds, Pause, Secret, WhenFull};
use crate::store::{Command, Database, Durability};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BOUNDS: Bounds = Bounds { rows_max: 10, bytes_max: 1_000, when_full: WhenFull::Refuse };

fn row(lane: u64, version: u64, patterns: &str) -> Row {
    let subscriber = read::Subscriber {
        lane: LaneId(lane),
        id: format!("sub_{lane}").into(),
        name: format!("partner {lane}").into(),
        url: "https://partner.example/hook?token=t0ken".into(),
        patterns: patterns.into(),
        settings: "{}".into(),
        bounds: BOUNDS,
        state: LaneState::Active,
        version,
        created: StoreTime(0),
        retried: Retried::default(),
        pause: Pause::default(),
    };
    Row { subscriber, secrets: vec![live(SECRET, None)] }
}

fn live(secret: &str, retires: Option<StoreTime>) -> LiveSecret {
    LiveSecret { secret: Secret::new(secret), created: StoreTime(0), retires }
}

fn roster(rows: &[Row]) -> Roster {
    Roster::default().with(rows, &RegionSecrets::default())
}

fn lanes(roster: &Roster, event_type: &str) -> Vec<u64> {
    roster.matching(&event_type.parse().unwrap(), None).into_iter().map(|(lane, _)| lane.0).collect()
}

#[test]
fn an_event_reaches_those_who_want_its_type_in_the_order_of_their_lanes() {
    let roster = roster(&[
        row(3, 1, r#"["*"]"#),
        row(1, 2, r#"["video.*", "video.trending"]"#),
        row(2, 3, r#"["video.trending", "channel.new"]"#),
        row(4, 4, r#"["video.rank.*"]"#),
    ]);
    assert_eq!(lanes(&roster, "video.trending"), [1, 2, 3]);
    assert_eq!(lanes(&roster, "video.rank.updated"), [1, 3, 4]);
    assert_eq!(lanes(&roster, "channel.new"), [2, 3]);
    assert_eq!(lanes(&roster, "video"), [3]);
    assert_eq!((roster.version(), roster.lanes().count()), (4, 4));
}

#[test]
fn a_change_replaces_what_was_there_and_leaves_the_roster_before_as_it_was() {
    let before = roster(&[row(1, 1, r#"["a"]"#), row(2, 2, r#"["a"]"#)]);
    let mut removed = row(2, 4, r#"["a"]"#);
    removed.subscriber.state = LaneState::Removed;
    removed.secrets.clear();
    let after = before.with(&[row(1, 3, r#"["b"]"#), removed], &RegionSecrets::default());
    assert_eq!((lanes(&before, "a"), lanes(&before, "b")), (vec![1, 2], vec![]));
    assert_eq!((lanes(&after, "a"), lanes(&after, "b")), (vec![], vec![1]));
    assert_eq!((after.version(), after.get(LaneId(2)).is_none()), (4, true));
}

#[test]
fn events_are_recorded_for_a_paused_subscriber_and_not_for_a_disabled_one() {
    let rows = [(LaneState::Active, 1, true), (LaneState::Paused, 1, false), (LaneState::Disabled, 0, false)];
    for (state, recorded, sendable) in rows {
        let mut row = row(1, 1, r#"["a"]"#);
        row.subscriber.state = state;
        let roster = roster(&[row]);
        assert_eq!(lanes(&roster, "a").len(), recorded, "{state:?}");
        assert_eq!(roster.get(LaneId(1)).unwrap().is_sendable(), sendable, "{state:?}");
    }
}

/// With the expected message.
type Spoilt = (fn(&mut Row), &'static str);

#[test]
fn a_row_that_makes_no_sense_is_kept_with_the_reason_and_sent_nothing() {
    let rows: [Spoilt; 10] = [
        (|row| row.subscriber.id = "a b".into(), "the id has ' ' at byte 1"),
        (|row| row.subscriber.patterns = "[]".into(), "expected at least one"),
        (|row| row.subscriber.patterns = "x".into(), "its event patterns cannot be read"),
        (|row| row.subscriber.settings = r#"{"newer":1}"#.into(), "the settings have no field \"newer\""),
        (|row| row.subscriber.settings = "{".into(), "its settings do not hold: the settings cannot be read"),
        (
            |row| row.subscriber.settings = r#"{"shape":{"pseudonymise":["a"],"region":"DE"}}"#.into(),
            "region has no secret",
        ),
        (|row| row.subscriber.url = "ftp://partner.example".into(), "scheme is \"ftp\""),
        (|row| row.secrets.clear(), "it has no secret"),
        (|row| row.secrets = vec![live("a-plain-text-secret", None)], "the secret is a plain text"),
        (|row| row.secrets = vec![live(SECRET, None); 5], "5 keys would sign at once"),
    ];
    for (spoil, reason) in rows {
        let mut spoilt = row(1, 2, r#"["a"]"#);
        spoil(&mut spoilt);
        let roster = roster(&[row(2, 1, r#"["a"]"#), spoilt]);
        assert_eq!(lanes(&roster, "a"), [2], "{reason}");
        let broken: Vec<_> = roster.broken().collect();
        assert_eq!((broken.len(), broken[0].0.lane()), (1, LaneId(1)), "{reason}");
        assert!(broken[0].1.to_string().contains(reason), "{} for {reason}", broken[0].1);
        assert!(!broken[0].0.is_sendable());
        assert!(!format!("{roster:?} {}", broken[0].1).contains("plain-text-secret"));
    }
}

#[test]
fn another_endpoint_or_origin_is_another_permission() {
    let settings = |url: &str, origin: &str| {
        let mut row = row(1, 1, r#"["a"]"#);
        row.subscriber.url = url.into();
        row.subscriber.settings = format!(r#"{{"permission":{{"origin":{origin}}}}}"#).into();
        Arc::clone(roster(&[row]).get(LaneId(1)).unwrap().settings())
    };
    let known = settings("https://partner.example/a", r#""events.example""#);
    assert_eq!(known, settings("https://partner.example/a", r#""events.example""#));
    for other in [
        settings("https://partner.example/b", r#""events.example""#),
        settings("https://partner.example/a", r#""other.example""#),
        settings("https://partner.example/a", "null"),
    ] {
        assert_ne!(known, other);
    }
    let unasked = settings("https://partner.example/a", "null");
    assert_eq!((unasked.permission(), &unasked), (None, &settings("https://partner.example/b", "null")));
}

#[test]
fn a_mended_row_is_sent_to_again() {
    let mut spoilt = row(1, 1, r#"["a"]"#);
    spoilt.subscriber.settings = "[]".into();
    let broken = roster(&[spoilt]);
    let mended = broken.with(&[row(1, 2, r#"["a"]"#)], &RegionSecrets::default());
    assert_eq!((broken.broken().count(), lanes(&broken, "a").len()), (1, 0));
    assert_eq!((mended.broken().count(), lanes(&mended, "a").len()), (0, 1));
}

#[test]
fn an_event_that_a_broken_subscriber_wants_has_it_in_the_way() {
    let broken = |patterns: &str, state| {
        let mut row = row(1, 1, patterns);
        row.subscriber.settings = "[]".into();
        row.subscriber.state = state;
        roster(&[row])
    };
    let is_in_the_way = |roster: &Roster, event_type: &str| {
        roster
            .in_the_way(&event_type.parse().unwrap(), None)
            .is_some_and(|(known, _)| known.lane() == LaneId(1))
    };
    let wants_some = broken(r#"["order.*"]"#, LaneState::Active);
    assert!(is_in_the_way(&wants_some, "order.paid"));
    assert!(!is_in_the_way(&wants_some, "video.new"));
    let others = SubscriberNames::try_from(vec!["nobody".to_owned()]).unwrap();
    assert!(
        wants_some.in_the_way(&"order.paid".parse().unwrap(), Some(&others)).is_none(),
        "it is not meant"
    );
    assert!(is_in_the_way(&broken(r#"["order.*"]"#, LaneState::Paused), "order.paid"), "it is recorded for");
    assert!(!is_in_the_way(&broken(r#"["order.*"]"#, LaneState::Disabled), "order.paid"));
    assert!(is_in_the_way(&broken("nonsense", LaneState::Active), "video.new"), "it may want anything");
    let mended = wants_some.with(&[row(1, 2, r#"["order.*"]"#)], &RegionSecrets::default());
    assert!(!is_in_the_way(&mended, "order.paid"));
}

#[test]
fn settings_stay_the_same_arc_until_they_change() {
    let given = |version, settings: &str| {
        let mut row = row(1, version, r#"["a"]"#);
        row.subscriber.settings = settings.into();
        row
    };
    let rosters = [r#"{"dedupe":"2s"}"#, r#"{"dedupe":"3s"}"#, r#"{"limit":{"burst":2}}"#, "broken", "{}"];
    let mut roster = Roster::default();
    let settings = rosters.map(|text| {
        roster = roster.with(&[given(1, text)], &RegionSecrets::default());
        Arc::clone(roster.get(LaneId(1)).unwrap().settings())
    });
    let same = settings.windows(2).map(|pair| Arc::ptr_eq(&pair[0], &pair[1])).collect::<Vec<_>>();
    assert_eq!(same, [true, false, true, false]);
}

#[test]
fn a_lane_that_was_never_understood_is_held_to_the_strictest_contract() {
    let mut spoilt = row(1, 1, r#"["a"]"#);
    spoilt.subscriber.settings = "[]".into();
    let roster = roster(&[spoilt]);
    let subscriber = roster.get(LaneId(1)).unwrap();
    assert_eq!(subscriber.settings().contract().gap(), Nanos::DAY);
    assert_eq!(subscriber.deadline(), *SettingsText::TIMEOUT.end());
}

#[test]
fn an_address_that_is_out_of_bounds_does_not_lose_events() {
    for url in ["http://169.254.169.254/", "https://{tenant}.example.com/"] {
        let mut row = row(1, 1, r#"["a"]"#);
        row.subscriber.url = url.into();
        assert_eq!(lanes(&roster(&[row]), "a"), [1], "{url}");
    }
}

#[test]
fn neither_secrets_nor_urls_show() {
    let mut some = row(1, 1, r#"["a"]"#);
    some.subscriber.settings = r#"{"shape":{"pseudonymise":["a"],"region":"DE"}}"#.into();
    let region: Region = "DE".parse().unwrap();
    let secret = crate::sign::Secret::parse("a-secret-of-the-region").unwrap();
    let roster = Roster::default().with(&[some], &RegionSecrets::default().with(region, secret));
    let matching = roster.matching(&"a".parse().unwrap(), None);
    let shown = format!("{roster:?} {matching:?} {:?}", row(1, 1, "[]").secrets);
    assert_eq!(matching.len(), 1);
    for hidden in ["MfKQ9r8", "a-secret", "t0ken"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
}

const NOW: StoreTime = StoreTime::from_secs(1_700_000_000);

fn subscribe(number: u64) -> Command {
    let Row { subscriber, .. } = row(number, 0, r#"["a.*"]"#);
    let read::Subscriber { id, name, url, patterns, settings, bounds, .. } = subscriber;
    Command::Subscribe(Subscribe { id, name, url, patterns, settings, bounds, secret: Secret::new(SECRET) })
}

#[test]
fn a_keeper_reads_page_by_page_and_ends_where_the_store_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::from(folder.path().join("store"));
    let mut store = database.parts().writer(Durability::default(), 1).unwrap();
    let reader = database.parts().reader().unwrap();
    let mut keeper = RosterKeeper::new(RegionSecrets::default());
    assert_eq!(keeper.catch_up(&*reader, NOW).unwrap().version(), 0);

    let subscribers: Vec<Command> = (0..2_500).map(subscribe).collect();
    store.commit(NOW, &subscribers).unwrap();
    let roster = Arc::clone(keeper.catch_up(&*reader, NOW).unwrap());
    assert_eq!(roster.version(), reader.glance().unwrap().roster);
    assert_eq!(lanes(&roster, "a.b").len(), 2_500);
    assert!(Arc::ptr_eq(&roster, keeper.catch_up(&*reader, NOW).unwrap()), "nothing has changed");

    let some: Vec<LaneId> = roster.lanes().take(3).collect();
    let retire = StoreTime(NOW.0 + Nanos::DAY.0);
    let changes = [
        Command::Remove(some[0]),
        Command::Change(Change { patterns: Some(r#"["b"]"#.into()), ..Change::of(some[1]) }),
        Command::Rotate(Rotate {
            lane: some[2],
            secret: Secret::new("a-plain-text-secret"),
            retire,
            now: NOW,
        }),
    ];
    store.commit(NOW, &changes).unwrap();
    let roster = keeper.catch_up(&*reader, NOW).unwrap();
    assert_eq!(roster.version(), reader.glance().unwrap().roster);
    assert_eq!((lanes(roster, "a.b").len(), lanes(roster, "b").len()), (2_497, 1));
    assert_eq!(roster.broken().map(|(subscriber, _)| subscriber.lane()).collect::<Vec<_>>(), [some[2]]);
}

proptest! {
    #[test]
    fn matching_is_asking_everybody(
        changes in prop::collection::vec(
            (0_u64..12, prop::collection::vec("\\*|[ab.]{1,3}|[ab.]{1,3}\\.\\*", 1..4), 0_usize..6), 1..40),
        event_type in "[ab.]{1,5}",
        cut in 0_usize..40,
    ) {
        let states = [LaneState::Active, LaneState::Active, LaneState::Active, LaneState::Paused,
                      LaneState::Disabled, LaneState::Removed];
        let rows: Vec<Row> = changes.iter().zip(1..).map(|((lane, patterns, state), version)| {
            let mut row = row(*lane, version, &serde_json::to_string(patterns).unwrap());
            row.subscriber.state = states[*state];
            row
        }).collect();
        let mut expected = BTreeMap::new();
        for row in &rows {
            let patterns: EventPatterns = serde_json::from_str(&row.subscriber.patterns).unwrap();
            expected.insert(row.subscriber.lane.0, (patterns, row.subscriber.state));
        }
        let typed: EventType = event_type.parse().unwrap();
        let wants = |patterns: &EventPatterns| patterns.as_slice().iter().any(|pattern: &Pattern| pattern.matches(&typed));
        let expected: Vec<u64> = expected.iter()
            .filter(|(_, (patterns, state))| state.accepts() && wants(patterns))
            .map(|(lane, _)| *lane).collect();
        let (early, late) = rows.split_at(cut.min(rows.len()));
        let stepwise = roster(early).with(late, &RegionSecrets::default());
        prop_assert_eq!(lanes(&stepwise, &event_type), expected.clone());
        prop_assert_eq!(lanes(&roster(&rows), &event_type), expected);
    }
}
