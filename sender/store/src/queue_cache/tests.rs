//! The parts and their lifecycle.

use std::sync::Arc;

use super::*;
use crate::command::Body;

const LANE: LaneId = LaneId(1);
const OWNER: OwnerId = OwnerId(7);
const TERM: Term = Term(1);
const NOW: StoreTime = StoreTime::from_secs(100);

/// A file that nobody else changes.
const FILE: FileVersion = FileVersion { arrivals: 7, data: 1 };

/// A server's version of a queue in which one delivery arrived at each of these times.
fn version(dues: &[u64]) -> QueueVersion {
    let mut version = QueueVersion::NEW;
    dues.iter().for_each(|due| version.arrive(StoreTime(*due)));
    version
}

fn row(delivery: u64, bytes: usize) -> ClaimedRow {
    ClaimedRow {
        delivery: DeliveryId(delivery),
        attempts: 0,
        expires: StoreTime(u64::MAX),
        event: "e".into(),
        kind: "k".into(),
        received: NOW,
        body: Body { bytes: Arc::from(vec![b'x'; bytes]) },
        signature: None,
    }
}

/// An answer with these deliveries, each due at ten times its number, and nothing before its end.
fn answer(deliveries: &[u64]) -> Answer {
    let rows: Vec<_> = deliveries.iter().map(|one| row(*one, 1)).collect();
    let known = deliveries.iter().map(|one| Some(Waiting::new(1, StoreTime(10 * one)))).collect();
    let cursor = deliveries.last().map(|last| (StoreTime(10 * last), DeliveryId(*last)));
    let claimed = Claimed { lane: LANE, term: TERM, rows, next: None, too_long: None };
    Answer { claimed, known, cursor, skipped_after: None }
}

fn beside(cache: &mut QueueCache, deliveries: &[u64]) {
    let view = cache.view(FILE.arrivals);
    cache.claim_beside(NOW, answer(deliveries), &view);
}

/// On a file. The lane is owned, and these deliveries are claimed.
fn on_file(deliveries: &[u64]) -> QueueCache {
    let mut cache = QueueCache::default();
    cache.begin(NOW, Some(FILE));
    cache.own(LANE, OWNER, TERM);
    cache.claim(answer(deliveries), None);
    cache.commit(Some((FILE, LaneRows::new())));
    cache
}

/// On a server. Deliveries 1 to 3 are claimed.
fn on_server() -> (QueueCache, QueueVersion) {
    let (mut cache, mut version) = (QueueCache::default(), version(&[10]));
    cache.begin(NOW, None);
    cache.own(LANE, OWNER, TERM);
    cache.search(LANE, TERM, &version);
    cache.claim(answer(&[1, 2, 3]), Some(&version));
    cache.compare(LANE, TERM, &mut version);
    cache.commit(None);
    (cache, version)
}

fn commit(cache: &mut QueueCache) {
    cache.commit(Some((FILE, LaneRows::new())));
}

fn claimed(cache: &QueueCache) -> Vec<u64> {
    (0..10).filter(|one| cache.has(LANE, DeliveryId(*one))).collect()
}

fn free_beside(cache: &QueueCache) -> Vec<u64> {
    let is_free = |one: &u64| cache.standing_beside(LANE, DeliveryId(*one), NOW) == Standing::Free;
    (0..6).filter(is_free).collect()
}

fn knows(cache: &mut QueueCache, delivery: u64) -> bool {
    cache.known(LANE, TERM, DeliveryId(delivery)).is_some()
}

fn read_from(cache: &mut QueueCache) -> Option<u64> {
    let claim = Claim { lane: LANE, term: TERM, max: 1, bytes_max: 1 };
    let view = cache.view(FILE.arrivals);
    cache.read_from(&claim, &view).map(|due| due.0)
}

fn search(cache: &mut QueueCache, version: &QueueVersion) -> ((u64, u64), usize) {
    let Search { place: (due, delivery), claimed_after } = cache.search(LANE, TERM, version);
    ((due.0, delivery.0), claimed_after)
}

