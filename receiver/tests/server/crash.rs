//! Repeated `kill -9` while deliveries flow.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::wire::try_request;
use crate::world::{Starting, World, signed};

const KILLS: usize = 12;
const SENDERS: usize = 8;

#[test]
fn a_delivery_answered_with_2xx_is_processed_once_despite_kills() {
    let world = World::new();
    let acknowledged = Mutex::new(Vec::new());
    for kill in 0..KILLS {
        let mut receiver = world.serve(&[]);
        let address = receiver.address;
        let answered = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for sender in 0..SENDERS {
                let (acknowledged, answered) = (&acknowledged, &answered);
                scope.spawn(move || {
                    for number in 0.. {
                        let id = format!("{kill}-{sender}-{number}");
                        // Repeats earlier deliveries: the sender may have missed their answers.
                        let before = format!("{}-{sender}-{}", kill.saturating_sub(1), number / 2);
                        for id in [id, before] {
                            match try_request(address, "POST", "/", &signed(&id, b"{}"), b"{}") {
                                Some(answer) if answer.status == 204 => acknowledged.lock().unwrap().push(id),
                                // Killed: the delivery may be recorded or not.
                                Some(_) | None => return,
                            }
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            // The kill meets other steps each time.
            while answered.load(Ordering::Relaxed) < kill * 11 + 3 {
                std::thread::yield_now();
            }
            receiver.kill();
        });
    }
    let receiver = world.serve(&[]);
    let acknowledged = acknowledged.into_inner().unwrap();
    for id in &acknowledged {
        assert_eq!(receiver.post(id, b"{}").status, 204);
    }
    let mut effects = BTreeMap::new();
    for id in world.settled_effects() {
        *effects.entry(id).or_insert(0) += 1;
    }
    drop(receiver);
    let twice: Vec<_> = effects.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "processed more than once: {twice:?}");
    assert!(acknowledged.len() > KILLS * KILLS, "there was work: {}", acknowledged.len());
    let lost: Vec<_> = acknowledged.iter().filter(|id| !effects.contains_key(*id)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

const FULL_AFTER_MAX: usize = 1_000;

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged_and_ends_nothing() {
    let world = World::new();
    let database = world.database();
    let mut receiver = Starting::within(600, &["serve", "--db", database.to_str().unwrap()]).listening();
    let body = [b'x'; 10_000];
    let mut acknowledged = Vec::new();
    let refused = (0..FULL_AFTER_MAX).find_map(|number| {
        let answer = receiver.post(&format!("a-{number}"), &body);
        match answer.status {
            204 => {
                acknowledged.push(format!("a-{number}"));
                None
            }
            _ => Some(answer),
        }
    });
    let refused = refused.expect("a disk that is never full shows nothing");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("30")));
    assert!(!acknowledged.is_empty(), "there was room for nothing at all");
    // A checkpoint may have freed space.
    let again = receiver.post("again", &body).status;
    assert!([204, 503].contains(&again), "it is still there, and says {again}");
    receiver.kill();
    let roomy = world.serve(&[]);
    assert_eq!(roomy.post("again", &body).status, 204);
    acknowledged.push("again".to_owned());
    let mut effects = world.settled_effects();
    effects.sort();
    acknowledged.sort();
    assert_eq!(effects, acknowledged);
}
