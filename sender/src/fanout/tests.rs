use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::Sha256;

use super::*;
use crate::delivery_ids::DeliveryIds;
use crate::engine::Nanos;
use crate::engine::{DeliveryId, LaneId};
use crate::event::Limits;
use crate::event::shape::Region;
use crate::roster::{Roster, Row};
use crate::sign;
use crate::store::command::{Acquire, Claim, LaneSelection, Subscribe};
use crate::store::lane::{Bounds, LaneState, OwnerId, Pause, Retried, Secret, WhenFull};
use crate::store::read::{self, LiveSecret};
use crate::store::{Command, Database, Durability, Reply};
use crate::subscriber::RegionSecrets;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEWER: &str = "whsec_plJ3nmyCDGBKInavdOK15jsl2nEQrGVPZ0dGgYwbVjU=";
const NOW: StoreTime = StoreTime::from_secs(1_700_000_000);
const BOUNDS: Bounds = Bounds { rows_max: 10, bytes_max: 100_000, when_full: WhenFull::Refuse };

fn row(lane: u64, patterns: &Value, settings: &Value, secrets: &[(&str, Option<StoreTime>)]) -> Row {
    let subscriber = read::Subscriber {
        lane: LaneId(lane),
        id: format!("sub_{lane}").into(),
        name: format!("partner {lane}").into(),
        url: "https://partner.example/hook".into(),
        patterns: patterns.to_string().into(),
        settings: settings.to_string().into(),
        bounds: BOUNDS,
        state: LaneState::Active,
        version: lane,
        created: NOW,
        retried: Retried::default(),
        pause: Pause::default(),
    };
    let secret = |(text, retires): &(&str, _)| LiveSecret {
        secret: Secret::new(*text),
        created: NOW,
        retires: *retires,
    };
    Row { subscriber, secrets: secrets.iter().map(secret).collect() }
}

fn roster(settings: &[Value]) -> Roster {
    let region: Region = "DE".parse().unwrap();
    let secret = sign::Secret::parse("a-secret-of-the-region").unwrap();
    let rows: Vec<Row> = settings
        .iter()
        .zip(1..)
        .map(|(settings, lane)| row(lane, &json!(["*"]), settings, &[(SECRET, None)]))
        .collect();
    let roster = Roster::default().with(&rows, &RegionSecrets::default().with(region, secret));
    assert_eq!(roster.broken().map(|(_, fault)| fault.to_string()).collect::<Vec<_>>(), [""; 0]);
    roster
}

fn emit(roster: &Roster, offer: &str) -> Emit {
    let offer = Offer::parse(offer.as_bytes(), &Limits::default()).unwrap();
    fan_out(roster, &offer, &"evt_1".parse().unwrap(), NOW, NOW)
}

const OFFER: &str = r#"{"type":"video.trending","key":"v1","data":{"a":1,"b":{"c":"x"},"d":"UC-42"}}"#;