#[test]
fn a_commit_rolled_back_leaves_the_claims_and_no_other_knowledge() {
    let mut cache = on_file(&[1, 2]);
    cache.begin(NOW, Some(FILE));
    assert!(knows(&mut cache, 1) && knows(&mut cache, 2));
    cache.settle(LANE, TERM, DeliveryId(1));
    cache.claim(answer(&[3]), None);
    beside(&mut cache, &[5]);
    cache.own(LANE, OWNER, Term(2));
    cache.lose(LANE, Term(2));
    assert!(claimed(&cache).is_empty());
    cache.roll_back();
    assert_eq!(claimed(&cache), [1, 2, 5], "one claimed beside it stays claimed");
    assert_eq!(cache.owned_by(OWNER), [(LANE, TERM)]);
    assert!([1, 2, 5].into_iter().all(|one| !knows(&mut cache, one)));
    assert_eq!(read_from(&mut cache), None);
}

#[test]
fn a_delivery_that_a_commit_recorded_is_handed_out_from_memory_unless_it_is_rolled_back() {
    let mut cache = on_file(&[]);
    let claim = Claim { lane: LANE, term: TERM, max: 9, bytes_max: 9 };
    let record = |cache: &mut QueueCache, number| {
        cache.begin(NOW, Some(FILE));
        beside(cache, &[]);
        cache.record(LANE, StoreTime(10 * number), Some(|| row(number, 1)));
    };
    record(&mut cache, 1);
    cache.roll_back();
    record(&mut cache, 2);
    commit(&mut cache);
    let claimed = cache.claim_recorded(&claim, NOW).unwrap();
    assert_eq!(claimed.rows.iter().map(|row| row.delivery.0).collect::<Vec<_>>(), [2]);
    assert_eq!(cache.known(LANE, TERM, DeliveryId(2)), Some(Waiting::new(1, StoreTime(20))));
}

#[test]
fn a_commit_rolled_back_leaves_scans_and_lost_lanes_as_they_were() {
    let mut cache = on_file(&[]);
    let run = |cache: &mut QueueCache, letter, taken| {
        cache.begin(NOW, Some(FILE));
        cache.scans.at.letter = Some(DeliveryId(letter));
        cache.see_taken(OWNER, taken);
    };
    let found = |cache: &QueueCache| (cache.scans.at.letter, cache.taken_seen(OWNER));
    run(&mut cache, 5, Some(1));
    commit(&mut cache);
    for taken in [Some(2), None] {
        run(&mut cache, 9, taken);
        assert_eq!(found(&cache), (Some(DeliveryId(9)), taken));
        cache.roll_back();
        assert_eq!(found(&cache), (Some(DeliveryId(5)), Some(1)));
    }
}

#[test]
fn a_commit_that_ended_in_neither_way_is_rolled_back_by_the_next() {
    let mut cache = on_file(&[1]);
    cache.begin(NOW, Some(FILE));
    cache.settle(LANE, TERM, DeliveryId(1));
    cache.begin(NOW, Some(FILE));
    assert_eq!(claimed(&cache), [1]);
    assert!(!knows(&mut cache, 1));
}

#[test]
fn a_delivery_that_a_commit_moves_is_not_claimed_beside_it() {
    let mut cache = on_file(&[1, 2]);
    cache.begin(NOW, Some(FILE));
    cache.settle(LANE, TERM, DeliveryId(1));
    cache.leave(LANE, DeliveryId(3));
    cache.claim(answer(&[4]), None);
    assert_eq!(free_beside(&cache), [0, 5]);
    assert_eq!(
        cache.standing(LANE, DeliveryId(1), NOW),
        Standing::Free,
        "the commit itself may claim it again"
    );
    let standing = [1, 2].map(|one| cache.standing_beside(LANE, DeliveryId(one), NOW));
    assert_eq!(standing, [Standing::Moving, Standing::Claimed]);
    beside(&mut cache, &[5]);
    commit(&mut cache);
    assert_eq!(free_beside(&cache), [0, 1, 3]);
}

#[test]
fn a_state_is_known_until_somebody_may_have_changed_it() {
    type Change = fn(&mut QueueCache);
    let changes: [(&str, Change); 4] = [
        ("another process has written", |cache| {
            cache.begin(NOW, Some(FileVersion { data: 2, ..FILE }));
        }),
        ("a command that is not for every day", |cache| {
            cache.run(&Command::Remove(LaneId(9)));
        }),
        ("it is given up", |cache| cache.leave(LANE, DeliveryId(1))),
        ("it is settled", |cache| assert!(cache.settle(LANE, TERM, DeliveryId(1)))),
    ];
    for (what, change) in changes {
        let mut cache = on_file(&[1]);
        cache.begin(NOW, Some(FILE));
        assert!(knows(&mut cache, 1), "{what}");
        assert_eq!(cache.known(LANE, Term(2), DeliveryId(1)), None, "another term");
        change(&mut cache);
        assert!(!knows(&mut cache, 1), "{what}");
    }
}

