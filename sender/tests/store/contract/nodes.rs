use std::collections::BTreeSet;
use std::sync::Arc;

use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::store::command::{Acquire, Drain, LaneSelection, Renew, Sweep};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::node::Homes;
use hookproof_sender::store::node::{Announcement, Node};
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, LEASE, ME, WIDE, World, YOU};

const ALMOST: Nanos = Nanos(LEASE.0 - 1);

fn announcement(name: &str) -> Announcement {
    Announcement {
        name: name.into(),
        version: "1.2.3".into(),
        address: Some("127.0.0.1:8080".into()),
        unable: Arc::default(),
        draining: false,
    }
}

fn announce<B: Backend>(world: &mut World<B>, owner: OwnerId, said: Announcement) -> Vec<Node> {
    let announce = Some(Arc::new(said));
    let reply = world.one(Command::Renew(Renew { owner, lease: LEASE, announce }));
    let Reply::Renewed(renewed) = reply else { panic!("{reply:?}") };
    let (answered, read) = (renewed.nodes, world.reader.nodes().unwrap());
    assert_eq!((&answered.all, answered.changes, answered.at), (&read.all, read.changes, read.at));
    answered.all
}

fn has_changed<B: Backend>(world: &World<B>, seen: &mut u64) -> bool {
    let nodes = world.reader.glance().unwrap().nodes;
    std::mem::replace(seen, nodes) != nodes
}

fn drain<B: Backend>(world: &mut World<B>, owner: OwnerId, draining: bool) -> Reply {
    world.one(Command::Drain(Drain { owner, draining }))
}

pub(super) fn a_node_is_told_as_it_announced_itself<B: Backend>() {
    let mut world = World::<B>::new();
    let mut seen = world.reader.glance().unwrap().nodes;
    let (came, announced) = (world.now, announcement("first"));
    let until = |world: &World<B>| crate::store::world::later(world.now, LEASE);
    let me = Node { owner: ME, announced: announced.clone(), since: came, until: until(&world) };
    assert_eq!(announce(&mut world, ME, announced.clone()), std::slice::from_ref(&me));
    assert!(has_changed(&world, &mut seen));
    world.pass(Nanos::SECOND);
    let you = Node { owner: YOU, announced: announcement("second"), since: world.now, until: until(&world) };
    assert_eq!(announce(&mut world, YOU, announcement("second")), [me.clone(), you.clone()]);
    assert!(has_changed(&world, &mut seen));
    let me = Node { until: until(&world), ..me };
    assert_eq!(announce(&mut world, ME, announced), [me, you]);
    assert!(!has_changed(&world, &mut seen));
}

pub(super) fn a_node_may_say_something_else_of_itself<B: Backend>() {
    let mut world = World::<B>::new();
    let since = world.now;
    announce(&mut world, ME, announcement("first"));
    let mut seen = world.reader.glance().unwrap().nodes;
    world.pass(Nanos::SECOND);
    let unable = Arc::new(BTreeSet::from([LaneId(3), LaneId(1), LaneId(70_000)]));
    let announced = Announcement { address: None, unable, ..announcement("other") };
    let nodes = announce(&mut world, ME, announced.clone());
    assert_eq!((&nodes[0].announced, nodes[0].since), (&announced, since));
    assert!(has_changed(&world, &mut seen));
}

pub(super) fn an_owner_without_an_announcement_is_no_node<B: Backend>() {
    let mut world = World::<B>::new();
    world.own_lane(WIDE);
    world.renew(ME);
    assert_eq!(world.reader.nodes().unwrap().all, []);
    announce(&mut world, ME, announcement("first"));
    world.pass(ALMOST);
    world.renew(ME);
    assert!(world.reader.nodes().unwrap().all[0].lives(crate::store::world::later(world.now, ALMOST)));
}

pub(super) fn a_node_lives_until_its_lease_ends_and_has_come_anew_after_that<B: Backend>() {
    let mut world = World::<B>::new();
    announce(&mut world, ME, announcement("first"));
    world.pass(ALMOST);
    assert!(world.reader.nodes().unwrap().all[0].lives(world.now));
    world.pass(Nanos(1));
    assert!(!world.reader.nodes().unwrap().all[0].lives(world.now));
    let mut seen = world.reader.glance().unwrap().nodes;
    let nodes = announce(&mut world, ME, announcement("first"));
    assert_eq!((nodes[0].since, nodes[0].lives(world.now)), (world.now, true));
    assert!(has_changed(&world, &mut seen));
}

