use super::sweep::NOTED_AFTER;
use super::*;
use crate::Durability;
use crate::clock::{Beginning, Fault};
use crate::command::{
    Acquire, Body, Claim, Emit, LaneSelection, Purge, Reason, Shed, Subscribe, Sweep, Target,
};
use crate::engine::{DeliveryId, LaneId, Term};
use crate::held::Unread;
use crate::lane::{Bounds, Secret, WhenFull};
use crate::read::{Notices, Reader};
use crate::reply::{Claimed, Purged};

const NOW: StoreTime = StoreTime::from_secs(1_800_000_000);

fn open(options: Options) -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store =
        SqliteStore::open(&folder.path().join("store.db"), &Options { create: true, ..options }).unwrap();
    (folder, store)
}

fn subscribe() -> Command {
    Command::Subscribe(Subscribe {
        id: "sub".into(),
        name: "name".into(),
        url: "http://localhost/".into(),
        patterns: "[]".into(),
        settings: "{}".into(),
        bounds: Bounds { rows_max: 100, bytes_max: 1 << 20, when_full: WhenFull::Refuse },
        secret: Secret::new("x"),
    })
}

#[test]
fn durability_is_what_was_asked_for() {
    let check = |durability, synchronous: i64| {
        let (_folder, store) = open(Options { durability, ..Options::default() });
        let ask = |pragma: &str| store.sql.query_row(pragma, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(ask("PRAGMA synchronous"), synchronous);
        assert_eq!(ask("PRAGMA busy_timeout"), 5_000);
        // In pages, each a little larger than its content.
        assert!((1_900..2_048).contains(&ask("PRAGMA cache_spill")), "{}", ask("PRAGMA cache_spill"));
        let mode: String = store.sql.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    };
    check(Durability::default(), 2);
    check(Durability::PowerLoss, 2);
    check(Durability::Process, 1);
}

#[test]
fn a_store_that_may_not_be_written_says_so_and_recovers() {
    let (_folder, mut store) = open(Options::default());
    store.sql.execute_batch("PRAGMA query_only = ON").unwrap();
    let error = store.commit(NOW, &[subscribe()]).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }) && error.may_pass(), "{error}");
    store.sql.execute_batch("PRAGMA query_only = OFF").unwrap();
    assert_eq!(store.commit(NOW, &[subscribe()]), Ok(vec![Reply::Subscribed { lane: LaneId(1) }]));
}

