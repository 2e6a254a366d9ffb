use std::collections::BTreeMap;

use hookproof_sender::dispatch::{Event, LEASE_DEFAULT, MOVES_MAX, SETTLED_AFTER};
use hookproof_sender::engine::{LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::Drain;
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::node::Homes;
use hookproof_sender::store::{Command, Reader};

use crate::dispatch::world::World;

const TICK: Nanos = Nanos::from_millis(10);

struct Cluster(Vec<World>);

impl Cluster {
    fn of_one(lanes: u64) -> Self {
        let mut first = World::with(lanes);
        first.emit(&(1..=lanes).collect::<Vec<_>>());
        Self(vec![first])
    }

    fn of(nodes: u64, lanes: u64) -> Self {
        let mut cluster = Self::of_one(lanes);
        (1..nodes).for_each(|_| cluster.join());
        cluster.settle();
        cluster.assert_spread();
        cluster
    }

    fn join(&mut self) {
        let owner = u64::try_from(self.0.len()).unwrap() + 1;
        let new = self.0[0].another(owner);
        self.0.push(new);
    }

    fn pass(&mut self, length: Nanos) {
        for _ in 0..length.0.div_ceil(TICK.0) {
            for world in &mut self.0 {
                world.pass(TICK);
                world.answer(204);
            }
        }
    }

    /// A joined node counts as settled, and all moves are over.
    fn settle(&mut self) {
        self.pass(SETTLED_AFTER + Nanos::SECOND);
    }

    fn owners(&self) -> BTreeMap<LaneId, Option<OwnerId>> {
        let lanes = self.0[0].reader.lanes(None, 1_000).unwrap().items;
        lanes.into_iter().map(|lane| (lane.lane, lane.owner.map(|(owner, _)| owner))).collect()
    }

    fn homes(&self) -> BTreeMap<LaneId, Option<OwnerId>> {
        let homes = Homes::among(&self.0[0].reader.nodes().unwrap().all, StoreTime(self.0[0].now.0));
        self.owners().into_keys().map(|lane| (lane, homes.home(lane))).collect()
    }

    fn share(&self, owner: u64) -> usize {
        self.owners().values().filter(|found| **found == Some(OwnerId(owner))).count()
    }

    fn drain(&mut self, owner: u64, draining: bool) {
        self.0[0].commit(Command::Drain(Drain { owner: OwnerId(owner), draining }));
    }

    fn assert_spread(&mut self) {
        self.assert_all_go_on();
        self.assert_at_home();
    }

    fn assert_at_home(&self) {
        let (owners, homes) = (self.owners(), self.homes());
        let astray: Vec<_> = owners.iter().filter(|(lane, owner)| homes[*lane] != **owner).collect();
        assert!(astray.is_empty(), "{astray:?}");
    }

    fn record_for_all(&mut self) -> Vec<u64> {
        let now = StoreTime(self.0[0].now.0);
        let lanes: Vec<u64> = self.owners().keys().map(|lane| lane.0).collect();
        self.0[0].record(&lanes, now);
        let mut sent = Vec::new();
        for world in &mut self.0 {
            world.handle(Event::Work(lanes.iter().map(|lane| (LaneId(*lane), now)).collect()));
            sent.extend(world.sent_to());
            world.answer(204);
        }
        sent.sort_unstable();
        sent
    }

    /// Each must be sent once, by any node.
    fn assert_all_go_on(&mut self) {
        let lanes: Vec<u64> = self.owners().keys().map(|lane| lane.0).collect();
        assert_eq!(self.record_for_all(), lanes);
    }
}

#[test]
fn one_that_joins_gets_its_share_in_order_and_nothing_else_moves() {
    let mut cluster = Cluster::of_one(40);
    cluster.settle();
    assert_eq!(cluster.share(1), 40);
    for nodes in 2..=4 {
        let before = cluster.owners();
        cluster.join();
        cluster.settle();
        cluster.assert_spread();
        let after = cluster.owners();
        for (lane, owner) in &after {
            assert!(*owner == before[lane] || *owner == Some(OwnerId(nodes)), "lane {} moved", lane.0);
        }
        assert!(cluster.share(nodes) > 0, "{after:?}");
    }
    for node in &cluster.0 {
        assert!(!node.news.iter().any(|news| format!("{news:?}").starts_with("Lost")), "{:?}", node.news);
    }
    cluster.assert_all_go_on();
}

#[test]
fn nothing_is_handed_to_one_that_has_not_lived_for_a_moment() {
    let mut cluster = Cluster::of(1, 40);
    cluster.join();
    cluster.pass(Nanos(SETTLED_AFTER.0 / 2));
    assert_eq!(cluster.share(1), 40);
    // It restarts, and its settling time begins again.
    cluster.0.pop();
    cluster.0[0].commit(Command::Evict(OwnerId(2)));
    cluster.join();
    cluster.pass(Nanos(SETTLED_AFTER.0 / 2 + TICK.0));
    assert_eq!(cluster.share(1), 40);
    cluster.settle();
    cluster.assert_spread();
}

#[test]
fn few_lanes_move_at_a_time_and_all_in_the_end() {
    let lanes = 200;
    let mut cluster = Cluster::of_one(lanes);
    cluster.0[0].answer(204);
    let all: Vec<u64> = (1..=lanes).collect();
    // Each lane has an attempt in flight, so no lane can move yet.
    cluster.0[0].emit(&all);
    let mut second = cluster.0[0].another(2);
    second.pass(TICK);
    cluster.0[0].told.withdrawn.clear();
    cluster.0[0].pass(SETTLED_AFTER + TICK);
    assert_eq!(cluster.0[0].told.withdrawn.len(), MOVES_MAX);
    assert_eq!(cluster.share(1), 200, "what is under way is finished first");
    second.pass(SETTLED_AFTER);
    cluster.0.push(second);
    cluster.settle();
    cluster.assert_spread();
    assert!(cluster.share(2) > MOVES_MAX, "{}", cluster.share(2));
    cluster.assert_all_go_on();
}

#[test]
fn the_lanes_of_one_that_leaves_go_to_the_others_at_once() {
    let mut cluster = Cluster::of(3, 40);
    let before = cluster.owners();
    let mut leaves = cluster.0.pop().unwrap();
    cluster.record_for_all();
    leaves.handle(Event::Stop);
    assert!(leaves.dispatcher.is_over(|| false));
    // No node waits for a lease, or for the next search.
    cluster.pass(TICK);
    cluster.assert_at_home();
    let after = cluster.owners();
    for (lane, owner) in &before {
        assert_eq!(after[lane] == *owner, *owner != Some(OwnerId(3)), "lane {}", lane.0);
    }
    cluster.assert_all_go_on();
}

#[test]
fn the_lanes_of_one_that_is_surely_dead_go_to_their_next_homes_at_once() {
    let mut cluster = Cluster::of(3, 40);
    cluster.0.pop();
    cluster.record_for_all();
    cluster.0[0].commit(Command::Evict(OwnerId(3)));
    cluster.pass(TICK);
    cluster.assert_at_home();
    assert_eq!(cluster.share(1) + cluster.share(2), 40);
}

#[test]
fn the_lanes_of_one_that_hangs_go_to_their_next_homes_when_its_lease_is_over() {
    let mut cluster = Cluster::of(3, 40);
    let hangs = cluster.0.pop().unwrap();
    let now = StoreTime(cluster.0[0].now.0);
    cluster.record_for_all();
    let until = cluster.0[0].reader.nodes().unwrap().all[2].until;
    cluster.pass(Nanos(until.since(now).0 - TICK.0));
    assert_eq!(cluster.owners().values().filter(|owner| **owner == Some(OwnerId(3))).count(), hangs.lanes());
    cluster.pass(TICK.times(2));
    assert_eq!(cluster.share(3), 0);
    cluster.assert_at_home();
    // The node learns that it lost its lanes, and gets them back in order after its settling time.
    cluster.0.push(hangs);
    let behind = cluster.0[0].now.since(cluster.0[2].now);
    cluster.0[2].pass(behind);
    assert_eq!(cluster.0[2].lanes(), 0);
    // Its attempts stay in doubt for a while, on any owner.
    cluster.pass(Nanos::MINUTE);
    cluster.assert_spread();
    assert!(cluster.share(3) > 0);
}

#[test]
fn one_that_drains_hands_everything_over_and_takes_nothing_until_it_may() {
    let mut cluster = Cluster::of(3, 40);
    let before = cluster.owners();
    cluster.drain(2, true);
    cluster.pass(TICK.times(10));
    assert_eq!(cluster.share(2), 0);
    cluster.assert_spread();
    cluster.assert_all_go_on();
    // Even if the store forgets the node for a while, as after a hang.
    let forgotten = Nanos(LEASE_DEFAULT.0 + TICK.0);
    let mut drained = cluster.0.remove(1);
    cluster.pass(forgotten);
    cluster.0[0].commit(Command::Sweep(hookproof_sender::store::command::Sweep { max: 1 }));
    assert_eq!(cluster.0[0].reader.nodes().unwrap().all.len(), 2);
    drained.pass(forgotten);
    cluster.0.insert(1, drained);
    cluster.settle();
    assert_eq!(cluster.0[0].reader.nodes().unwrap().all.len(), 3);
    assert_eq!(cluster.share(2), 0);
    cluster.drain(2, false);
    cluster.settle();
    cluster.assert_spread();
    assert_eq!(cluster.owners(), before, "each lane is where it was");
}

#[test]
fn the_only_one_gives_everything_back_if_it_is_told_to_and_goes_on_if_it_is_told_that() {
    let mut cluster = Cluster::of(1, 3);
    cluster.drain(1, true);
    cluster.pass(TICK);
    assert_eq!(cluster.owners().values().flatten().count(), 0);
    cluster.record_for_all();
    cluster.pass(LEASE_DEFAULT);
    assert_eq!(cluster.0[0].counts(1).waiting, 1);
    cluster.drain(1, false);
    cluster.pass(TICK);
    assert_eq!((1..=3).map(|lane| cluster.0[0].counts(lane).waiting).sum::<u64>(), 0);
}

#[test]
fn a_lane_whose_home_cannot_serve_it_is_served_by_the_next() {
    let mut cluster = Cluster::of(2, 10);
    let lane = |cluster: &Cluster, owner| {
        let found = cluster.owners().into_iter().find(|(_, found)| *found == Some(OwnerId(owner)));
        found.unwrap().0
    };
    let one = lane(&cluster, 2);
    // The setting needs a region's secret, which only the first node has.
    cluster.0[0].know_region();
    cluster.0[0].need_region(one);
    cluster.0[1].learn_of_subscribers();
    cluster.pass(TICK.times(10));
    cluster.assert_spread();
    assert_eq!(cluster.owners()[&one], Some(OwnerId(1)));
    cluster.pass(LEASE_DEFAULT);
    assert_eq!(cluster.owners()[&one], Some(OwnerId(1)), "nobody takes it to and fro");
}

#[test]
fn one_with_a_short_lease_lives_no_less_for_one_with_a_long_one() {
    let first = World::with(40);
    let second = first.another_for(2, Nanos::SECOND);
    let mut cluster = Cluster(vec![first, second]);
    // No node has a lane yet, and the first renews its lease later.
    cluster.pass(Nanos(LEASE_DEFAULT.0 / 6));
    cluster.assert_spread();
    assert!(cluster.share(2) > 0);
    // The other node does not wait that long either.
    cluster.0.pop();
    cluster.pass(Nanos::SECOND.times(2));
    cluster.record_for_all();
    assert_eq!(cluster.share(1), 40);
}
