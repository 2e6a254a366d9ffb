use std::io::{BufRead, BufReader, Write};
use std::process::{Command as Process, Stdio};

use hookproof_sender::store::command::Fate;
use hookproof_sender::store::read::{Lanes, Place};
use hookproof_sender::store::{Command, Reply};

use crate::store::sqlite::File;
use crate::store::world::{Backend, LEASE, ME, WIDE, World, claim, later};

const PLACE: &str = "HOOKPROOF_TEST_STORE";

#[test]
#[ignore = "runs in a process of its own, started and killed by the test below"]
fn works_until_it_is_killed() {
    let Some(path) = std::env::var_os(PLACE) else { return };
    let mut world = World::<File>::over(File::at(path.into()));
    world.now = later(world.backend.latest(), LEASE);
    let owner = hookproof_sender::store::lane::OwnerId(u64::from(std::process::id()));
    let taken = world.acquire(owner, hookproof_sender::store::command::LaneSelection::All);
    let (lane, term) = (taken[0].lane, taken[0].term);
    let mut told = std::io::stdout();
    for number in 0_u64.. {
        let mut event = world.event(&[lane]);
        event.id = format!("{}-{number}", std::process::id()).into();
        let commands = [Command::Emit(event.clone()), claim(lane, term, 3)];
        let replies = world.store.commit(world.now, &commands).unwrap();
        assert!(matches!(replies[0], Reply::Emitted(_)), "{replies:?}");
        writeln!(told, "emitted {}", event.id).unwrap();
        let Reply::Claimed(claimed) = &replies[1] else { panic!("{replies:?}") };
        let fate = Fate::Delivered;
        let settle =
            claimed.rows.iter().map(|row| world.settlement(lane, term, row.delivery, fate)).collect();
        world.store.commit(world.now, &[Command::Settle(settle)]).unwrap();
        for row in &claimed.rows {
            writeln!(told, "delivered {}", row.event).unwrap();
        }
        world.pass(hookproof_sender::engine::Nanos(1));
    }
}

#[test]
fn an_event_acknowledged_before_a_kill_survives_it() {
    let backend = File::new(Default::default());
    World::over(backend.again()).new_lane(WIDE);
    for kill in 0..12_usize {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::kills::works_until_it_is_killed", "--ignored", "--nocapture"])
            .env(PLACE, backend.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut told = Vec::new();
        for line in lines {
            if let Some((what, event)) =
                line.split_once(' ').filter(|(what, _)| ["emitted", "delivered"].contains(what))
            {
                told.push((what == "delivered", event.to_owned()));
            }
            // The pipe lags behind the child, so the kill meets it at any point.
            if told.len() == kill * kill * 5 + 1 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(told.len() > kill, "it was killed at work");
        let mut world = World::<File>::over(backend.again());
        world.check_totals();
        for (delivered, event) in &told {
            let found = world.reader.deliveries_of_event(event, &Lanes::All, None, 2).unwrap().items;
            assert_eq!(found.len(), 1, "event {event} after kill {kill}");
            assert!(!delivered || found[0].place == Place::Delivered, "{:?}", found[0]);
        }
        world.now = later(world.backend.latest(), LEASE);
        let lane = world.lanes()[0].lane;
        let term = world.own(ME, lane);
        let waiting = world.counts(lane).waiting;
        assert_eq!(u64::try_from(world.claim(lane, term).len()).unwrap(), waiting);
        world.persist(lane, term, b"", true);
    }
}