#[test]
fn only_an_id_that_was_made_for_the_event_is_new() {
    let roster = roster(&[json!({})]);
    assert!(emit(&roster, OFFER).id_is_new);
    assert!(!emit(&roster, r#"{"id":"evt_1","type":"video.trending","data":{}}"#).id_is_new);
}

#[test]
fn each_matching_subscriber_is_owed_the_event_by_its_own_terms() {
    let roster = roster(&[
        json!({}),
        json!({ "retry": { "ttl": "1h" }, "dedupe": "1h" }),
        json!({ "coalesce": [{ "events": "video.*", "window": "5s" }], "dedupe": "0s" }),
        json!({ "coalesce": [{ "events": "video.*", "window": "9s" }], "sign": "vvv-frozen" }),
    ]);
    let emit = emit(&roster, OFFER);
    assert_eq!(
        (emit.roster, &*emit.id, &*emit.kind, emit.key.as_deref()),
        (4, "evt_1", "video.trending", Some("v1"))
    );
    assert_eq!((emit.received, emit.outbox), (NOW, None));
    let dedupe = emit.targets.iter().map(|target| target.dedupe);
    assert_eq!(dedupe.collect::<Vec<_>>()[1..3], [Nanos::HOUR, Nanos::ZERO]);
    assert_eq!(emit.targets.iter().map(|target| target.lane.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let expires = emit.targets.iter().map(|target| target.expires.since(NOW));
    assert_eq!(expires.collect::<Vec<_>>(), [Nanos::DAY, Nanos::HOUR, Nanos::DAY, Nanos::DAY]);
    assert!(emit.targets.iter().all(|target| target.due == NOW));
    let windows = emit.targets.iter().map(|target| target.coalesce.as_ref().map(|coalesce| coalesce.window));
    assert_eq!(
        windows.collect::<Vec<_>>(),
        [None, None, Some(Nanos::from_secs(5)), Some(Nanos::from_secs(9))]
    );
    let names: BTreeSet<_> =
        emit.targets.iter().flat_map(|target| &target.coalesce).map(|c| &*c.key).collect();
    // hashlib.sha256(b"video.trending\0v1").hexdigest()[:32]
    assert_eq!(names, BTreeSet::from(["4b43c89db1fa3adfaa615e99fd775e75"]));
    let signed = emit.targets.iter().map(|target| target.signature.is_some());
    assert_eq!(signed.collect::<Vec<_>>(), [false, false, false, true]);
}

#[test]
fn an_event_that_nobody_wants_has_no_body() {
    let quiet = Roster::default()
        .with(&[row(1, &json!(["channel.*"]), &json!({}), &[(SECRET, None)])], &RegionSecrets::default());
    let emit = emit(&quiet, OFFER);
    assert_eq!((emit.targets.len(), emit.bodies.len(), emit.roster), (0, 0, 1));
}

#[test]
fn a_body_has_the_data_that_its_subscriber_may_see_and_the_hash_of_its_bytes() {
    let roster = roster(&[json!({}), json!({ "shape": { "allow": ["a"] } })]);
    let emit = emit(&roster, OFFER);
    let texts: Vec<_> = emit.bodies.iter().map(|body| std::str::from_utf8(&body.bytes).unwrap()).collect();
    let head = r#"{"id":"evt_1","type":"video.trending","timestamp":"2023-11-14T22:13:20.000Z","data":"#;
    assert_eq!(
        texts,
        [format!(r#"{head}{{"a":1,"b":{{"c":"x"}},"d":"UC-42"}}}}"#), format!(r#"{head}{{"a":1}}}}"#)]
    );
    // int(hashlib.sha256(texts[1]).hexdigest()[:16], 16)
    assert_eq!(emit.bodies[1].hash(), 0x853da20efee7e1f0);
}

fn pseudonymous() -> Value {
    json!({ "shape": { "pseudonymise": ["creator.id"], "region": "DE" } })
}

fn lanes(roster: &Roster, offer: &str) -> (Emit, Vec<u64>, Vec<u64>) {
    let emit = emit(roster, offer);
    let offer = Offer::parse(offer.as_bytes(), &Limits::default()).unwrap();
    let left_out = left_out(roster, &offer, &emit).iter().map(|lane| lane.0).collect();
    let targets = emit.targets.iter().map(|target| target.lane.0).collect();
    (emit, targets, left_out)
}

#[test]
fn an_event_that_pseudonyms_make_far_longer_than_events_may_be_leaves_out_whom_they_are_for() {
    let zeros = vec!["0"; 500_000].join(",");
    let offer = format!(r#"{{"type":"video.trending","data":{{"creator":{{"id":[{zeros}]}}}}}}"#);
    let roster = roster(&[pseudonymous(), json!({}), pseudonymous(), json!({ "shape": { "allow": ["a"] } })]);
    let (emit, targets, left_out) = lanes(&roster, &offer);
    assert_eq!((targets, left_out, emit.withheld), (vec![2, 4], vec![1, 3], true));
    let bytes: usize = emit.bodies.iter().map(|body| body.bytes.len()).sum();
    assert!(bytes < offer.len() + 500, "{bytes} bytes in {} bodies", emit.bodies.len());
}

#[test]
fn the_longest_event_fits_with_its_pseudonyms_and_what_is_shaped_for_one_event_is_bounded() {
    let offer = |bytes: usize| {
        let text = "x".repeat(bytes);
        format!(r#"{{"type":"video.trending","data":{{"creator":{{"id":0}},"text":"{text}"}}}}"#)
    };
    let longest = offer(Limits::EVENT_BYTES - offer(0).len());
    let several = roster(&vec![pseudonymous(); 3]);
    let (emit, targets, left_out) = lanes(&several, &longest);
    assert_eq!((targets, left_out, emit.withheld), (vec![1, 2, 3], vec![], false));
    let many = roster(&[vec![pseudonymous(); 50], vec![json!({})]].concat());
    let (emit, targets, left_out) = lanes(&many, &longest);
    let fit = SHAPED_BYTES_MAX / longest.len() - 1;
    assert_eq!((targets.len(), targets.last(), left_out.len()), (fit + 1, Some(&51), 50 - fit));
    assert_eq!((emit.bodies.len(), emit.withheld), (fit + 1, true));
    let (emit, targets, _) = lanes(&many, &offer(1_000));
    assert_eq!((targets.len(), emit.withheld), (51, false));
}

#[test]
fn a_small_shape_of_an_event_is_delivered_although_others_are_too_large() {
    let short = json!({ "shape": { "allow": ["a"] } });
    let others = |ids: usize, text: usize| {
        let (zeros, text) = (vec!["0"; ids].join(","), "x".repeat(text));
        let data = format!(r#"{{"creator":{{"id":[{zeros}]}},"text":"{text}","a":1}}"#);
        let roster = roster(&[vec![pseudonymous(); 40], vec![short.clone()]].concat());
        lanes(&roster, &format!(r#"{{"type":"video.trending","data":{data}}}"#))
    };
    let (_, targets, left_out) = others(500_000, 0);
    assert_eq!((targets, left_out.len()), (vec![41], 40), "it is too long for all others");
    let (_, targets, left_out) = others(1, 1_000_000);
    assert_eq!((targets.last(), targets.len() + left_out.len()), (Some(&41), 41));
    assert!(targets.len() > 30 && !left_out.is_empty(), "{} are too many", targets.len());
}

#[test]
fn an_event_that_is_emitted_at_the_end_of_time_expires_there() {
    let offer = Offer::parse(OFFER.as_bytes(), &Limits::default()).unwrap();
    let emit = fan_out(
        &roster(&[json!({})]),
        &offer,
        &"evt_1".parse().unwrap(),
        StoreTime(u64::MAX),
        StoreTime(u64::MAX),
    );
    assert_eq!(emit.targets[0].expires, StoreTime(u64::MAX));
}

fn claimed(emit: &Emit, target: usize) -> ClaimedRow {
    let target = &emit.targets[target];
    ClaimedRow {
        delivery: DeliveryId(7),
        attempts: 0,
        expires: target.expires,
        event: Arc::clone(&emit.id),
        kind: Arc::clone(&emit.kind),
        received: emit.received,
        body: emit.bodies[target.body].clone(),
        signature: target.signature.clone(),
    }
}

fn hmac_hex(key: &str, parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    let tag: [u8; 32] = mac.finalize().into_bytes().into();
    tag.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_frozen_signature_is_over_the_stored_body_and_the_same_on_every_attempt() {
    let settings = json!({ "sign": "vvv-frozen", "shape": { "allow": ["b"] } });
    let before = row(1, &json!(["*"]), &settings, &[(SECRET, None)]);
    let roster = Roster::default().with(&[before], &RegionSecrets::default());
    let row_of = claimed(&emit(&roster, OFFER), 0);
    let expected = hmac_hex(SECRET, &[&row_of.body.bytes]);
    assert_eq!(row_of.signature.as_deref(), Some(&*expected));
    let after = row(1, &json!(["*"]), &settings, &[(NEWER, None)]);
    let rotated = roster.with(&[after], &RegionSecrets::default());
    let id = DeliveryIds::new(0).name(row_of.received, row_of.delivery);
    for (roster, number, later) in [(&roster, 1, Nanos::ZERO), (&rotated, 2, Nanos::DAY)] {
        let ready = roster.get(LaneId(1)).unwrap().ready().unwrap();
        let headers = sign_attempt(ready, &id, &row_of, number, StoreTime(NOW.0 + later.0)).unwrap();
        let get = |name| headers.get(name).unwrap().to_owned();
        assert_eq!((get("x-vvv-signature"), get("x-vvv-attempt")), (expected.clone(), number.to_string()));
        assert_eq!((get("x-vvv-event"), get("x-vvv-subscriber")), ("video.trending".into(), "sub_1".into()));
        assert_eq!(get("x-vvv-delivery-id"), id.as_str());
    }
}

#[test]
fn a_signature_per_attempt_is_made_with_the_time_of_the_attempt() {
    let roster = roster(&[json!({ "sign": "vvv-timestamped" })]);
    let row = claimed(&emit(&roster, OFFER), 0);
    let ready = roster.get(LaneId(1)).unwrap().ready().unwrap();
    let id = DeliveryIds::new(0).name(row.received, row.delivery);
    let headers = sign_attempt(ready, &id, &row, 3, StoreTime::from_secs(1_700_000_060)).unwrap();
    let expected = hmac_hex(SECRET, &[b"1700000060.", &row.body.bytes]);
    assert_eq!(headers.get("x-vvv-signature"), Some(&*format!("sha256={expected}")));
}

#[test]
fn a_signature_over_the_url_is_over_the_subscribers() {
    use base64::Engine as _;
    let roster = roster(&[json!({ "sign": "square" })]);
    let row = claimed(&emit(&roster, OFFER), 0);
    let ready = roster.get(LaneId(1)).unwrap().ready().unwrap();
    let id = DeliveryIds::new(0).name(row.received, row.delivery);
    let headers = sign_attempt(ready, &id, &row, 1, NOW).unwrap();
    let expected = hmac_hex(SECRET, &[b"https://partner.example/hook", &row.body.bytes]);
    let written = headers.get("x-square-hmacsha256-signature").unwrap();
    let tag = base64::engine::general_purpose::STANDARD.decode(written).unwrap();
    assert_eq!(tag.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
}

/// printf %s "https://partner.example/hook?bodySHA256=…" | openssl dgst -sha1 -hmac "$SECRET" -binary | base64
#[test]
fn a_signature_over_the_digest_of_the_body_comes_with_it_in_the_query() {
    use sha2::Digest as _;
    let roster = roster(&[json!({ "sign": "twilio" })]);
    let row = claimed(&emit(&roster, OFFER), 0);
    let ready = roster.get(LaneId(1)).unwrap().ready().unwrap();
    let id = DeliveryIds::new(0).name(row.received, row.delivery);
    let headers = sign_attempt(ready, &id, &row, 1, NOW).unwrap();
    let digest: String =
        sha2::Sha256::digest(&row.body.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(headers.query(), format!("?bodySHA256={digest}"));
    assert_eq!(headers.get("x-twilio-signature").map(str::len), Some(28));
}

#[test]
fn a_damaged_row_is_told_apart_from_one_that_was_never_signed() {
    let roster = roster(&[json!({ "sign": "vvv-frozen" })]);
    let good = claimed(&emit(&roster, OFFER), 0);
    let ready = roster.get(LaneId(1)).unwrap().ready().unwrap();
    let id = DeliveryIds::new(0).name(good.received, good.delivery);
    let sign = |row: &ClaimedRow| sign_attempt(ready, &id, row, 1, NOW).map(|headers| headers.iter().count());
    for signature in ["", "x", &"0".repeat(63), &"G".repeat(64), &"é".repeat(32), &"0".repeat(65)] {
        let row = ClaimedRow { signature: Some(signature.into()), ..good.clone() };
        assert_eq!(sign(&row), Err(UnusableRow::Signature), "{signature}");
    }
    let row = ClaimedRow { kind: "a b".into(), ..good.clone() };
    assert!(matches!(sign(&row), Err(UnusableRow::EventType(_))));
    assert_eq!(sign(&ClaimedRow { signature: None, ..good }), Ok(5));
}

#[test]
fn the_store_hands_out_the_bodies_that_were_fanned_out() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::from(folder.path().join("store"));
    let mut store = database.parts().writer(Durability::default(), 1).unwrap();
    let subscribe = Subscribe {
        id: "sub_1".into(),
        name: "partner".into(),
        url: "https://partner.example".into(),
        patterns: r#"["*"]"#.into(),
        settings: r#"{"sign":"vvv-frozen"}"#.into(),
        bounds: BOUNDS,
        secret: Secret::new(SECRET),
    };
    store.commit(NOW, &[Command::Subscribe(subscribe)]).unwrap();
    let emit = emit(&roster(&[json!({ "sign": "vvv-frozen" })]), OFFER);
    let owner = OwnerId(1);
    let acquire = Acquire { owner, lease: Nanos::MINUTE, which: LaneSelection::All, homes: None, max: 1 };
    let replies = store.commit(NOW, &[Command::Emit(emit.clone()), Command::Acquire(acquire)]).unwrap();
    let Reply::Acquired(taken) = &replies[1] else { panic!("{replies:?}") };
    let claim = Claim { lane: taken[0].lane, term: taken[0].term, max: 1, bytes_max: u64::MAX };
    let replies = store.commit(NOW, &[Command::Claim(claim)]).unwrap();
    let Reply::Claimed(found) = &replies[0] else { panic!("{replies:?}") };
    let expected = ClaimedRow { delivery: found.rows[0].delivery, ..claimed(&emit, 0) };
    assert_eq!(found.rows, [expected]);
}

#[test]
fn secrets_show_in_nothing_that_is_handed_on() {
    let shape = json!({ "shape": { "pseudonymise": ["d"], "region": "DE" }, "sign": "vvv-frozen" });
    let emit = emit(&roster(&[shape]), OFFER);
    let body = std::str::from_utf8(&emit.bodies[0].bytes).unwrap();
    let shown = format!("{emit:?} {body}");
    for hidden in ["MfKQ9r8", "a-secret", "UC-42"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
}

proptest! {
    #[test]
    fn subscribers_share_a_body_exactly_when_their_shapes_agree(
        settings in prop::collection::vec(prop::sample::select(vec![
            json!({}),
            json!({ "timeout": "1s", "sign": "vvv-frozen" }),
            json!({ "shape": { "allow": ["a", "b.c"] } }),
            json!({ "shape": { "allow": ["b.c", "a", "a"] }, "sign": "stripe" }),
            json!({ "shape": { "allow": ["b"] } }),
            json!({ "shape": { "allow": [] } }),
            json!({ "shape": { "pseudonymise": ["d"], "region": "DE" } }),
        ]), 0..12),
    ) {
        let roster = roster(&settings);
        let offer = Offer::parse(OFFER.as_bytes(), &Limits::default()).unwrap();
        let id: PublicId = "evt_1".parse().unwrap();
        let emit = fan_out(&roster, &offer, &id, NOW, NOW);
        prop_assert_eq!(emit.targets.len(), settings.len());
        let shaping = |lane| &roster.get(lane).unwrap().ready().unwrap().agreement().shaping;
        for one in &emit.targets {
            let data = shaping(one.lane).apply(offer.data, usize::MAX).unwrap();
            let alone = event::Body::build(&id, &offer.event_type, NOW, data.json());
            prop_assert_eq!(&*emit.bodies[one.body].bytes, alone.as_bytes());
            for other in &emit.targets {
                let agree = shaping(one.lane).id() == shaping(other.lane).id();
                prop_assert_eq!(one.body == other.body, agree);
            }
        }
        let used: BTreeSet<usize> = emit.targets.iter().map(|target| target.body).collect();
        prop_assert_eq!(used, (0..emit.bodies.len()).collect::<BTreeSet<_>>());
    }
}