#[test]
fn a_new_term_forgets_the_claims_of_the_old_one_which_gives_nothing_back() {
    let mut cache = on_file(&[1, 2]);
    cache.begin(NOW, Some(FILE));
    cache.own(LANE, OWNER, Term(2));
    assert!(claimed(&cache).is_empty());
    let fifth = Claimed { term: Term(2), ..answer(&[5]).claimed };
    cache.claim(Answer { claimed: fifth, ..answer(&[5]) }, None);
    assert!(!cache.settle(LANE, TERM, DeliveryId(5)));
    cache.lose(LANE, TERM);
    assert_eq!(claimed(&cache), [5]);
}

#[test]
fn a_claim_from_a_file_begins_where_the_last_one_ended_until_another_process_commits() {
    let mut cache = on_file(&[1, 2]);
    assert_eq!(read_from(&mut cache), Some(20));
    let claim = Claim { lane: LANE, term: TERM, max: 1, bytes_max: 1 };
    let later = cache.view(FILE.arrivals + 1);
    assert_eq!(cache.read_from(&claim, &later), None, "it has read more than is known");
    cache.claim_beside(NOW, answer(&[6]), &later);
    assert_eq!(read_from(&mut cache), Some(20), "such a claim moves nothing");
    cache.begin(NOW, Some(FileVersion { data: 2, ..FILE }));
    commit(&mut cache);
    assert_eq!(read_from(&mut cache), None, "it may have made one due sooner");
}

#[test]
fn a_cursor_goes_back_to_the_additions_of_a_commit_once_it_is_durable() {
    let mut cache = on_file(&[5]);
    cache.begin(NOW, Some(FILE));
    cache.arrive(LANE, StoreTime(40));
    cache.arrive(LANE, StoreTime(30));
    cache.arrive(LaneId(2), StoreTime(1));
    // A claim beside the commit does not see its row yet, and gets further.
    beside(&mut cache, &[6]);
    assert_eq!(read_from(&mut cache), Some(60));
    commit(&mut cache);
    assert_eq!(read_from(&mut cache), Some(30));
    cache.begin(NOW, Some(FILE));
    cache.arrive(LANE, StoreTime(90));
    commit(&mut cache);
    assert_eq!(read_from(&mut cache), Some(30), "one due later changes nothing");
}

#[test]
fn a_cursor_goes_back_to_deliveries_that_were_skipped_once_the_commit_ended() {
    let (mut cache, mut version) = on_server();
    cache.begin(NOW, None);
    for due in [20, 10, 25] {
        let skipped_after = Some((StoreTime(due), DeliveryId(0)));
        let view = View { version, is_current: true };
        cache.claim_beside(NOW, Answer { skipped_after, ..answer(&[]) }, &view);
    }
    assert_eq!(search(&mut cache, &version).0, (30, 3), "it is still under way");
    cache.commit(None);
    assert_eq!(search(&mut cache, &version), ((10, 0), 3));
    cache.begin(NOW, None);
    cache.compare(LANE, TERM, &mut version);
    cache.claim(answer(&[4]), Some(&version));
    cache.commit(None);
    assert_eq!(search(&mut cache, &version).0, (40, 4), "once is enough");
}

#[test]
fn a_claim_from_a_server_begins_where_the_last_one_ended() {
    let (mut cache, mut version) = on_server();
    assert_eq!(search(&mut cache, &version), ((30, 3), 0));
    [40, 25, 27].into_iter().for_each(|due| version.arrive(StoreTime(due)));
    assert_eq!(search(&mut cache, &version), ((25, 0), 1), "3 lies beyond");
    let (mut cache, mut version) = on_server();
    version.disturbed += 1;
    assert_eq!(search(&mut cache, &version), ((30, 3), 3), "each may have moved");
    assert!(!knows(&mut cache, 2));
}