/// A backlog slows no lane only with these plans.
#[test]
fn the_hot_queries_walk_an_index_and_sort_nothing() {
    let (_folder, store) = open(Options::default());
    let check = |query: &str, parameters: &[&dyn rusqlite::ToSql], expected: &str| {
        let mut explain = store.sql.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let steps: Vec<String> = explain
            .query_map(parameters, |row| row.get(3))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(steps.join("; "), expected);
    };
    check(claim::QUEUE, &[&1], "SEARCH deliveries USING COVERING INDEX deliveries_due (lane=?)");
    check(
        claim::QUEUE_FROM,
        &[&1, &2],
        "SEARCH deliveries USING COVERING INDEX deliveries_due (lane=? AND at>?)",
    );
    check(sweep::EXPIRING, &[], "SCAN expiring");
    check(
        emit::RECEIVED_BEFORE,
        &[&1, &2],
        "SEARCH e USING INDEX events_id (id=?); SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    );
    check(
        reader::figures::ATTEMPTS_BEGUN,
        &[&1, &2, &3],
        "SEARCH attempts USING PRIMARY KEY (at>? AND at<?)",
    );
}

/// A statement that is compiled for each value costs ten times the rest of a claim.
#[test]
fn statements_are_compiled_once() {
    use rusqlite::StatementStatus::RePrepare;
    let (_folder, mut store) = open(Options::default());
    store.commit(NOW, &[subscribe(), acquire()]).unwrap();
    for number in 0..20_u64 {
        let claim = Claim { max: 1, ..claim() };
        let commands = [emit(number), Command::Claim(claim)];
        let replies = store.commit(StoreTime(NOW.0 + number), &commands).unwrap();
        assert!(matches!(&replies[1], Reply::Claimed(claimed) if claimed.rows.len() == 1), "{replies:?}");
    }
    for statement in [claim::QUEUE_FROM, claim::ROW, content::EVENT, content::FURTHER_BODY] {
        let compiled_again = store.sql.prepare_cached(statement).unwrap().get_status(RePrepare);
        assert_eq!(compiled_again, 0, "{statement}");
    }
}

#[test]
fn nothing_is_deleted_for_its_age_before_the_wall_clock_says_so_where_the_time_is_kept_ahead() {
    let (_folder, mut store) = open(Options::default());
    let shed = Command::Shed(Shed { lane: LaneId(1), max: 1 });
    store.commit(NOW, &[subscribe(), emit(1), shed]).unwrap();
    let ahead = after(Nanos::DAY);
    store.commit(ahead, &[emit(2)]).unwrap();
    let beginning = Beginning { wall: NOW, machine: None, alone: false, back_max: Nanos::DAY };
    assert_eq!(store.begin_clock(beginning).unwrap().fault, Some(Fault::Kept(Nanos::DAY)));
    let mut purge = |now: StoreTime| {
        let hour_ago = StoreTime(now.0 - Nanos::HOUR.0);
        let all =
            Purge { settled_before: hour_ago, attempts_before: hour_ago, dead_before: hour_ago, max: 99 };
        store.commit(now, &[Command::Purge(all)]).unwrap()
    };
    assert_eq!(purge(ahead), [Reply::Purged(Purged::default())], "the letter is a moment old");
    let later = StoreTime(ahead.0 + Nanos::HOUR.times(2).0);
    assert!(matches!(purge(later)[..], [Reply::Purged(Purged { dead: 1, events: 1, .. })]));
}

#[test]
fn a_delivery_that_the_disk_does_not_give_is_passed_over_for_a_while() {
    let (folder, mut store) = open(Options::default());
    store.commit(NOW, &[subscribe(), acquire(), emit(1)]).unwrap();
    let large = Body { bytes: vec![b'x'; 20_000].into() };
    store.commit(NOW, &[emit_body(2, large)]).unwrap();
    let mut claimer = store.claimer().unwrap().unwrap();
    store.commit(NOW, &[Command::Claim(Claim { max: 0, ..claim() })]).unwrap();
    // The log's last page belongs to the large body, and the claimer has not read it yet.
    let log = std::fs::OpenOptions::new().write(true).open(folder.path().join("store.db-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 4_096).unwrap();
    let mut ask = |now: StoreTime| {
        let claimed = claimer.claim(now, &[claim()]).unwrap().unwrap().remove(0);
        (numbers(&claimed), claimed.next)
    };
    assert_eq!(ask(NOW), (vec![1], Some(after(Unread::PAUSE))));
    assert_eq!(ask(after(Nanos(1))), (vec![], Some(after(Unread::PAUSE))), "it is not asked for meanwhile");
    let again = after(Unread::PAUSE);
    assert_eq!(ask(again), (vec![], Some(StoreTime(again.0 + Unread::PAUSE.0))));
    // The next commit stops them again.
    store.sql.execute_batch("PRAGMA shrink_memory").unwrap();
    let later = after(Nanos::HOUR);
    let commands = [Command::Claim(claim())];
    let error = store.commit(later, &commands).unwrap_err();
    assert!(matches!(error, StoreError::Io { doing: "claim deliveries", .. }), "{error}");
    assert!(store.commit(later, &commands).is_ok());
}

#[test]
fn a_delivery_whose_own_row_makes_no_sense_stops_neither_its_lane_nor_any_sweep() {
    for damage in
        ["attempts = -1", "bytes = -5", "expires = -7, attempts = -1", "at = -1, attempts = 1 << 40"]
    {
        let (folder, mut store) = open(Options::default());
        store.commit(NOW, &[subscribe(), acquire(), emit(1), emit(2), emit(3)]).unwrap();
        let reader = SqliteReader::open(&folder.path().join("store.db")).unwrap();
        store.sql.execute_batch(&format!("UPDATE deliveries SET {damage} WHERE delivery < 3")).unwrap();
        assert_eq!(reader.missing_parts(DeliveryId(0)).unwrap().rows, 2, "{damage}");
        store.sql.execute_batch("UPDATE deliveries SET expires = 1 WHERE delivery = 1").unwrap();
        let swept = store.commit(NOW, &[Command::Sweep(Sweep { max: 10 })]).unwrap();
        assert!(matches!(&swept[..], [Reply::Swept(swept)] if swept.expired > 0), "{damage}: {swept:?}");
        let replies = store.commit(NOW, &[Command::Claim(claim())]).unwrap();
        let [Reply::Claimed(claimed)] = &replies[..] else { panic!("{damage}: {replies:?}") };
        let handed_out = numbers(claimed);
        let dead = reader.dead(None, None, 10).unwrap().items;
        assert_eq!(handed_out.len() + dead.len(), 3, "{damage}: {handed_out:?} {dead:?}");
        assert!(handed_out.contains(&3), "{damage}: {handed_out:?}");
        assert!(dead.iter().all(|letter| letter.reason == Reason::Unreadable), "{damage}: {dead:?}");
        let shed = Command::Shed(Shed { lane: LaneId(1), max: 10 });
        assert!(store.commit(NOW, &[shed]).is_ok(), "{damage}");
    }
}

/// Recording expiry costs more than a delivery, so it happens only for deliveries that wait.
#[test]
fn when_a_delivery_expires_is_noted_once_it_has_waited_and_what_expires_sooner_is_given_up_in_time() {
    let (_folder, mut store) = open(Options::default());
    let step = Nanos::from_millis(500);
    store.commit(NOW, &[subscribe(), sweep()]).unwrap();
    let short = [Nanos::SECOND, NOTED_AFTER, Nanos::from_secs(15), NOTED_AFTER.times(2)];
    let mut emits: Vec<_> =
        short.iter().zip(1..).map(|(ttl, number)| emit_until(number, after(*ttl))).collect();
    emits.push(emit_until(9, after(Nanos(NOTED_AFTER.0 * 2 + 1))));
    emits.push(emit_until(10, after(Nanos::HOUR)));
    store.commit(NOW, &emits).unwrap();
    let mut given_up = Vec::new();
    for steps in 1..=80 {
        let now = Nanos(step.0 * steps);
        let replies = store.commit(after(now), &[sweep()]).unwrap();
        let [Reply::Swept(swept)] = &replies[..] else { panic!("{replies:?}") };
        given_up.extend((0..swept.expired).map(|_| now));
        let noted = "SELECT count(*) FROM expiring WHERE delivery > 4";
        let noted: u64 = store.sql.query_row(noted, [], |row| row.get(0)).unwrap();
        assert_eq!(noted > 0, now >= NOTED_AFTER, "{now}: {noted}");
    }
    assert_eq!(given_up, [&short[..], &[Nanos(NOTED_AFTER.0 * 2 + step.0)]].concat());
}

#[test]
fn a_damaged_page_among_deliveries_that_no_sweep_has_seen_keeps_none_of_the_others_from_expiring() {
    const COUNT: u64 = 900;
    let (folder, mut store) = open(Options::default());
    let path = folder.path().join("store.db");
    // Its neighbours live longer: changing them would change its page too.
    let stays = COUNT / 3..COUNT / 3 * 2;
    emit_many(&mut store, COUNT, |number| if stays.contains(&number) { Nanos::DAY } else { Nanos::HOUR });
    drop(store);
    damage_row(&path, COUNT / 2, &[1, COUNT]);
    let mut store = SqliteStore::open(&path, &Options::default()).unwrap();
    let mut expired = 0;
    for _ in 0..COUNT {
        // A sweep that meets the page fails, and the next one gets further.
        let Ok(replies) = store.commit(after(Nanos::HOUR.times(2)), &[sweep()]) else { continue };
        let [Reply::Swept(swept)] = &replies[..] else { panic!("{replies:?}") };
        expired += swept.expired;
        if !swept.more {
            break;
        }
    }
    assert_eq!(expired, COUNT - COUNT / 3, "before the page and after it");
}

#[test]
fn a_delivery_that_the_disk_does_not_give_keeps_none_of_the_others_from_expiring() {
    const COUNT: u64 = 1_800;
    const LOST: u64 = COUNT / 2;
    let (folder, mut store) = open(Options::default());
    // Its neighbours live longer: changing them would change its page too.
    let stays = |number| number != LOST && (COUNT / 3..COUNT / 3 * 2).contains(&number);
    emit_many(&mut store, COUNT, |number| if stays(number) { Nanos::DAY } else { Nanos::HOUR });
    store.commit(after(NOTED_AFTER), &[sweep()]).unwrap();
    lose_row(folder.path(), &store, LOST);
    let later = after(Nanos::HOUR.times(2));
    let error = store.commit(later, &[sweep()]).unwrap_err();
    assert!(matches!(error, StoreError::Io { doing: "sweep", .. }), "{error}");
    let replies = store.commit(later, &[sweep()]).unwrap();
    let [Reply::Swept(swept)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(swept.expired, COUNT - COUNT / 3, "all others");
}

#[test]
fn an_event_of_which_the_disk_does_not_give_a_delivery_keeps_few_others_from_being_deleted() {
    const COUNT: u64 = 600;
    let (folder, mut store) = open(Options::default());
    emit_many(&mut store, COUNT, |_| Nanos::DAY);
    store.sql.execute_batch("UPDATE deliveries SET state = 1").unwrap();
    lose_row(folder.path(), &store, COUNT / 2);
    let later = after(Nanos::HOUR);
    let purge = Purge { settled_before: later, attempts_before: NOW, dead_before: NOW, max: 9_000 };
    // Each failure gets one event further, among the events on that page and next to it.
    let replies = (0..COUNT).find_map(|_| store.commit(later, &[Command::Purge(purge)]).ok());
    let Some([Reply::Purged(purged)]) = replies.as_deref() else { panic!("{replies:?}") };
    assert!(purged.events > COUNT / 3, "{purged:?}");
}

/// From here on the disk does not return the page of one delivery, the log's last page.
fn lose_row(folder: &Path, store: &SqliteStore, number: u64) {
    // The row keeps its length, so that no other page changes.
    let change = "UPDATE deliveries SET bytes = bytes + 1 WHERE delivery = ?1";
    assert_eq!(store.sql.execute(change, [number]).unwrap(), 1);
    let log = std::fs::OpenOptions::new().write(true).open(folder.join("store.db-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 4_096).unwrap();
    store.sql.execute_batch("PRAGMA shrink_memory").unwrap();
}

/// Overwrites a page with one delivery, which holds no other content.
fn damage_row(path: &Path, number: u64, others: &[u64]) {
    use std::os::unix::fs::FileExt as _;
    const PAGE: usize = 4_096;
    let content = std::fs::read(path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let reads = |number: u64| {
        let sql = Connection::open(path).unwrap();
        let found = sql.query_row("SELECT lane FROM deliveries WHERE delivery = ?1", [number], |_| Ok(()));
        found.is_ok()
    };
    for (place, page) in content.chunks(PAGE).enumerate().skip(1) {
        let offset = u64::try_from(place * PAGE).unwrap();
        file.write_all_at(&[0xa5; PAGE], offset).unwrap();
        if !reads(number) && others.iter().all(|other| reads(*other)) {
            return;
        }
        file.write_all_at(page, offset).unwrap();
    }
    panic!("no page is the delivery's alone");
}

#[test]
fn a_check_of_the_file_ends_where_the_log_becomes_too_long() {
    let (folder, mut store) = open(Options::default());
    store.commit(NOW, &[subscribe(), emit(1)]).unwrap();
    let reader = SqliteReader::open(&folder.path().join("store.db")).unwrap();
    assert_eq!(reader.quick_check(64 << 20), Ok(Checked::default()));
    let cut_short = reader.quick_check(1).unwrap();
    assert!(cut_short.faults.is_empty() && cut_short.unchecked.contains(&"deliveries".to_owned()));
    // The log grows during a search of a table.
    let many = "WITH RECURSIVE n(value) AS (SELECT 100 UNION ALL SELECT value + 1 FROM n LIMIT 400000)
         INSERT INTO marks SELECT value, 0, 0, 0, 0 FROM n; PRAGMA wal_checkpoint(TRUNCATE)";
    store.sql.execute_batch(many).unwrap();
    let ended = reader.moment_within(1, "check a table", |sql| {
        store.sql.execute_batch("UPDATE marks SET dead = 1 WHERE minute = 100")?;
        sql.query_row("SELECT quick_check FROM pragma_quick_check('marks')", [], |row| {
            row.get::<_, String>(0)
        })
    });
    assert_eq!(ended, Err(StoreError::TooMuch { doing: "check a table" }));
    assert!(reader.glance().is_ok(), "no bound is left behind");
}

fn after(length: Nanos) -> StoreTime {
    StoreTime(NOW.0 + length.0)
}

fn acquire() -> Command {
    Command::Acquire(Acquire {
        owner: OwnerId(1),
        lease: Nanos::HOUR,
        which: LaneSelection::All,
        homes: None,
        max: 1,
    })
}

fn claim() -> Claim {
    Claim { lane: LaneId(1), term: Term(1), max: 100, bytes_max: 1 << 20 }
}

fn sweep() -> Command {
    Command::Sweep(Sweep { max: 10_000 })
}

fn emit_until(number: u64, expires: StoreTime) -> Command {
    let Command::Emit(mut emit) = emit(number) else { panic!("it emits") };
    emit.targets[0].expires = expires;
    Command::Emit(emit)
}

fn emit_many(store: &mut SqliteStore, count: u64, ttl: impl Fn(u64) -> Nanos) {
    let wide = Bounds { rows_max: count, bytes_max: 1 << 30, when_full: WhenFull::Refuse };
    let Command::Subscribe(subscribe) = subscribe() else { panic!("it subscribes") };
    store.commit(NOW, &[Command::Subscribe(Subscribe { bounds: wide, ..subscribe })]).unwrap();
    let emits: Vec<_> = (1..=count).map(|number| emit_until(number, after(ttl(number)))).collect();
    store.commit(NOW, &emits).unwrap();
}

fn numbers(claimed: &Claimed) -> Vec<u64> {
    claimed.rows.iter().map(|row| row.delivery.0).collect()
}

fn emit(number: u64) -> Command {
    emit_body(number, Body { bytes: number.to_string().into_bytes().into() })
}

fn emit_body(number: u64, body: Body) -> Command {
    let target = Target {
        lane: LaneId(1),
        body: 0,
        due: NOW,
        expires: StoreTime(u64::MAX),
        dedupe: Nanos::ZERO,
        coalesce: None,
        signature: None,
    };
    Command::Emit(Emit {
        roster: 1,
        id: number.to_string().into(),
        id_is_new: false,
        kind: "k".into(),
        key: None,
        received: NOW,
        bodies: vec![body],
        targets: vec![target],
        atomic: false,
        withheld: false,
        outbox: None,
    })
}