pub(super) fn a_process_that_left_is_no_node<B: Backend>() {
    let mut world = World::<B>::new();
    announce(&mut world, ME, announcement("first"));
    announce(&mut world, YOU, announcement("second"));
    let lane = world.new_lane(WIDE);
    world.own(ME, lane);
    let mut seen = world.reader.glance().unwrap().nodes;
    world.one(Command::Retire(ME));
    assert!(has_changed(&world, &mut seen));
    assert_eq!(world.reader.nodes().unwrap().all.iter().map(|node| node.owner).collect::<Vec<_>>(), [YOU]);
    assert_eq!(world.acquire(YOU, LaneSelection::All), [], "it keeps its lanes until it hands them back");
    world.one(Command::Retire(ME));
    assert!(!has_changed(&world, &mut seen), "it was none any more");
    world.one(Command::Evict(YOU));
    assert!(has_changed(&world, &mut seen));
    assert_eq!(world.reader.nodes().unwrap().all, []);
    announce(&mut world, YOU, announcement("second"));
    world.pass(LEASE);
    world.one(Command::Sweep(Sweep { max: 1 }));
    assert_eq!(world.reader.nodes().unwrap().all, []);
}

pub(super) fn an_operator_drains_a_node_and_lets_it_go_on<B: Backend>() {
    let mut world = World::<B>::new();
    assert_eq!(drain(&mut world, ME, true), Reply::Refused(Refusal::UnknownNode(ME)));
    announce(&mut world, ME, announcement("first"));
    let mut seen = world.reader.glance().unwrap().nodes;
    for draining in [true, false] {
        assert_eq!(drain(&mut world, ME, draining), Reply::Done);
        assert!(has_changed(&world, &mut seen));
        assert_eq!(drain(&mut world, ME, draining), Reply::Done);
        assert!(!has_changed(&world, &mut seen), "it was so already");
        let nodes = announce(&mut world, ME, announcement("first"));
        assert_eq!(nodes[0].announced.draining, draining);
        assert_eq!(nodes[0].takes_lanes(), !draining);
    }
    world.one(Command::Evict(ME));
    assert_eq!(drain(&mut world, ME, true), Reply::Refused(Refusal::UnknownNode(ME)));
}

pub(super) fn a_node_that_was_forgotten_says_itself_that_it_drains<B: Backend>() {
    let mut world = World::<B>::new();
    announce(&mut world, ME, announcement("first"));
    world.pass(LEASE);
    world.one(Command::Sweep(Sweep { max: 1 }));
    let nodes = announce(&mut world, ME, Announcement { draining: true, ..announcement("first") });
    assert!(nodes[0].announced.draining);
    // From then on the operator's drain state counts.
    drain(&mut world, ME, false);
    let nodes = announce(&mut world, ME, Announcement { draining: true, ..announcement("first") });
    assert!(!nodes[0].announced.draining);
}

pub(super) fn a_request_for_own_lanes_returns_no_lane_of_another<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: Vec<LaneId> = (0..20).map(|_| world.new_lane(WIDE)).collect();
    world.emit(&lanes);
    announce(&mut world, ME, announcement("first"));
    let nodes = announce(&mut world, YOU, announcement("second"));
    let homes = Arc::new(Homes::among(&nodes, world.now));
    let of = |owner| lanes.iter().copied().filter(|lane| homes.is_home(*lane, owner)).collect::<Vec<_>>();
    assert!(of(ME).len() > 3 && of(YOU).len() > 3, "{homes:?}");
    let mut ask = |owner, which: LaneSelection, max| {
        let homes = Some(Arc::clone(&homes));
        let reply = world.one(Command::Acquire(Acquire { owner, lease: LEASE, which, homes, max }));
        let Reply::Acquired(taken) = reply else { panic!("{reply:?}") };
        taken.iter().map(|taken| taken.lane).collect::<Vec<_>>()
    };
    // Other nodes' lanes lie between.
    assert_eq!(ask(ME, LaneSelection::WithWork { after: LaneId(0) }, 2), of(ME)[..2]);
    assert_eq!(ask(ME, LaneSelection::WithWork { after: of(ME)[1] }, 1_000), of(ME)[2..]);
    assert_eq!(ask(YOU, LaneSelection::These(of(ME)), 1_000), []);
    assert_eq!(ask(YOU, LaneSelection::These(lanes.clone()), 3), of(YOU)[..3]);
    assert_eq!(ask(YOU, LaneSelection::All, 1_000), of(YOU)[3..]);
}

pub(super) fn a_lane_that_is_handed_back_is_noticed<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut seen = world.reader.glance().unwrap().nodes;
    world.persist(lane, term, b"state", false);
    assert!(!has_changed(&world, &mut seen));
    world.persist(lane, term, b"state", true);
    assert!(has_changed(&world, &mut seen));
    world.persist(lane, term, b"state", true);
    assert!(!has_changed(&world, &mut seen), "it was refused");
}