#[test]
fn another_term_or_a_failure_ends_all_knowledge_of_a_queue_on_a_server() {
    let (mut cache, version) = on_server();
    assert!(knows(&mut cache, 2) && cache.may_know(LANE, TERM, DeliveryId(2)));
    cache.begin(NOW, None);
    cache.compare(LANE, Term(2), &mut QueueVersion::default());
    assert!(!knows(&mut cache, 2) && !cache.may_know(LANE, TERM, DeliveryId(2)));
    cache.roll_back();
    let (mut cache, _) = on_server();
    cache.begin(NOW, None);
    cache.roll_back();
    assert!(!knows(&mut cache, 2));
    assert_eq!(search(&mut cache, &version), ((10, 0), 3), "from the first that waits");
}

#[test]
fn the_lower_bound_of_a_queue_covers_its_claimed_deliveries() {
    let (mut cache, mut version) = on_server();
    assert_eq!(version.head, StoreTime(10));
    let mut settle = |delivery| {
        cache.begin(NOW, None);
        cache.settle(LANE, TERM, DeliveryId(delivery));
        cache.commit(None);
        cache.compare(LANE, TERM, &mut version);
        version.head.0
    };
    assert_eq!([1, 2, 3].map(&mut settle), [20, 30, 30], "the rest is due later");
    version.arrive(StoreTime(15));
    assert_eq!(version.head, StoreTime(15));
    cache.compare(LANE, TERM, &mut version);
    assert_eq!(version.head, StoreTime(15));
}

#[test]
fn a_delivery_moved_by_a_commit_that_ended_during_a_claim_is_skipped_by_that_claim() {
    let ends: [fn(&mut QueueCache); 2] = [|cache| cache.commit(None), QueueCache::roll_back];
    for end in ends {
        let (mut cache, version) = on_server();
        cache.begin_claim();
        let turns = cache.turns();
        cache.begin(NOW, None);
        cache.leave(LANE, DeliveryId(5));
        end(&mut cache);
        assert_ne!(cache.turns(), turns, "the claim may have read from before the commit");
        assert_eq!(cache.standing_beside(LANE, DeliveryId(5), NOW), Standing::Moving);
        let view = View { version, is_current: false };
        let answered = cache.claim_beside(NOW, answer(&[5, 6]), &view);
        assert_eq!(answered.rows.iter().map(|row| row.delivery.0).collect::<Vec<_>>(), [6]);
        assert!(knows(&mut cache, 6) || version.disturbed == 0);
        cache.begin_claim();
        assert_eq!(cache.standing_beside(LANE, DeliveryId(5), NOW), Standing::Free, "it is read anew");
    }
}

#[test]
fn an_unreadable_delivery_is_skipped_for_a_while_within_a_bound() {
    let mut unreadable = Unreadable::default();
    let standing = |unreadable: &Unreadable, delivery, now: StoreTime| {
        unreadable.or(DeliveryId(delivery), now, Standing::Free)
    };
    let later = StoreTime(NOW.0 + Unreadable::PAUSE.0);
    unreadable.record_failure(DeliveryId(1), NOW);
    assert_eq!(standing(&unreadable, 1, NOW), Standing::Unreadable(later));
    assert_eq!(unreadable.or(DeliveryId(1), NOW, Standing::Claimed), Standing::Claimed);
    assert_eq!(standing(&unreadable, 2, NOW), Standing::Free);
    assert_eq!(standing(&unreadable, 1, later), Standing::Free);
    let max = u64::try_from(Unreadable::ROWS_MAX).unwrap();
    (2..=max + 1).for_each(|delivery| unreadable.record_failure(DeliveryId(delivery), StoreTime(NOW.0 + 1)));
    assert_eq!(standing(&unreadable, 1, NOW), Standing::Free, "the first makes room");
}

#[test]
fn the_rows_of_lanes_are_known_until_another_connection_writes_or_a_commit_fails() {
    let mut cache = on_file(&[]);
    let rows = || LaneRows::from([(LANE, None)]);
    cache.begin(NOW, Some(FILE));
    cache.commit(Some((FILE, rows())));
    assert_eq!(cache.begin(NOW, Some(FILE)).len(), 1);
    cache.commit(Some((FILE, rows())));
    assert!(cache.begin(NOW, Some(FileVersion { data: 2, ..FILE })).is_empty());
    cache.commit(Some((FILE, rows())));
    cache.begin(NOW, Some(FILE));
    cache.roll_back();
    assert!(cache.begin(NOW, Some(FILE)).is_empty());
}
